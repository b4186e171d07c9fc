package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"mobilegate/engine"
	"mobilegate/internal/transcript"
)

// Conform says how a server is held against the transcripts. It must be set up as they expect: MOBILE_TOKEN=secret,
// MOBILE_EXTRA_TOKENS=other,tel-bound=bound, MOBILE_DELIVER_TOKENS=cron, MOBILE_AVATAR_URL=https://example.org/a.glb, and the
// echo agent.
type Conform struct {
	URL   string        // required
	Files fs.FS         // required: *.txt
	Only  string        // plays only cases whose file or name holds it
	Wait  time.Duration // the longest time that a case may let pass, since here it passes really; 5 s
	Quiet time.Duration // after so much silence nothing more is expected; 150 ms
}

// Conformity is what came of it.
type Conformity struct{ Right, Wrong, Left int }

// Exit is the exit status that it stands for.
func (c Conformity) Exit() int {
	if c.Wrong > 0 {
		return ExitWrong
	}
	return ExitOK
}

// Run plays the cases one after another and writes a line for each that differs, or cannot be played.
func (c Conform) Run(ctx context.Context, w io.Writer) (all Conformity, err error) {
	if c.Wait < 0 || c.Quiet < 0 {
		return all, usagef("durations must be over 0")
	}
	if c.Wait == 0 {
		c.Wait = 5 * time.Second
	}
	if c.Quiet == 0 {
		c.Quiet = 150 * time.Millisecond
	}
	dial, err := (&Config{URL: c.URL}).dial()
	if err != nil {
		return all, err
	}
	cases, err := transcript.Load(c.Files, ".")
	if err != nil {
		return all, err
	}
	if cases = slices.DeleteFunc(cases, func(k transcript.Case) bool { return !strings.Contains(k.File+" "+k.Name, c.Only) }); len(cases) == 0 {
		return all, usagef("no case has that in its file or name")
	}
	run := newRun()
	for i := range cases {
		k := &cases[i]
		if ctx.Err() != nil {
			break
		}
		why, err := c.unplayable(k)
		if err != nil {
			return all, err
		}
		if why != "" {
			all.Left++
			fmt.Fprintf(w, "left out  %s:%d %s: %s\n", k.File, k.Line, k.Name, why)
			continue
		}
		s := &theatre{conform: c, names: fmt.Sprintf("tel-%s-%d-", run, i)}
		if s.client, err = engine.NewClient(dial); err != nil {
			return all, err
		}
		s.now = time.Now()
		err = k.Play(s)
		s.client.Close()
		var nobody unreachable
		switch {
		case errors.As(err, &nobody):
			return all, nobody
		case err != nil:
			all.Wrong++
			fmt.Fprintf(w, "differs   %s:%d %s\n          %s\n", k.File, k.Line, k.Name, strings.ReplaceAll(showable(err.Error()), "\n", "\n          "))
		default:
			all.Right++
		}
	}
	_, err = fmt.Fprintf(w, "%d as they should be, %d different, %d left out\n", all.Right, all.Wrong, all.Left)
	return all, err
}

// showable takes out of a text, which may hold what the server said, what a terminal would obey.
func showable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || 0x7F <= r && r < 0xA0 {
			return '·'
		}
		return r
	}, s)
}

const needsScript = "it needs an agent that does what it is told"

// unplayable says why a case cannot be played against a server somewhere; empty if it can.
func (c Conform) unplayable(k *transcript.Case) (why string, err error) {
	for _, word := range k.With {
		switch word {
		case "file", "megabytes": // about the heights of the project's own tests
		case "script":
			return needsScript, nil
		case "one-second":
			return "it is about exact times", nil
		default:
			return "it needs a server that is set up with " + word, nil
		}
	}
	text, err := fs.ReadFile(c.Files, k.File)
	if err != nil {
		return "", err
	}
	passes := time.Duration(0)
	for i, line := range strings.Split(string(text), "\n")[k.Line:] {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if f[0] == "case" && i > 0 {
			break
		}
		verb := f[0]
		if len(f) > 1 && strings.Contains(" > < x + joins opens leaves breaks sleeps wakes stops goes ", " "+f[1]+" ") && verb != ">" && verb != "<" {
			verb = f[1]
		}
		switch {
		case verb == "agent":
			return needsScript, nil
		case verb == "sleeps" || verb == "<" && f[len(f)-1] == "ping":
			return "it is about the pings of a slow server", nil
		case (verb == "opens" || verb == "joins") && strings.Contains(line, "from="):
			return "it needs a proxy that the server trusts", nil
		case exactTime.MatchString(line):
			return "it is about exact times", nil
		case verb == "+":
			d, _ := time.ParseDuration(f[len(f)-1])
			passes += d
		}
	}
	if passes > c.Wait {
		return fmt.Sprintf("%s would pass", passes), nil
	}
	return "", nil
}

// theatre is a server at the other end of the network, as transcript.Gateway: time passes really, and what does not come
// within some silence does not come.
type theatre struct {
	conform Conform
	client  *engine.Client
	names   string // of the devices of this case, in place of tel-: nothing is left of an earlier one
	heard   int    // things
	news    int    // of them, that are not about the agent's mood: those come ahead of what is waited for
	stirred bool   // something was done since the last silence
	wants   bool   // somebody waits for a frame
	seats   []*seat
	now     time.Time // as the transcript sees it: when something was last done or heard, or to where time has passed
}

var (
	_ transcript.Gateway = (*theatre)(nil)
	_ transcript.Link    = (*seat)(nil)

	exactTime = regexp.MustCompile(`"retry_after_ms":\d`)
	ordinary  = regexp.MustCompile(`tel-(\d)`)
)

