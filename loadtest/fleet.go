package loadtest

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"mobilegate/engine"
	"mobilegate/internal/wheel"
)

// The phases of a run, in order.
const (
	ramp    = iota // devices come, at the connect rate
	warmup         // messages, not measured
	measure        // messages, measured
	drain          // answers are waited for
	depart         // devices say goodbye
	done
)

var phaseNames = [...]string{"connecting", "warming up", "measuring", "waiting for answers", "leaving", "done"}

// Limits of the loop's own.
const (
	grain       = 10 * time.Millisecond  // of the devices' deadlines
	longestWait = 100 * time.Millisecond // a wait: an interrupt is noticed after it
	burst       = 500                    // connections begun, or messages sent, before what has come is looked at again
	farewell    = 5 * time.Second        // for the goodbyes
	overtime    = time.Second            // for messages that should have left by now
)

var errNotReady = errors.New("not ready in time")

// fleet is all devices of one process. It belongs to the loop, but for interrupted.
type fleet struct {
	cfg     Config
	run     string // name of this run: no id or text of it was ever used before
	client  *engine.Client
	wheel   *wheel.Wheel[*device]
	start   time.Time
	now     time.Duration // of this turn of the loop, since start
	figures *Figures
	hello   string // as far as the id
	random  *rand.Rand
	hash    maphash.Seed
	scratch []byte
	decoded []byte
	heard   heard // the frame that is judged
	due     []*device

	devices  []device
	ready    []*device
	next     int       // in ready: whose turn it is to say something
	called   int       // devices that were called
	coming   int       // that are on the way to ready
	away     int       // that come back in their own time
	back     []*device // that come back at once
	leaving  int
	old      int // connections that were taken over and are still open
	underWay int // messages

	phase         int
	since         time.Duration // when the phase began
	pace          pace          // of what the phase does
	churn         pace
	from, upTo    time.Duration // what is measured
	waited        time.Duration // of the loop, at from
	busy          float64       // share of the measured time in which the loop was
	missed        int64         // messages that there was no time for
	startLag      time.Duration // how late the last connection was begun
	interrupted   atomic.Bool
	second        *hdr.Histogram // replies of this second
	secondAt      time.Duration
	lastSent      int64
	lastAnswered  int64
	lagThisSecond time.Duration
}

// pace says when the n-th thing is due.
type pace struct {
	from time.Duration
	rate float64 // a second
	n    int64
}

func (p *pace) due() time.Duration {
	return p.from + time.Duration(float64(p.n)/p.rate*float64(time.Second))
}

func newFleet(cfg Config, run string) (*fleet, error) {
	dial, err := cfg.dial()
	if err != nil {
		return nil, err
	}
	client, err := engine.NewClient(dial)
	if err != nil {
		return nil, err
	}
	f := &fleet{cfg: cfg, run: run, client: client, start: time.Now(), figures: newFigures(), second: newHistogram(), hash: maphash.MakeSeed(),
		random: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Start))), devices: make([]device, cfg.Devices), pace: pace{rate: cfg.ConnectRate}}
	f.wheel = wheel.New[*device](grain, f.start)
	f.hello = string(appendQuoted([]byte(`{"t":"hello","token":`), cfg.Token)) + `,"device":{"id":"`
	bad := 0
	if cfg.goesAstray() {
		bad = int(math.Ceil(cfg.Bad * float64(cfg.Devices)))
	}
	for i := range f.devices {
		f.devices[i] = device{fleet: f, number: int32(cfg.Start + i), awaits: true, bad: i < bad}
	}
	return f, nil
}

// newRun is the name of a run.
func newRun() string {
	return strconv.FormatUint(1<<32|rand.Uint64()>>32, 16)[1:]
}

func (f *fleet) appendID(b []byte, d *device) []byte {
	return strconv.AppendInt(append(b, f.cfg.Prefix...), int64(d.number), 10)
}

// work is the whole run: it returns when all is done, or soon after ctx ended.
func (f *fleet) work(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { f.interrupted.Store(true) })()
	defer f.client.Close()
	return f.client.Run(f.turn)
}

