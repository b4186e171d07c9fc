package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxLong  = 200_000   // characters of a /long reply
	maxSleep = time.Hour // of /sleep
)

// Echo is the built-in agent: it answers with the text that came, and its commands exercise what an agent can do, so
// that a gateway is tried, tested and loaded without a model and without a network. The zero value is ready.
type Echo struct{}

// A command is the first word of a text, in small letters.
type command struct {
	name  string
	usage string // after the name, in the list of /help
	run   func(ctx context.Context, args string, emit func(Event)) (reply string, err error)
}

// commands stand in the order of /help.
var commands = []command{
	{"/help", "this list", help},
	{"/stream", "TEXT: TEXT, streamed word by word", stream},
	{"/long", "N: a reply of exactly N characters, at most 200000", long},
	{"/sleep", "SECONDS TEXT: TEXT after a while, at most 3600 seconds", sleep},
	{"/fail", "the turn fails", fail},
	{"/approve", "COMMAND: asks whether COMMAND may run", show(approve)},
	{"/confirm", "TEXT: asks for a confirmation of TEXT", show(confirm)},
	{"/ask", "QUESTION | A | B: lets you choose, or write an answer of your own", show(clarify)},
	{"/ttl", "SECONDS before one of these three: the card lives that long, at most 86400 seconds", ttl},
	{"/send", "KIND BYTES: a file (" + strings.Join(kinds(), ", ") + "), at most 8388608 bytes, 1024 if you give no number", send},
}

var (
	errArguments = errors.New("bad arguments")
	errFail      = errors.New("the turn was told to fail")
)

// Instant implements the interface of that name: a text that is no command comes back at once.
func (Echo) Instant(t *Turn) (string, bool) {
	name, _ := word(t.Text)
	return t.Text, t.File == nil && !strings.HasPrefix(name, "/")
}

// Ask implements Agent: t.Text comes back, white space included, unless it begins with a command. A file comes back
// whatever stands beside it.
func (Echo) Ask(ctx context.Context, t *Turn, emit func(Event)) (string, error) {
	if t.File != nil {
		return giveBack(t, emit)
	}
	name, args := word(t.Text)
	if !strings.HasPrefix(name, "/") {
		return t.Text, nil
	}
	for i := range commands {
		if c := &commands[i]; c.name == name {
			reply, err := c.run(ctx, args, emit)
			if err != nil {
				return "", fmt.Errorf("echo %s: %w", c.name, err)
			}
			return reply, nil
		}
	}
	return t.Text, nil
}

// word splits off the first word of text; rest begins after the white space that follows it.
func word(text string) (first, rest string) {
	text = strings.TrimLeftFunc(text, unicode.IsSpace)
	end := strings.IndexFunc(text, unicode.IsSpace)
	if end < 0 {
		return text, ""
	}
	return text[:end], strings.TrimLeftFunc(text[end:], unicode.IsSpace)
}

var helpText string // the commands, one a line

func init() { // not in place: commands refers to help
	var b strings.Builder
	for _, c := range commands {
		b.WriteString(c.name + " " + c.usage + "\n")
	}
	helpText = b.String() + "Any other text comes back as it is."
}

func help(context.Context, string, func(Event)) (string, error) { return helpText, nil }

func stream(ctx context.Context, args string, emit func(Event)) (string, error) {
	if args == "" {
		return "", errArguments
	}
	for args != "" && ctx.Err() == nil {
		_, rest := word(args)
		emit(Event{Kind: Delta, Text: args[:len(args)-len(rest)]})
		args = rest
	}
	return "", ctx.Err()
}

func sleep(ctx context.Context, args string, _ func(Event)) (string, error) {
	seconds, text := word(args)
	d, err := time.ParseDuration(seconds + "s")
	if err != nil || strings.Trim(seconds, "0123456789.") != "" || d > maxSleep || text == "" {
		return "", errArguments // err holds what the device sent
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-timer.C:
		return text, nil
	}
}

func fail(context.Context, string, func(Event)) (string, error) { return "", errFail }

func long(_ context.Context, args string, _ func(Event)) (string, error) {
	number, rest := word(args)
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n < 1 || n > maxLong || rest != "" {
		return "", errArguments // err holds what the device sent
	}
	return longText(int(n)), nil
}

// longWords go round and round in a long reply: whatever is cut from it shall meet more than ASCII.
var longWords = []string{
	"every", "word", "слово", "of", "this", "reply", "ответ", "has", "its", "own", "длина", "👩‍👩‍👧‍👦", "so", "a", "cut",
	"разрез", "falls", "между", "words", "👩🏽‍🚀", "never", "внутри", "them",
}

// longText is a text of n characters: words in lines and paragraphs, the last word filled up with letters.
func longText(n int) string {
	var b strings.Builder
	b.Grow(2 * n)
	for i := 0; ; i++ {
		w, space := longWords[i%len(longWords)], " "
		switch {
		case i%67 == 66:
			space = "\n\n"
		case i%13 == 12:
			space = "\n"
		}
		chars := utf8.RuneCountInString(w) + len(space)
		if chars >= n {
			break
		}
		b.WriteString(w)
		b.WriteString(space)
		n -= chars
	}
	b.WriteString("echoechoechoecho"[:n])
	return b.String()
}
