package hermes

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"mobilegate/agent"
)

const (
	maxText  = 1 << 20  // bytes of one answer that are shown
	maxRaw   = 12 << 20 // bytes of one answer with the images in it
	maxFiles = 32       // of one answer
)

// tellNothing is the answer where there is none: the user has waited for one.
const tellNothing = "The agent has finished, and said nothing."

var errLength = errors.New("the answer is too long")

// speech is what the device hears of one run. It is used by Ask's goroutine only.
type speech struct {
	emit  func(agent.Event)
	share *share      // which files may go out
	owner agent.Owner // and to whom
	whole bool        // what was streamed is all that there was; no piece got lost
	late  bool        // the whole answer may hold the images that the stream only names

	marks   marks
	raw     int
	said    strings.Builder // what was shown of the deltas
	segment int             // where in said the part begins that no tool interrupted
	gap     bool            // a tool came after what was said last
	paths   []string        // of the files that the text names
	sent    map[string]bool // paths and digests of what was taken care of
	images  []string        // data URLs
	dropped bool            // some were too many
	noted   map[string]bool
}

func newSpeech(s *share, owner agent.Owner, emit func(agent.Event)) *speech {
	p := &speech{emit: emit, share: s, owner: owner, whole: true, sent: map[string]bool{}, noted: map[string]bool{}}
	p.marks = p.newMarks()
	return p
}

func (p *speech) newMarks() marks {
	return marks{file: p.addPath, image: p.addImage}
}

func (p *speech) addPath(path string) {
	if p.first(path) {
		p.paths = append(p.paths, path)
	}
}

func (p *speech) addImage(url string) {
	if p.first(digest(nil, url)) {
		p.images = append(p.images, url)
	}
}

// first tells whether the file is to be sent: it did not come before, and there is room for it.
func (p *speech) first(file string) bool {
	switch {
	case p.sent[file]:
		return false
	case len(p.sent) >= maxFiles:
		p.dropped = true
		return false
	}
	p.sent[file] = true
	return true
}

// delta shows the next piece of the answer.
func (p *speech) delta(text string) error {
	if p.raw += len(text); p.raw > maxRaw {
		return errLength
	}
	return p.show(p.marks.take(text))
}

func (p *speech) show(text string) error {
	if text == "" {
		return nil
	}
	if p.said.Len()+len(text) > maxText {
		return errLength
	}
	if p.gap {
		p.gap = false
		if breaks(p.said.String(), text) {
			p.emit(agent.Event{Kind: agent.Delta, Text: "\n\n"})
		}
	}
	p.said.WriteString(text)
	p.emit(agent.Event{Kind: agent.Delta, Text: text})
	return nil
}

// breaks tells whether next begins a paragraph: the agent ended a sentence, did something, and speaks again. Hermes sends
// nothing in between.
func breaks(before, next string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(next)
	return (unicode.IsPunct(last) || unicode.IsSymbol(last)) && !unicode.IsSpace(first)
}

// pause says what was held back: the agent does something now. What it says afterwards is a part of its own.
func (p *speech) pause() error {
	err := p.show(p.marks.end())
	p.gap = p.said.Len() > 0
	p.segment = p.said.Len()
	return err
}

// card ends the message that is being streamed, and shows c below it and below its files.
func (p *speech) card(c *agent.Card) error {
	err := p.pause()
	p.gap = false
	if !p.late { // what the user is asked may be about them
		if note := p.files(""); note != "" {
			p.emit(agent.Event{Kind: agent.Message, Text: note})
		}
	}
	p.emit(agent.Event{Kind: agent.ShowCard, Card: c})
	return err
}

// finish says what output has beyond the deltas, and the files; the last message is the reply.
func (p *speech) finish(output string) (reply string, err error) {
	if err := p.show(p.marks.end()); err != nil {
		return "", err
	}
	if len(output) > maxRaw {
		return "", errLength
	}
	named := p.paths
	p.paths = nil
	o := p.newMarks()
	text := o.take(output) + o.end()
	if len(text) > maxText {
		return "", errLength
	}
	if len(p.images) == 0 { // else these are the images that the deltas named
		p.paths = append(named, p.paths...)
	} else {
		for _, path := range named {
			if !isImage(path) {
				p.paths = append(p.paths, path)
			}
		}
	}
	reply = p.rest(text)
	switch {
	case p.said.Len() == 0 || reply == "":
	case p.gap:
		p.emit(agent.Event{Kind: agent.End})
	default:
		p.emit(agent.Event{Kind: agent.Delta, Text: reply})
		reply = ""
	}
	if reply = p.files(reply); reply == "" && p.said.Len() == 0 && len(p.sent) == 0 {
		reply = tellNothing
	}
	return reply, nil
}

// rest is what text, the answer as a whole, has beyond what was streamed. Hermes repeats in it the last part of what it
// streamed, or all of it. If text begins in another way than that, it is a message of its own, which gap then says; unless
// it is the same text in other words, and nothing of the stream was lost: then what was streamed stands.
func (p *speech) rest(text string) string {
	text = strings.TrimSpace(text)
	all := p.said.String()
	p.gap = false
	for _, part := range []string{all, all[p.segment:]} {
		trimmed := strings.TrimSpace(part)
		if trimmed == "" {
			continue
		}
		if more, ok := strings.CutPrefix(text, trimmed); ok {
			tail := part[strings.LastIndex(part, trimmed)+len(trimmed):]
			return strings.TrimPrefix(more, tail)
		}
		if p.whole && 2*common(text, trimmed) >= min(len(text), len(trimmed)) {
			return ""
		}
	}
	if text == "" || strings.Contains(all, text) {
		return ""
	}
	p.gap = true
	return text
}

func common(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// files sends what the text named. reply is the message that comes before it; what is then the last message comes back.
func (p *speech) files(reply string) string {
	say := func(text string) {
		if reply != "" {
			p.emit(agent.Event{Kind: agent.Message, Text: reply})
		}
		reply = text
	}
	send := func(f *agent.File, err error) {
		if err == nil {
			say("")
			p.emit(agent.Event{Kind: agent.SendFile, File: f})
		} else if why := err.Error(); !p.noted[why] {
			p.noted[why] = true
			say("A file of this answer is not sent: " + why + ".")
		}
	}
	for _, path := range p.paths {
		send(p.share.open(path, p.owner))
	}
	for _, url := range p.images {
		send(inlineImage(url, p.share.max))
	}
	if p.dropped {
		send(nil, errMany)
	}
	p.paths, p.images, p.dropped = nil, nil, false
	return reply
}
