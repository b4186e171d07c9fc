package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"mobilegate/internal/terminal"
	hermes "mobilegate/sdk/go"
)

const chatUsage = `usage: mobilegate chat [--url ws://127.0.0.1:8787/ws] [--device ID] [--token-file FILE] [--json]

A conversation with the agent: one line is one message, Ctrl-D leaves. The token is read from MOBILE_TOKEN or from FILE.
When a card is open, a line answers it: a number, an option id, or free text where the card takes it. A line that begins
with "/" is always a message. When the input is a pipe, each line waits for the answer to the one before, and the command
ends when all are answered.

`

// runChat is the command "chat". It returns the exit status: 0 bye, 1 the connection ended for good, 2 usage.
func runChat(ctx context.Context, args []string, env func(string) string, in io.Reader, out, errOut io.Writer) int {
	c, err := newChat(args, env, in, out, errOut)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errOut, "chat:", err)
		return 2
	}
	return c.run(ctx, in)
}

func newChat(args []string, env func(string) string, in io.Reader, out, errOut io.Writer) (*chat, error) {
	cfg, raw, err := chatConfig(args, env, errOut)
	if err != nil {
		return nil, err
	}
	session, err := hermes.NewSession(cfg)
	if err != nil {
		return nil, err
	}
	c := &chat{session: session, raw: raw, piped: !terminal.Is(in), patience: chatPatience}
	c.view = newChatView(out, errOut, raw, !c.piped, env("TERM"))
	return c, nil
}

// chatConfig reads flags and environment. The token is no flag, since every user of the machine sees those.
func chatConfig(args []string, env func(string) string, errOut io.Writer) (cfg hermes.Config, raw bool, err error) {
	flags := flag.NewFlagSet("chat", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&cfg.URL, "url", "ws://127.0.0.1:8787/ws", "address of the gateway")
	flags.StringVar(&cfg.Device.ID, "device", defaultDevice(env), "id of this device, at most 120 characters")
	tokenFile := flags.String("token-file", "", "file that holds the token (default: the environment's MOBILE_TOKEN)")
	flags.BoolVar(&raw, "json", false, "print the frames as they come; a line that begins with { is sent as it is")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(errOut, chatUsage)
			flags.SetOutput(errOut)
			flags.PrintDefaults()
		}
		return cfg, raw, err
	}
	if flags.NArg() > 0 {
		return cfg, raw, errors.New("unexpected argument; see mobilegate chat --help")
	}
	if id := []rune(cfg.Device.ID); len(id) > 120 || strings.ContainsFunc(cfg.Device.ID, unicode.IsControl) || strings.TrimSpace(cfg.Device.ID) == "" {
		return cfg, raw, errors.New("--device must have 1 to 120 characters and no control characters")
	}
	cfg.Device.Name, cfg.Device.Platform = cfg.Device.ID, "terminal"
	cfg.Token, err = clientToken(*tokenFile, env, "MOBILE_TOKEN")
	return cfg, raw, err
}

// clientToken reads the token of a command that says hello: from file, or from the first of the variables that is set.
func clientToken(file string, env func(string) string, names ...string) (token string, err error) {
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		token = strings.TrimSpace(string(b))
	} else {
		for _, name := range names {
			token = cmp.Or(token, strings.TrimSpace(env(name)))
		}
	}
	if token == "" {
		return "", errors.New("no token: put it into the environment as " + strings.Join(names, " or ") + ", or name a file that holds it with --token-file")
	}
	return token, nil
}

// defaultDevice is the same on every run, so that a conversation goes on where it was.
func defaultDevice(env func(string) string) string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = env("USER")
	}
	name = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.", r)) {
			return r
		}
		return -1
	}, name)
	if name == "" {
		name = "terminal"
	}
	return "chat-" + name[:min(len(name), 64)]
}

const (
	// chatPatience is how long, after a reconnect, a line may go unanswered while nothing happens; then its answer is
	// taken as lost: the turn may have ended while there was no connection.
	chatPatience = 10 * time.Second
	// chatWrite bounds one write. A gateway that takes nothing for so long is left, and connected to again.
	chatWrite = 10 * time.Second
	// chatBacklog is how many lines of a person may wait for an answer or a connection before the next one is read.
	chatBacklog = 4096
)

// chat is one run of the command. All fields belong to the goroutine of run.
type chat struct {
	session *hermes.Session
	view    *chatView
	raw     bool // --json
	piped   bool // the input is no terminal: one line after the other, and an end

	online   bool
	met      bool // there was a ready connection before
	turns    chatTurns
	cards    []*chatCard // open ones, oldest first; a line answers the first
	patience time.Duration
	quiet    *time.Timer
	rawIDs   map[string]bool // ids of raw frames that made a turn

	// Piped only. A probe is a ping; its pong says that everything before it was dealt with.
	probe  string // the one under way
	probes int
	unsure bool // something was sent since the last probe
	eof    bool

	done   bool
	status int
}