// turn does what is due, and says when it wants to be called again.
func (f *fleet) turn(now time.Time) time.Time {
	f.now = now.Sub(f.start)
	if f.interrupted.Load() && f.phase < drain {
		f.upTo = min(f.upTo, f.now)
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
	if f.phase == done {
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

// step does what the phase is for, goes on to the next one when it is over, and says when it has something to do again.
func (f *fleet) step() (next time.Duration) {
	switch f.phase {
	case ramp:
		if f.called < len(f.devices) {
			return f.callDue()
		}
		if f.coming > 0 || f.away > 0 && f.now < f.pace.due()+f.cfg.Timeout {
			return f.now + longestWait
		}
		f.pace = pace{from: f.now, rate: f.cfg.Rate}
		f.churn = pace{from: f.now, rate: f.cfg.Churn}
		f.from = f.now + f.cfg.Warmup
		f.upTo = f.from + f.cfg.Duration
		f.enter(warmup)
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

// messages sends what is due in the phases that send.
func (f *fleet) messages() (next time.Duration) {
	if f.phase == warmup && f.now >= f.from {
		f.waited = f.client.Waited()
		f.enter(measure)
		if f.cfg.breaksOff() {
			f.breakOff()
		}
		f.goAstray()
	}
	if at, more := f.callBack(); more {
		return at
	}
	if len(f.ready)+f.coming+f.away == 0 && f.figures.Counts[Astray] == f.figures.Counts[Expelled] {
		f.upTo = min(f.upTo, f.now) // nobody is left
	}
	next = f.upTo
	if f.phase == warmup {
		next = f.from
	}
	if f.pace.rate > 0 {
		next = min(next, f.sayDue())
	}
	if f.churn.rate > 0 {
		f.churnDue()
	}
	if next < f.upTo && f.now > f.upTo+overtime {
		f.missed = int64((f.upTo - next).Seconds() * f.pace.rate)
		next = f.upTo
	}
	if next >= f.upTo && f.now >= f.upTo { // all that was due before has been sent
		f.enter(drain)
		return f.now
	}
	if f.churn.rate > 0 {
		next = min(next, f.churn.due())
	}
	return next
}

// dismiss sends everybody home.
func (f *fleet) dismiss() {
	for i := range f.devices {
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

func (f *fleet) enter(phase int) {
	if f.phase == measure {
		if span := f.now - f.from; span > 0 {
			f.busy = 1 - float64(f.client.Waited()-f.waited)/float64(span)
		}
	}
	f.phase, f.since = phase, f.now
}

// callDue begins the connections that are due.
func (f *fleet) callDue() (next time.Duration) {
	for range burst {
		due := f.pace.due()
		if due > f.now || f.called == len(f.devices) {
			return due
		}
		f.startLag = f.now - due
		f.devices[f.called].call(due)
		f.called++
		f.pace.n++
	}
	return f.now
}

// sayDue sends the messages that are due, each from the next ready device, and says when the next one is.
func (f *fleet) sayDue() (next time.Duration) {
	for range burst {
		due := f.pace.due()
		if due > f.now || due >= f.upTo {
			return due
		}
		f.pace.n++
		if len(f.ready) == 0 {
			f.figures.Counts[Unsent]++
			continue
		}
		f.next++
		if f.next >= len(f.ready) {
			f.next = 0
		}
		f.say(f.ready[f.next], due)
	}
	return f.pace.due()
}

func (f *fleet) say(d *device, due time.Duration) {
	d.sent++
	m := message{due: due, seq: d.sent, measured: due >= f.from, kind: f.kind(d, d.sent)}
	lag := time.Since(f.start) - due
	d.asked = append(d.asked, m)
	f.underWay++
	f.figures.Counts[Sent]++
	f.wheel.SetEarlier(d, f.start.Add(due+f.cfg.Timeout))
	f.lagThisSecond = max(f.lagThisSecond, lag)
	if m.measured {
		record(f.figures.Spans[Lag], lag)
	}
	f.send(d, m.kind, m.seq)
}

// tell says how the run is going.
func (f *fleet) tell() {
	c := &f.figures.Counts
	m := Moment{Phase: phaseNames[f.phase], At: f.now, Connected: len(f.ready), Sent: c[Sent] - f.lastSent, Answered: c[Answered] - f.lastAnswered,
		Faults: f.figures.faults(), Refused: c[Refused], Lateness: f.lagThisSecond, TotalSent: c[Sent], Pending: int64(f.underWay)}
	m.P50, _ = stat(f.second, "p50")
	m.P99, _ = stat(f.second, "p99")
	f.second.Reset()
	f.lastSent, f.lastAnswered, f.lagThisSecond = c[Sent], c[Answered], 0
	f.secondAt = f.now
	if f.cfg.Second != nil {
		f.cfg.Second(m)
	}
}
