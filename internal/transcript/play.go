package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Play plays a case. The error says in which line of the file what went wrong.
func (c *Case) Play(g Gateway) error {
	p := player{gateway: g, links: map[string]*party{}, kept: map[string]string{}, ignored: map[string]bool{}}
	if err := p.play(c.File, c.lines); err != nil {
		return err
	}
	if err := p.quiet(); err != nil {
		return fmt.Errorf("%s:%d: at the end of case %q: %w", c.File, c.Line, c.Name, err)
	}
	return nil
}

type player struct {
	gateway Gateway
	links   map[string]*party
	kept    map[string]string
	ignored map[string]bool // types of frames
}

// party is a connection under its name.
type party struct {
	Link
	next    *Heard // the next thing it heard, if it was looked at
	ended   bool   // nothing more comes
	stopped bool
}

func (p *player) play(file string, lines []line) error {
	for i := range lines {
		l := &lines[i]
		if l.verb == "repeat" {
			for n := range l.times {
				p.kept["i"] = strconv.Itoa(n + 1)
				if err := p.play(file, l.body); err != nil {
					return fmt.Errorf("round %d: %w", n+1, err)
				}
			}
			continue
		}
		if err := p.step(l); err != nil {
			return fmt.Errorf("%s:%d: %s %s: %w", file, l.number, l.link, l.verb, err)
		}
	}
	return nil
}

func (p *player) step(l *line) error {
	arg, err := expand(l.rest, p.kept)
	if err != nil {
		return err
	}
	switch l.verb {
	case ">":
		link, err := p.link(l.link, "")
		if err == nil && link.stopped {
			err = errors.New("a device that has stopped says nothing")
		}
		if err == nil {
			link.Say([]byte(arg))
		}
		return err
	case "<":
		return p.hear(l.link, arg)
	case "x":
		return p.end(l.link, arg)
	case "opens":
		from, err := options(arg, map[string]string{"from": ""})
		if err == nil {
			_, err = p.link(l.link, from["from"])
		}
		return err
	case "joins":
		return p.join(l.link, arg)
	case "+":
		if err := p.quiet(); err != nil {
			return fmt.Errorf("before time passes: %w", err)
		}
		d, _ := time.ParseDuration(arg)
		return p.gateway.Advance(d)
	case "agent":
		return p.act(arg)
	case "ignore":
		for _, t := range strings.Fields(arg) {
			p.ignored[t] = true
		}
		return nil
	}
	link := p.links[l.link]
	if link == nil {
		return errors.New("no such connection")
	}
	link.Do(Deed(l.verb))
	link.stopped = l.verb == string(Stop)
	link.ended = link.ended || l.verb == string(Leave) || l.verb == string(Break)
	return p.gateway.Settle()
}

// link is the connection of that name, a new one when there is none that is open.
func (p *player) link(name, from string) (*party, error) {
	if l := p.links[name]; l != nil && !l.ended {
		return l, nil
	}
	link, err := p.gateway.Dial(from)
	if err != nil {
		return nil, err
	}
	p.links[name] = &party{Link: link}
	return p.links[name], nil
}

// options reads "NAME=VALUE NAME=VALUE" over the values that the names have without it.
func options(s string, values map[string]string) (map[string]string, error) {
	for _, o := range strings.Fields(s) {
		key, value, _ := strings.Cut(o, "=")
		if _, known := values[key]; !known {
			return nil, fmt.Errorf("what is %s?", o)
		}
		values[key] = value
	}
	return values, nil
}

func (p *player) join(name, rest string) error {
	o, err := options(rest, map[string]string{"device": "tel-1", "token": "secret", "from": ""})
	if err != nil {
		return err
	}
	link, err := p.link(name, o["from"])
	if err != nil {
		return err
	}
	link.Say(fmt.Appendf(nil, `{"t":"hello","token":%q,"device":{"id":%q}}`, o["token"], o["device"]))
	return p.hear(name, fmt.Sprintf(`{"t":"ready","session":%q}`, "mobile:"+o["device"]))
}

func (p *player) act(arg string) error {
	device, act, err := parseAct(arg)
	if err != nil {
		return err
	}
	if act.Text != "" && act.Text[0] == '"' {
		if err := json.Unmarshal([]byte(act.Text), &act.Text); err != nil {
			return err
		}
	}
	if device == "" {
		device = "tel-1"
	}
	if err := p.gateway.Settle(); err != nil {
		return err
	}
	answer, err := p.gateway.Act(device, act)
	if err != nil {
		return err
	}
	if act.Verb == Hears {
		return p.told(act.Text, answer)
	}
	return p.gateway.Settle()
}

