package loadtest

import (
	"math"
	"time"
)

// The course of a run: gather, warm up, measure; the same for the next phase; and when the last is over, drain and depart.
const (
	gather  = iota // devices of the phase come, at its connect rate
	warmup         // messages, not measured
	measure        // messages, measured
	drain          // answers are waited for
	depart         // devices say goodbye
	done
)

var stateNames = [...]string{"connecting", "warming up", "measuring", "waiting for answers", "leaving", "done"}

// stint is a phase as it goes. One that was not begun has no figures.
type stint struct {
	*Phase
	number     uint8
	figures    *Figures      // of what was due in it: an answer may come when the next phase runs
	began      time.Duration // with its first call, or the end of the phase before
	from, upTo time.Duration // what is measured; 0: it did not come to that
	there      int           // devices that were ready then
	waited     time.Duration // of the loop, at from
	busy       float64       // share of the measured time in which the loop was
	missed     int64         // messages that there was no time for
	startLag   time.Duration // how late the last connection was begun
}

// gate is asked by a fleet of which all devices are there when the phase may go on: it says so once all shards are as far.
type gate interface {
	open(phase uint8) (at time.Time, ok bool) // it must not block
}

// turn does what is due, and says when it wants to be called again.
func (f *fleet) turn(now time.Time) time.Time {
	f.now = now.Sub(f.start)
	if f.interrupted.Load() && f.state < drain {
		f.phase.upTo = min(f.phase.upTo, f.now)
		f.enter(drain)
	}
	f.due = f.wheel.Advance(now, f.due[:0])
	for _, d := range f.due {
		if !f.wheel.Armed(d) {
			d.expire()
		}
	}
	clear(f.due)
	next := f.step()
	if f.state == done {
		f.tell()
		return time.Time{}
	}
	if f.now-f.secondAt >= time.Second {
		f.tell()
	}
	next = min(next, f.now+longestWait, f.secondAt+time.Second)
	if at, ok := f.wheel.Next(); ok {
		next = min(next, at.Sub(f.start))
	}
	return f.start.Add(max(next, 1)) // never the zero time
}

// begin begins a phase.
func (f *fleet) begin(number int, at time.Duration) {
	f.enter(gather)
	p := &f.phases[number]
	p.number, p.figures, p.began = uint8(number), newFigures(), at
	f.phase, f.figures = p, p.figures
	f.pace = pace{from: at, rate: p.ConnectRate}
}

// step does what the state is for, goes on to the next one when it is over, and says when it has something to do again.
func (f *fleet) step() (next time.Duration) {
	switch f.state {
	case gather:
		if f.called < f.phase.Devices {
			return f.callDue()
		}
		if next, ok := f.gathered(); !ok {
			return next
		}
		fallthrough
	case warmup, measure:
		return f.messages()
	case drain:
		if f.underWay+f.coming+f.old > 0 && f.now < f.since+f.patience() {
			return f.now + grain
		}
		f.enter(depart)
		f.dismiss()
		fallthrough
	case depart:
		if f.leaving > 0 && f.now < f.since+farewell {
			return f.now + grain
		}
		f.enter(done)
	}
	return f.now
}

// gathered fixes when the phase is measured, once everybody is there who comes: here, and in the other shards. A phase for
// which nobody comes follows the one before without a gap.
func (f *fleet) gathered() (next time.Duration, ok bool) {
	p, at := f.phase, f.now
	switch {
	case !p.Gathers:
		at = p.began
	case f.coming+f.away > 0 && f.now < f.lastCall+f.cfg.Timeout+time.Second: // some may try again and again
		return f.now + longestWait, false
	case f.gate != nil:
		start, ok := f.gate.open(p.number)
		if !ok {
			return f.now + grain, false
		}
		at = start.Sub(f.start)
	}
	p.from = at + p.Warmup
	p.upTo = p.from + p.Duration
	p.there = len(f.ready)
	f.pace = pace{from: at, rate: p.Rate}
	if p.Rise != 0 {
		f.pace.rise = p.Rise / (p.Warmup + p.Duration).Seconds()
	}
	f.churn = pace{from: at, rate: p.Churn}
	f.enter(warmup)
	return f.now, true
}

// messages sends what is due in the states that send.
func (f *fleet) messages() (next time.Duration) {
	p := f.phase
	if f.state == warmup && f.now >= p.from {
		p.waited = f.client.Waited()
		f.enter(measure)
		if p.breaksOff() {
			f.breakOff()
		}
		f.goAstray()
	}
	if at, more := f.callBack(); more {
		return at
	}
	if len(f.ready)+f.coming+f.away+f.astray == 0 {
		p.upTo = min(p.upTo, f.now) // nobody is left
	}
	next = p.upTo
	if f.state == warmup {
		next = p.from
	}
	if f.pace.rate > 0 || f.pace.rise > 0 {
		next = min(next, f.sayDue())
	}
	if f.churn.rate > 0 {
		f.churnDue()
	}
	if next < p.upTo && f.now > p.upTo+overtime {
		p.missed = f.pace.left(p.upTo)
		next = p.upTo
	}
	if next >= p.upTo && f.now >= p.upTo { // all that was due before has been sent
		f.over()
		return f.now
	}
	if f.churn.rate > 0 {
		next = min(next, f.churn.due())
	}
	return next
}

// over goes on to the next phase, or to the end.
func (f *fleet) over() {
	if next := int(f.phase.number) + 1; next < len(f.phases) {
		f.begin(next, f.phase.upTo)
		return
	}
	f.enter(drain)
}

// dismiss sends everybody home.
func (f *fleet) dismiss() {
	for i := range f.devices[:f.called] {
		d := &f.devices[i]
		if d.awaits && !f.interrupted.Load() && (d.stage != away || d.tries > 0) { // one that was just dropped has its time to come back
			f.figures.Counts[Missing]++
		}
		if d.old != nil && d.stage == ready { // its new connection is welcome, and the old one still open
			f.figures.Counts[Stale]++
		}
		f.forget(d, Lost)
		f.settleAstray(d)
		d.leave()
	}
}

// patience is how long answers are waited for at the end.
func (f *fleet) patience() time.Duration {
	if f.interrupted.Load() {
		return min(f.cfg.Timeout, 2*time.Second)
	}
	return f.cfg.Timeout
}

func (f *fleet) enter(state int) {
	if p := f.phase; f.state == measure {
		if span := f.now - p.from; span > 0 && p.Duration > 0 {
			p.busy = 1 - float64(f.client.Waited()-p.waited)/float64(span)
		}
	}
	f.state, f.since = state, f.now
}

// pace says when the n-th thing is due.
type pace struct {
	from time.Duration
	rate float64 // a second, at from
	rise float64 // by how much it changes in a second
	n    int64
}

// never is when something is due that does not come.
const never = time.Duration(math.MaxInt64)

// due is when rate·t + rise·t²/2 has reached n.
func (p *pace) due() time.Duration {
	if p.n == 0 {
		return p.from
	}
	square := p.rate*p.rate + 2*p.rise*float64(p.n)
	t := 2 * float64(p.n) / (p.rate + math.Sqrt(max(square, 0)))
	if square < 0 || t > 1e9 {
		return never
	}
	return p.from + time.Duration(t*float64(time.Second))
}

// left is how many things are due before the time given, and were not done.
func (p *pace) left(upTo time.Duration) int64 {
	t := (upTo - p.from).Seconds()
	return int64(p.rate*t+p.rise*t*t/2) - p.n
}
