package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"mobilegate/internal/terminal"
	hermes "mobilegate/sdk/go"
)

// chatView draws a conversation. On a terminal, replies grow in place and the last line says what the agent does. On
// anything else only whole messages are written to out, and everything around them to errOut.
//
// Whatever the gateway sent passes clean, cleanLine or rawLine: nobody else drives the user's terminal.
type chatView struct {
	out, errOut io.Writer
	raw         bool // --json: frames only
	prompt      bool // a person types
	term        bool
	columns     func() int

	transcript hermes.Transcript
	avatar     string // state of the agent's face
	status     string // what rest shows
	lastReason string // of a lost connection, said once

	// Terminal only: what the cursor's line holds. Nothing, the status and the prompt, or the end of a message.
	resting bool
	openID  string
	shown   string // the text of openID as it stands there
}

const (
	dim       = "\x1b[2m"
	plain     = "\x1b[0m"
	eraseLine = "\r\x1b[K"
)

func newChatView(out, errOut io.Writer, raw, person bool, termName string) *chatView {
	term := terminal.Is(out) && termName != "dumb" && !raw
	return &chatView{out: out, errOut: errOut, raw: raw, term: term, prompt: person && term, columns: func() int { return terminal.Columns(out) }}
}

// frame prints a frame as it came, for --json.
func (v *chatView) frame(b []byte) {
	if v.raw && b != nil {
		fmt.Fprintln(v.out, rawLine(b))
	}
}

// message shows the text of a message so far: on a terminal at once, elsewhere when it is complete.
func (v *chatView) message(m *hermes.Message) {
	text, final := v.transcript.Add(m)
	switch text = clean(text); {
	case v.raw:
		return
	case !v.term && final:
		fmt.Fprintln(v.out, text)
		return
	case !v.term:
		return
	case v.openID != m.ID:
		v.fresh()
		fmt.Fprint(v.out, text)
	case strings.HasPrefix(text, v.shown):
		fmt.Fprint(v.out, text[len(v.shown):])
	case oneRow(v.shown, v.columns()):
		fmt.Fprint(v.out, eraseLine+text)
	default: // what has scrolled or wrapped is not erased
		fmt.Fprint(v.out, "\n"+text)
	}
	v.openID, v.shown = m.ID, text
	if final {
		v.fresh()
	}
}

// file shows one line for a file once all of it has come.
func (v *chatView) file(m *hermes.Media) {
	if !m.Final {
		return
	}
	line := fmt.Sprintf("file: %s, %d bytes", strings.TrimSpace(m.Kind+" "+m.Filename), m.Size)
	if m.URL != "" {
		line += ", at " + m.URL
	}
	if m.Caption != "" {
		line += ": " + m.Caption
	}
	v.remark(line)
}

// fresh brings the cursor to the beginning of an empty line.
func (v *chatView) fresh() {
	switch {
	case v.resting:
		fmt.Fprint(v.out, eraseLine)
	case v.openID != "":
		fmt.Fprintln(v.out)
	}
	v.resting, v.openID, v.shown = false, "", ""
}

// rest shows the status and the prompt where nothing else stands. It comes last in each step.
func (v *chatView) rest() {
	if !v.term || v.resting || v.openID != "" {
		return
	}
	line := ""
	if v.status != "" {
		line = dim + "· " + v.status + plain + " "
	}
	if v.prompt {
		line += "> "
	}
	fmt.Fprint(v.out, line)
	v.resting = line != ""
}

// typed says that the person has ended a line, which moved the cursor to the next one.
func (v *chatView) typed() {
	if v.prompt {
		v.resting, v.openID, v.shown = false, "", ""
	}
}

// state sets the status, and takes away what stands there when it has changed.
func (v *chatView) state(online, typing bool) {
	status := ""
	switch {
	case !online:
		status = "reconnecting"
	case typing && (v.avatar == "thinking" || v.avatar == "speaking"):
		status = v.avatar
	case typing:
		status = "typing"
	}
	if status == v.status {
		return
	}
	v.status = status
	if v.resting {
		v.fresh()
	}
}

