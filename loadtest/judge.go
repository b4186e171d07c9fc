package loadtest

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"time"

	"mobilegate/engine"
)

// Message implements engine.Caller: every frame that a device hears is judged here.
func (d *device) Message(l *engine.Link, b []byte, now time.Time) {
	f, h := d.fleet, &d.fleet.heard
	if h.scan(b) != nil {
		f.figures.Counts[Malformed]++
		return
	}
	t, ok := unquote(h.t)
	if !ok {
		f.figures.Counts[Malformed]++
		return
	}
	if d.stage == astray {
		return // whatever it hears when it hears again
	}
	switch string(t) {
	case "ready":
		if l != d.link || d.stage != greeting {
			f.figures.Counts[Malformed]++
			return
		}
		d.hearReady(now)
	case "message", "media":
		switch {
		case l == d.link && d.stage < ready: // ready comes first (spec 4)
			f.figures.Counts[Malformed]++
		case string(t) == "media":
			d.hearMedia(now)
		default:
			d.hearMessage(now)
		}
	case "error":
		d.hearError()
	}
	// Others are of no matter here, and a device passes over types that it does not know.
}

func (d *device) hearReady(now time.Time) {
	f, h := d.fleet, &d.fleet.heard
	id, _ := unquote(h.deviceID)
	session, _ := unquote(h.session)
	f.scratch = f.appendID(append(f.scratch[:0], "mobile:"...), d)
	if !bytes.Equal(session, f.scratch) || !bytes.Equal(id, f.scratch[len("mobile:"):]) {
		f.figures.Counts[Misrouted]++
	}
	d.welcome(now)
}

// hearMessage takes a frame of an answer. The echo says which message it belongs to; further frames have the same id.
func (d *device) hearMessage(now time.Time) {
	f, h := d.fleet, &d.fleet.heard
	said, ok := unquote(h.text)
	if !ok {
		f.figures.Counts[Malformed]++
		return
	}
	id := maphash.Bytes(f.hash, h.id)
	if d.answer.seq == 0 || d.answer.id != id {
		seq, ok := d.whose(parseMark(said))
		if !ok {
			return
		}
		d.begin(answer{id: id, seq: seq}, now)
	}
	a := &d.answer
	if h.edit {
		a.offset = 0 // an edit holds all of the text so far
	}
	at := d.find(a.seq)
	right := false
	if at >= 0 {
		f.scratch = f.appendContent(f.scratch[:0], d, &d.asked[at])
		right = d.asked[at].kind == text && a.offset <= len(f.scratch) && bytes.HasPrefix(f.scratch[a.offset:], said)
	}
	a.offset += len(said)
	d.heardPiece(at, right, h.final, now)
}

// heardPiece is called for each frame of an answer to what is under way at at, when the content of the answer is in f.scratch.
func (d *device) heardPiece(at int, right, final bool, now time.Time) {
	f, figures := d.fleet, d.fleet.figures
	if at >= 0 {
		d.revive(at)
		figures = f.of(&d.asked[at])
	}
	switch {
	case !right || final && d.answer.offset != len(f.scratch):
		figures.Counts[Corrupted]++
		d.answer = answer{}
		if at >= 0 {
			d.settle(at)
		}
	case final:
		if m := d.asked[at]; m.measured {
			record(figures.Spans[Last], now.Sub(f.start)-m.due)
		}
		figures.Counts[Answered]++
		d.answer = answer{}
		d.settle(at)
	}
}

// whose finds out which message an answer belongs to, and counts what is wrong with that.
func (d *device) whose(run []byte, device int, seq uint32, ok bool) (uint32, bool) {
	f := d.fleet
	switch {
	case !ok || seq == 0:
		f.figures.Counts[Corrupted]++
	case string(run) != f.run:
		f.figures.note("an answer to an earlier run")
	case device != int(d.number):
		f.figures.Counts[Misrouted]++
	case d.find(seq) >= 0:
		return seq, true
	case seq <= d.given: // from before a reconnect: it may come, or not
	case seq <= d.sent:
		f.figures.Counts[Duplicated]++
	default:
		f.figures.Counts[Corrupted]++
	}
	return 0, false
}

// begin is called with the first frame of an answer.
func (d *device) begin(a answer, now time.Time) {
	f, m := d.fleet, &d.asked[d.find(a.seq)]
	d.answer = a
	if a.seq < d.newest {
		f.of(m).Counts[Reordered]++
	}
	d.newest = max(d.newest, a.seq)
	if m.begun {
		return
	}
	m.begun = true
	waited := now.Sub(f.start) - m.due
	record(f.second, waited)
	if m.measured {
		record(f.of(m).Spans[Reply], waited)
	}
}

func (d *device) find(seq uint32) int {
	for i := range d.asked {
		if d.asked[i].seq == seq {
			return i
		}
	}
	return -1
}

// of is where a message counts: in the phase in which it was due.
func (f *fleet) of(m *message) *Figures { return f.phases[m.phase].figures }

// revive is called when something comes for what is under way at i: it may have been lost.
func (d *device) revive(i int) {
	if m := &d.asked[i]; m.lost {
		m.lost = false
		d.fleet.underWay++
		figures := d.fleet.of(m)
		figures.Counts[Lost]--
		figures.Counts[Late]++
	}
}

// settle ends what is under way at i, and not lost.
func (d *device) settle(i int) {
	d.fleet.underWay--
	d.asked = append(d.asked[:i], d.asked[i+1:]...)
}

func (d *device) hearError() {
	f, h := d.fleet, &d.fleet.heard
	code, _ := unquote(h.code)
	f.figures.note("error " + printable(string(code)))
	id, ok := unquote(h.id)
	if !ok || h.fatal {
		return
	}
	run, device, seq, ok := parseFrameID(id)
	if !ok || string(run) != f.run {
		return
	}
	if device != int(d.number) {
		f.figures.Counts[Misrouted]++
		return
	}
	if i := d.find(seq); i >= 0 {
		d.revive(i)
		f.of(&d.asked[i]).Counts[Refused]++
		d.settle(i)
	}
}

// giveUpLate counts what was not answered in time as lost. It stays known, since it may still come.
func (f *fleet) giveUpLate(d *device) {
	next := time.Duration(0)
	for i := range d.asked {
		m := &d.asked[i]
		switch {
		case m.lost:
		case m.due+f.cfg.Timeout <= f.now:
			m.lost = true
			f.underWay--
			f.of(m).Counts[Lost]++
		case next == 0:
			next = m.due + f.cfg.Timeout
		}
	}
	if next > 0 {
		f.wheel.Set(d, f.start.Add(next))
	}
}

// forget ends all that d has under way, as lost or as given up.
func (f *fleet) forget(d *device, as int) {
	for i := range d.asked {
		if !d.asked[i].lost {
			f.of(&d.asked[i]).Counts[as]++
			f.underWay--
		}
	}
	d.asked, d.given = d.asked[:0], d.sent
}

// reason says in words why a connection ended.
func reason(err error) string {
	switch err := err.(type) {
	case *engine.CloseError:
		return fmt.Sprintf("closed with %d %s", err.Code, printable(err.Reason))
	case nil:
		return "closed"
	}
	return err.Error()
}