// told holds what the agent was answered against what it was to hear.
func (p *player) told(want string, answer []byte) error {
	switch {
	case want == "nothing" && answer == nil:
		return nil
	case want == "nothing" || answer == nil:
		return fmt.Errorf("the agent heard %q; want %s", answer, want)
	}
	return p.compare("answer", want, answer)
}

// peek looks at the next thing that the connection heard, when need be after the gateway has settled.
func (p *player) peek(l *party, settle bool) (*Heard, error) {
	for l.next == nil {
		h, ok := l.Hear()
		switch {
		case !ok && settle:
			if err := p.gateway.Settle(); err != nil {
				return nil, err
			}
			settle = false
		case !ok:
			return nil, nil
		case !p.isIgnored(h):
			l.next = &h
		}
	}
	return l.next, nil
}

func (p *player) isIgnored(h Heard) bool {
	if h.Frame == nil || len(p.ignored) == 0 {
		return false
	}
	v, err := decode(h.Frame)
	f, ok := v.(map[string]any)
	t, _ := f["t"].(string)
	return err == nil && ok && p.ignored[t]
}

func (p *player) hear(name, want string) error {
	l := p.links[name]
	if l == nil {
		return errors.New("no such connection")
	}
	switch want {
	case "...":
		if err := p.gateway.Settle(); err != nil {
			return err
		}
		for {
			if h, _ := p.peek(l, false); h == nil || h.Frame == nil {
				return nil
			}
			l.next = nil
		}
	case "nothing":
		if err := p.gateway.Settle(); err != nil {
			return err
		}
		h, err := p.peek(l, false)
		if err == nil && h != nil {
			err = fmt.Errorf("heard %s", h)
		}
		return err
	}
	h, err := p.peek(l, true)
	switch {
	case err != nil:
		return err
	case h == nil:
		return errors.New("heard nothing; want " + short(want))
	}
	l.next = nil
	if want == "ping" {
		if !h.Ping {
			return fmt.Errorf("heard %s", h)
		}
		return nil
	}
	if h.Frame == nil {
		return fmt.Errorf("heard %s; want %s", h, short(want))
	}
	return p.compare("frame", want, h.Frame)
}

// compare holds a JSON text against a pattern.
func (p *player) compare(what, want string, heard []byte) error {
	pattern, err := decode([]byte(want))
	if err != nil {
		return fmt.Errorf("the pattern is no JSON: %w", err)
	}
	got, err := decode(heard)
	if err != nil {
		return fmt.Errorf("heard what is no JSON: %s", short(string(heard)))
	}
	if err := match(what, pattern, got, p.kept); err != nil {
		return fmt.Errorf("%w\n  heard %s\n  want  %s", err, short(string(heard)), short(want))
	}
	return nil
}

// end expects the end of a connection: "CODE [REASON]" or nothing.
func (p *player) end(name, want string) error {
	l := p.links[name]
	if l == nil {
		return errors.New("no such connection")
	}
	h, err := p.peek(l, true)
	switch {
	case err != nil:
		return err
	case h == nil:
		return errors.New("the connection is still open")
	case h.Frame != nil || h.Ping:
		return fmt.Errorf("heard %s", h)
	}
	l.next, l.ended = nil, true
	code, reason, hasReason := strings.Cut(want, " ")
	if code == "" {
		code = "0"
	}
	if code != strconv.Itoa(h.Code) || hasReason && reason != h.Reason {
		return fmt.Errorf("heard %s", h)
	}
	return nil
}

// quiet fails when a device, or the agent, heard what nobody has expected.
func (p *player) quiet() error {
	if err := p.gateway.Settle(); err != nil {
		return err
	}
	switch answer, err := p.gateway.Act("", Act{Verb: Hears}); {
	case err != nil:
		return err
	case answer != nil:
		return fmt.Errorf("the agent heard %s", answer)
	}
	for _, name := range slices.Sorted(maps.Keys(p.links)) {
		l := p.links[name]
		if l.ended {
			continue
		}
		h, err := p.peek(l, false)
		if err != nil {
			return err
		}
		if h != nil {
			return fmt.Errorf("%s heard %s", subject(name), h)
		}
	}
	return nil
}

func subject(name string) string {
	if name == "" {
		return "the device"
	}
	return name
}

func (h *Heard) String() string {
	switch {
	case h.Frame != nil:
		return short(string(h.Frame))
	case h.Ping:
		return "a WebSocket ping"
	case h.Code == 0:
		return "the end of the connection"
	}
	return fmt.Sprintf("close %d %s", h.Code, h.Reason)
}