// notice shows one line about the conversation.
func (v *chatView) notice(s string) {
	s = cleanLine(s)
	if !v.term {
		fmt.Fprintln(v.errOut, s)
		return
	}
	v.fresh()
	fmt.Fprint(v.out, dim+s+plain+"\n")
}

// remark is a notice about a frame; --json prints the frame itself.
func (v *chatView) remark(s string) {
	if !v.raw {
		v.notice(s)
	}
}

// fatal says why the command fails.
func (v *chatView) fatal(reason string) {
	if v.term {
		v.fresh()
	}
	fmt.Fprintln(v.errOut, "chat:", cleanLine(reason))
}

// leave puts the shell's prompt on a line of its own.
func (v *chatView) leave() {
	if v.term && (v.resting || v.openID != "") {
		fmt.Fprintln(v.out)
	}
}

func (v *chatView) connected() {
	v.transcript = hermes.Transcript{}
	v.lastReason, v.avatar = "", "idle"
}

// disconnected tells the reason once, however many attempts it takes.
func (v *chatView) disconnected(err error, had bool) {
	reason := err.Error()
	if reason == v.lastReason {
		return
	}
	v.lastReason = reason
	if had {
		v.notice("not connected (" + reason + "); trying again")
	} else {
		v.notice("still not connected (" + reason + ")")
	}
}

// card draws an open card.
func (v *chatView) card(p *hermes.Prompt) {
	if v.raw {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "? %s: %s", cleanLine(p.Kind), indent(p.Text))
	if p.Command != "" {
		fmt.Fprintf(&b, "\n    command: %s", indent(p.Command))
	}
	if p.Description != "" {
		fmt.Fprintf(&b, "\n    %s", indent(p.Description))
	}
	for i, o := range p.Options {
		fmt.Fprintf(&b, "\n  %d  %s  %s", i+1, cleanLine(o.ID), cleanLine(o.Label))
	}
	how := "a number or an option id"
	if p.Kind == "clarify" {
		how += ", or free text"
	}
	fmt.Fprintf(&b, "\n  answer with %s within %d s", how, p.TimeoutSeconds)
	if v.term {
		v.fresh()
		fmt.Fprintln(v.out, b.String())
		return
	}
	fmt.Fprintln(v.errOut, b.String())
}

// indent keeps further lines of the gateway's text from looking like options of the card.
func indent(s string) string { return strings.ReplaceAll(clean(s), "\n", "\n    ") }

// clean takes out what could drive a terminal or turn the order of text around: control characters other than line end
// and tab, and the controls of bidirectional text.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, s)
}

const longestLine = 500 // characters of a notice

// cleanLine is clean for a text that is to stay on one line.
func cleanLine(s string) string {
	s = strings.NewReplacer("\n", " ", "\t", " ").Replace(clean(s))
	if utf8.RuneCountInString(s) > longestLine {
		s = string([]rune(s)[:longestLine]) + "…"
	}
	return s
}

// rawLine prints JSON on one line, with the same meaning and nothing that a terminal obeys. Controls below U+0020 are
// white space there, since JSON has none of them in its strings; the others become escapes.
func rawLine(b []byte) string {
	var s strings.Builder
	for _, r := range string(b) {
		switch {
		case r < ' ':
			s.WriteByte(' ')
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			fmt.Fprintf(&s, `\u%04x`, r)
		default:
			s.WriteRune(r)
		}
	}
	return s.String()
}

// oneRow reports whether s surely fits on one row: every character beyond ASCII may be two columns wide.
func oneRow(s string, columns int) bool {
	width := 0
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
			return false
		case r >= utf8.RuneSelf:
			width++
		}
		width++
	}
	return width < columns
}
