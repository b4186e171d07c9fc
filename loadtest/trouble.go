package loadtest

import (
	"time"

	"mobilegate/engine"
)

// What a fleet does on purpose that is no quiet life.

// comeBack lets d connect again, in its own time; a fleet that is about to leave calls nobody back.
func (f *fleet) comeBack(d *device) {
	if f.state >= drain {
		return
	}
	d.stage = away
	d.since = f.now + f.phase.Reconnect.delay(f.random, int(d.tries))
	f.away++
	f.wheel.Set(d, f.start.Add(d.since))
}

// churnDue lets the devices that are due go and come back, or be taken over by themselves.
func (f *fleet) churnDue() (next time.Duration) {
	for range burst {
		due := f.churn.due()
		if due > f.now || due >= f.phase.upTo {
			return due
		}
		f.churn.n++
		d := f.quiet()
		switch {
		case d == nil:
		case f.phase.takesOver():
			f.takeOver(d, due)
		default:
			f.figures.Counts[Churned]++
			d.leave()
		}
	}
	return f.churn.due()
}

// quiet is a ready device, by chance, that waits for nothing if one is found.
func (f *fleet) quiet() (d *device) {
	for range 10 {
		if len(f.ready) == 0 {
			return nil
		}
		if d = f.ready[f.random.IntN(len(f.ready))]; len(d.asked) == 0 && d.old == nil {
			break
		}
	}
	return d
}

// takeOver connects d once more while it is connected.
func (f *fleet) takeOver(d *device, due time.Duration) {
	if d.old != nil || len(d.asked) > 0 {
		return // there are too few devices for that many
	}
	f.figures.Counts[TakeOvers]++
	old := d.link
	d.gone()
	d.old, d.awaits = old, true
	f.old++
	d.call(due)
}

// breakOff ends all connections at one moment, and all devices come back: a mobile network does that. The spans of connecting
// then tell of nothing else.
func (f *fleet) breakOff() {
	for _, span := range []int{Connect, Upgrade, Ready, Whole} {
		f.figures.Spans[span].Reset()
	}
	for len(f.ready) > 0 {
		d := f.ready[len(f.ready)-1]
		f.forget(d, Given)
		link := d.link
		d.gone()
		link.Drop()
		d.awaits = true
		if f.phase.Reconnect.set {
			f.comeBack(d)
		} else {
			f.back = append(f.back, d)
		}
	}
}

// callBack connects those that came back at once.
func (f *fleet) callBack() (next time.Duration, ok bool) {
	for range min(burst, len(f.back)) {
		last := len(f.back) - 1
		f.back[last].call(f.phase.from)
		f.back = f.back[:last]
	}
	return f.now, len(f.back) > 0
}

// longReplies is how often a device that will not read asks for some 400 KB at once; further ones follow every second.
const longReplies = 8

// goAstray lets the bad devices stop to read; some ask for a lot before.
func (f *fleet) goAstray() {
	left := f.phase.strays()
	for i := range f.devices[:f.called] {
		d := &f.devices[i]
		if left == 0 {
			return
		}
		if !d.bad || d.stage != ready {
			continue
		}
		left--
		f.astray++
		f.forget(d, Given)
		link := d.link
		d.gone()
		d.stage, d.link, d.since = astray, link, f.now
		f.figures.Counts[Astray]++
		link.SetDeaf(true)
		if f.phase.asksForMuch() {
			for range longReplies {
				f.askForMuch(d)
			}
		}
	}
}

// askForMuch goes on every second, until the gateway has had enough. Its goodbye stands behind all that is not read and never
// comes; but what is sent to a closed socket is answered with a reset.
func (f *fleet) askForMuch(d *device) {
	d.sent++
	b, start := f.frame(`{"t":"text","id":"`)
	b.B = append(f.appendFrameID(b.B, d, d.sent), `","text":"/long 200000"}`...)
	f.post(d, b, start)
	f.wheel.Set(d, f.start.Add(f.now+time.Second))
}

// fail counts a connection that did not become ready, and lets the device try again if it may.
func (f *fleet) fail(d *device, err error) {
	f.figures.Counts[Failed]++
	f.figures.note(reason(err))
	d.dropOld()
	if f.phase.Reconnect.set {
		f.comeBack(d)
	}
}

// settleAstray ends the devices that the gateway still has although they went astray.
func (f *fleet) settleAstray(d *device) {
	if d.stage == astray {
		f.astray--
		link := d.link
		d.gone()
		link.Drop()
	}
}

var _ engine.Caller = (*device)(nil)