type chatEvent struct {
	ev  hermes.Event
	err error
}

// run is the loop. It returns when a person leaves, all piped lines are answered, or the connection ended for good.
func (c *chat) run(ctx context.Context, in io.Reader) int {
	live, cancel := context.WithCancel(ctx)
	defer cancel()
	c.quiet = time.NewTimer(c.patience)
	defer c.quiet.Stop()
	events := make(chan chatEvent)
	go func() {
		defer close(events)
		for ev, err := range c.session.Events(live) {
			events <- chatEvent{ev, err}
		}
	}()
	lines, readErr := chatLines(live, in)
	for !c.done {
		c.view.rest()
		var next <-chan string
		if c.wantsLine() {
			next = lines
		}
		select {
		case line, ok := <-next:
			if !ok {
				lines = nil
				c.inputEnded(*readErr)
				break
			}
			c.quiet.Reset(c.patience)
			c.line(live, line)
		case e := <-events:
			if e.err != nil {
				c.ended(ctx, e.err)
				break
			}
			c.quiet.Reset(c.patience)
			c.event(live, e.ev)
		case <-c.quiet.C:
			if c.online {
				c.lose(c.turns.giveUp())
			}
		}
		c.step(live)
	}
	cancel()
	for range events { // the session says goodbye
	}
	c.view.leave()
	return c.status
}

// chatLines reads in line by line until it ends; the error is to be read after the channel was closed. A read under way
// cannot be cancelled, so the goroutine may outlive the command.
func chatLines(ctx context.Context, in io.Reader) (<-chan string, *error) {
	lines, readErr := make(chan string), new(error)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(in)
		s.Buffer(nil, hermes.MaxFrameBytes)
		for s.Scan() {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
		*readErr = s.Err()
	}()
	return lines, readErr
}

// wantsLine holds back piped lines until it is their turn, so that a script can answer the card that its line caused.
func (c *chat) wantsLine() bool {
	if c.piped {
		return c.online && c.probe == "" && (c.turns.none() || c.card() != nil)
	}
	return len(c.turns.open) < chatBacklog
}

func (c *chat) inputEnded(err error) {
	switch {
	case err != nil:
		c.fail(fmt.Sprint("cannot read the input: ", err))
	case c.piped:
		c.eof = true
	default:
		c.done = true
	}
}

// step ends a piped run: all lines are answered, and a last probe came back.
func (c *chat) step(ctx context.Context) {
	if !c.eof || c.done || !c.online || c.probe != "" || !c.turns.none() || c.turns.running {
		return
	}
	if c.unsure {
		c.sendProbe(ctx)
		return
	}
	c.done = true
	if c.turns.lost > 0 {
		c.fail(fmt.Sprintf("the connection broke, and the answers to %d lines may be lost", c.turns.lost))
	}
}

func (c *chat) fail(reason string) {
	c.done, c.status = true, 1
	c.view.fatal(reason)
}

// ended says in plain words why the session is over.
func (c *chat) ended(ctx context.Context, err error) {
	var gone *hermes.CloseError
	switch {
	case ctx.Err() != nil && c.piped && !c.turns.none():
		c.fail("interrupted before every line was answered")
	case ctx.Err() != nil:
		c.done = true
	case errors.As(err, &gone) && gone.Fatal != nil:
		c.fail(fmt.Sprintf("the gateway refused: %s: %s", gone.Fatal.Code, gone.Fatal.Message))
	case errors.As(err, &gone) && gone.Code == 4001:
		c.fail("another instance has connected as this device (replaced)")
	case errors.As(err, &gone):
		c.fail("the gateway refused: " + gone.Reason)
	default:
		c.fail(err.Error())
	}
}

// send writes one frame. An error needs no handling: the session reports the end of the connection as an event.
func (c *chat) send(ctx context.Context, f hermes.Outgoing) error {
	ctx, cancel := context.WithTimeout(ctx, chatWrite)
	defer cancel()
	c.unsure = true
	return c.session.Send(ctx, f)
}

func (c *chat) sendProbe(ctx context.Context) {
	c.probes++
	c.probe = fmt.Sprintf("mobilegate-chat-%d", c.probes)
	c.send(ctx, hermes.Ping{TS: c.probe})
	c.unsure = false
}

// flush sends the turns that wait, in order.
func (c *chat) flush(ctx context.Context) {
	for _, t := range c.turns.open {
		if !t.sent.IsZero() {
			continue
		}
		if c.send(ctx, t.frame) != nil {
			return
		}
		t.sent = time.Now()
	}
}
