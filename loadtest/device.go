package loadtest

import (
	"errors"
	"time"

	"mobilegate/engine"
	"mobilegate/internal/wheel"
)

// The stages of a device's life.
const (
	offline    uint8 = iota
	away             // it comes back when its timer is due
	connecting       // TCP
	upgrading        // HTTP
	greeting         // hello left
	ready            // ready came
	astray           // it misbehaves on purpose, and is not counted on
	leaving          // its own close frame left
)

// device is one simulated device. Very many of them are idle at a time, so it holds nothing that can be made anew. It
// implements engine.Caller and belongs to the loop.
type device struct {
	fleet  *fleet
	link   *engine.Link
	old    *engine.Link // that link took over from, until it is closed
	asked  []message    // under way, in the order in which they were sent; kept for the next ones
	answer answer       // that has begun to come
	timer  wheel.Item
	since  time.Duration // when the stage began, on the fleet's clock
	due    time.Duration // when its connection was
	number int32         // its id is the prefix and this
	place  int32         // in fleet.ready
	sent   uint32        // number of the last message
	newest uint32        // number of the latest message whose answer came
	given  uint32        // answers to messages up to this one may come or not: it was away meanwhile
	stage  uint8
	tries  uint8 // connections since it was last ready
	awaits bool  // it is expected to become ready
	bad    bool  // it is one of those that go astray
}

// message is one that is under way.
type message struct {
	due      time.Duration // on the fleet's clock
	seq      uint32
	kind     uint8
	phase    uint8 // in which it was due, and where it counts
	measured bool
	begun    bool // its answer has
	lost     bool // it is late already, and counted so
}

// answer is one of which further frames are to come.
type answer struct {
	id     uint64 // hash of the frames' id
	seq    uint32 // 0: none
	offset int    // bytes that came
}

// TimerItem is the device's place in the fleet's wheel.
func (d *device) TimerItem() *wheel.Item { return &d.timer }

// call begins its connection, which was due at the time given.
func (d *device) call(due time.Duration) {
	f := d.fleet
	f.figures.Counts[Calls]++
	d.since, d.due = due, due
	d.tries += 1 - d.tries/255
	buffer := 0
	if d.bad {
		buffer = 4 << 10 // so that what it does not read stays with the gateway
	}
	link, err := f.client.Call(d, buffer)
	if err != nil {
		f.fail(d, err)
		return
	}
	d.link, d.stage = link, connecting
	f.coming++
	f.wheel.Set(d, f.start.Add(f.now+f.cfg.Timeout))
}

// enter begins the next stage and says how long the last one was.
func (d *device) enter(stage uint8, now time.Time) (spent time.Duration) {
	at := now.Sub(d.fleet.start)
	spent = at - d.since
	d.stage, d.since = stage, at
	return spent
}

// Connected implements engine.Caller.
func (d *device) Connected(_ *engine.Link, now time.Time) {
	record(d.fleet.figures.Spans[Connect], d.enter(upgrading, now))
}

// Upgraded implements engine.Caller.
func (d *device) Upgraded(_ *engine.Link, now time.Time) {
	f := d.fleet
	record(f.figures.Spans[Upgrade], d.enter(greeting, now))
	b, start := f.frame(f.hello)
	b.B = append(f.appendID(b.B, d), `","name":"loadtest","platform":"loadtest"}}`...)
	f.post(d, b, start)
}

// welcome is called when ready came.
func (d *device) welcome(now time.Time) {
	f := d.fleet
	record(f.figures.Spans[Ready], d.enter(ready, now))
	record(f.figures.Spans[Whole], d.since-d.due)
	f.figures.Counts[Online]++
	f.coming--
	d.tries, d.awaits = 0, false
	d.place = int32(len(f.ready))
	f.ready = append(f.ready, d)
}

// Closed implements engine.Caller: the other end is gone, or never was there.
func (d *device) Closed(l *engine.Link, err error, now time.Time) {
	f := d.fleet
	if l == d.old {
		d.replaced(err)
		return
	}
	was := d.stage
	d.gone()
	switch {
	case was == leaving && err == nil:
		f.comeBack(d)
	case was == ready:
		f.figures.Counts[Dropped]++
		f.figures.note(reason(err))
		f.forget(d, Lost)
		if f.phase.Reconnect.set && f.state < drain { // later there is no time to come back
			d.awaits = true
			f.comeBack(d)
		}
	case was == astray:
		f.astray--
		f.figures.Counts[Expelled]++
		f.figures.note("astray: " + reason(err))
		record(f.figures.Spans[Expulsion], now.Sub(f.start)-d.since)
	case was == leaving: // it did not let us say goodbye
		f.figures.note("at the end: " + reason(err))
	default:
		f.fail(d, err)
	}
}

// replaced is called when the connection that was taken over is closed, which is to be with 4001 (spec 1).
func (d *device) replaced(err error) {
	f := d.fleet
	d.old = nil
	f.old--
	var told *engine.CloseError
	if errors.As(err, &told) && told.Code == 4001 {
		f.figures.Counts[Replaced]++
		return
	}
	f.figures.Counts[Stale]++
	f.figures.note("taken over, and " + reason(err))
}

func (d *device) dropOld() {
	if d.old != nil {
		d.old.Drop()
		d.old = nil
		d.fleet.old--
	}
}

// gone takes it off every list.
func (d *device) gone() {
	f := d.fleet
	switch d.stage {
	case away:
		f.away--
	case connecting, upgrading, greeting:
		f.coming--
	case ready:
		last := f.ready[len(f.ready)-1]
		f.ready[d.place], last.place = last, d.place
		f.ready[len(f.ready)-1] = nil
		f.ready = f.ready[:len(f.ready)-1]
	case leaving:
		f.leaving--
	}
	d.stage, d.link, d.answer = offline, nil, answer{}
	f.wheel.Stop(d)
}

// leave says goodbye, where there is somebody to say it to.
func (d *device) leave() {
	f, link, was := d.fleet, d.link, d.stage
	d.dropOld()
	if was == offline || was == leaving {
		return
	}
	f.forget(d, Given)
	d.gone()
	switch {
	case was == ready:
		d.stage, d.link = leaving, link
		f.leaving++
		link.Close(1000)
	case link != nil:
		link.Drop()
	}
}

// expire is called when its time is up: it was to be ready, an answer was to come, or it comes back.
func (d *device) expire() {
	f := d.fleet
	switch d.stage {
	case away:
		due := d.since
		d.gone()
		d.awaits = true
		d.call(due)
	case connecting, upgrading, greeting:
		link := d.link
		d.gone()
		link.Drop()
		f.fail(d, errNotReady)
	case ready:
		f.giveUpLate(d)
	case astray:
		f.askForMuch(d)
	}
}