// until runs the loop until is answers true, at most so long.
func (s *theatre) until(at time.Time, is func() bool) error {
	return s.client.Run(func(now time.Time) time.Time {
		if is() || !now.Before(at) {
			return time.Time{}
		}
		return at
	})
}

// Dial implements transcript.Gateway.
func (s *theatre) Dial(string) (transcript.Link, error) {
	s.stir()
	l := &seat{theatre: s}
	s.seats = append(s.seats, l)
	var err error
	if l.link, err = s.client.Call(l, 0); err == nil {
		err = s.until(time.Now().Add(10*time.Second), func() bool { return l.open || l.ended })
	}
	if err == nil && !l.open {
		err = errNotReady
		if l.err != nil {
			err = l.err
		}
	}
	if err != nil {
		return nil, unreachable{err}
	}
	return l, nil
}

// Settle implements transcript.Gateway. When a frame is waited for, it may take its time, and there is no need for a silence
// behind it but a short one, which shows that what came together has come.
func (s *theatre) Settle() error {
	if s.wants {
		s.wants = false
		wait := s.conform.patience()
		for before := s.news; ; before, wait = s.news, s.conform.Quiet/short {
			if err := s.until(time.Now().Add(wait), func() bool { return s.news > before }); err != nil || s.news == before {
				return err
			}
		}
	}
	for s.stirred {
		before := s.heard
		if err := s.until(time.Now().Add(s.conform.Quiet), func() bool { return s.heard > before }); err != nil {
			return err
		}
		s.stirred = s.heard > before
	}
	s.checked(true)
	return nil
}

const short = 16 // part of Config.Quiet

// patience is how long is waited for a frame that must come.
func (c Conform) patience() time.Duration { return max(2*time.Second, 4*c.Quiet) }

// checked says that each seat may look once, in vain, without waiting for something: whether all is quiet is looked at this way.
func (s *theatre) checked(may bool) {
	for _, l := range s.seats {
		l.mayLook = may
	}
}

// stir is called when something is done.
func (s *theatre) stir() {
	s.stirred, s.wants = true, false
	s.checked(false)
	if now := time.Now(); now.After(s.now) {
		s.now = now
	}
}

// Advance implements transcript.Gateway. The silences that were waited for count.
func (s *theatre) Advance(d time.Duration) error {
	s.now = s.now.Add(d)
	now := s.now
	if err := s.until(now.Add(s.conform.Quiet/short), func() bool { return false }); err != nil { // what was due at its end has come then
		return err
	}
	s.now, s.stirred, s.wants = now, false, false
	s.checked(false)
	return nil
}

// Act implements transcript.Gateway: here the agent is not ours, and nobody sees what it hears.
func (s *theatre) Act(string, transcript.Act) ([]byte, error) { return nil, nil }

// seat is one connection to it. It implements engine.Caller and transcript.Link.
type seat struct {
	*theatre
	link        *engine.Link
	things      []transcript.Heard
	open, ended bool
	mayLook     bool // see theatre.checked
	err         error
}

// Connected implements engine.Caller.
func (l *seat) Connected(*engine.Link, time.Time) {}

// Upgraded implements engine.Caller.
func (l *seat) Upgraded(*engine.Link, time.Time) { l.open = true }

// Message implements engine.Caller.
func (l *seat) Message(_ *engine.Link, b []byte, _ time.Time) {
	var h heard
	t := []byte(nil)
	if h.scan(b) == nil {
		t, _ = unquote(h.t)
	}
	l.hears(string(t) != "avatar" && string(t) != "typing")
	frame := bytes.ReplaceAll(b, []byte(l.names), []byte("tel-"))
	l.things = append(l.things, transcript.Heard{Frame: frame})
}

// hears is called when something came. For the transcript it is a moment of its own only when time is not passing.
func (l *seat) hears(news bool) {
	l.theatre.heard++
	if news {
		l.news++
	}
	l.stirred = true
	if now := time.Now(); now.After(l.now) {
		l.now = now
	}
}

// Closed implements engine.Caller.
func (l *seat) Closed(_ *engine.Link, err error, _ time.Time) {
	l.ended, l.err = true, err
	l.hears(true)
	h := transcript.Heard{}
	var told *engine.CloseError
	if errors.As(err, &told) {
		h.Code, h.Reason = told.Code, told.Reason
	} else if err != nil && !errors.Is(err, engine.ErrLost) {
		h.Reason = err.Error()
	}
	l.things = append(l.things, h)
}

// Say implements transcript.Link.
func (l *seat) Say(message []byte) {
	l.stir()
	b := engine.GetBuffer()
	start := engine.BeginMasked(b)
	b.B = append(b.B, ordinary.ReplaceAll(message, []byte(l.names+"$1"))...)
	l.client.EndMasked(b, start)
	l.link.Send(b)
}

// Hear implements transcript.Link.
func (l *seat) Hear() (transcript.Heard, bool) {
	if len(l.things) == 0 {
		l.wants = !l.mayLook
		l.mayLook = false
		return transcript.Heard{}, false
	}
	l.wants = false
	h := l.things[0]
	l.things = l.things[1:]
	return h, true
}

// Do implements transcript.Link.
func (l *seat) Do(deed transcript.Deed) {
	l.stir()
	switch deed {
	case transcript.Leave:
		l.link.Close(1000)
		l.until(time.Now().Add(5*time.Second), func() bool { return l.ended })
	case transcript.Break:
		l.link.Drop()
	case transcript.Stop, transcript.Goes: // a device that sleeps is left out: see unplayable
		l.link.SetDeaf(deed == transcript.Stop)
	}
}
