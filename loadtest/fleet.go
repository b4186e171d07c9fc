package loadtest

import (
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"mobilegate/engine"
	"mobilegate/internal/wheel"
)

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
	hello   string        // as far as the id
	random  *rand.Rand
	hash    maphash.Seed
	scratch []byte
	decoded []byte
	heard   heard // the frame that is judged
	due     []*device

	devices  []device
	ready    []*device
	next     int // in ready: whose turn it is to say something
	called   int // devices that were called
	lastCall time.Duration
	coming   int       // that are on the way to ready
	away     int       // that come back in their own time
	back     []*device // that come back at once
	leaving  int
	old      int // connections that were taken over and are still open
	astray   int // devices
	underWay int // messages

	phases        []stint
	phase         *stint   // that runs
	figures       *Figures // of it
	gate          gate     // nil: nobody is waited for
	state         int
	since         time.Duration // when the state began
	pace          pace          // of calls, then of messages
	churn         pace
	interrupted   atomic.Bool
	second        *hdr.Histogram // replies of this second
	secondAt      time.Duration
	lastSent      int64
	lastAnswered  int64
	lagThisSecond time.Duration
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
	f := &fleet{cfg: cfg, run: run, client: client, start: time.Now(), second: newHistogram(), hash: maphash.MakeSeed(),
		random: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Start))), devices: make([]device, cfg.Devices), phases: make([]stint, len(cfg.Phases))}
	f.wheel = wheel.New[*device](grain, f.start)
	f.hello = string(appendQuoted([]byte(`{"t":"hello","token":`), cfg.Token)) + `,"device":{"id":"`
	bad := 0
	for i := range f.phases {
		f.phases[i].Phase = &cfg.Phases[i]
		bad += cfg.Phases[i].strays()
	}
	for i := range f.devices {
		f.devices[i] = device{fleet: f, number: int32(cfg.Start + i), awaits: true, bad: i < bad}
	}
	f.begin(0, 0)
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

// callDue begins the connections that are due.
func (f *fleet) callDue() (next time.Duration) {
	for range burst {
		due := f.pace.due()
		if due > f.now || f.called == f.phase.Devices {
			return due
		}
		f.phase.startLag, f.lastCall = f.now-due, f.now
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
		if due > f.now || due >= f.phase.upTo {
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
	d.asked = append(d.asked, message{due: due, seq: d.sent, measured: due >= f.phase.from, kind: f.kind(d, d.sent), phase: f.phase.number})
	lag := time.Since(f.start) - due
	f.underWay++
	f.figures.Counts[Sent]++
	f.wheel.SetEarlier(d, f.start.Add(due+f.cfg.Timeout))
	f.lagThisSecond = max(f.lagThisSecond, lag)
	m := &d.asked[len(d.asked)-1]
	if m.measured {
		record(f.figures.Spans[Lag], lag)
	}
	f.send(d, m)
}

// tell says how the run is going.
func (f *fleet) tell() {
	c := f.total()
	m := Moment{Phase: f.phase.Name, State: stateNames[f.state], At: f.now, Connected: len(f.ready), Sent: c[Sent] - f.lastSent, Answered: c[Answered] - f.lastAnswered,
		Faults: faults(&c), Refused: c[Refused], Lateness: f.lagThisSecond, TotalSent: c[Sent], Pending: int64(f.underWay)}
	m.P50, _ = stat(f.second, "p50")
	m.P99, _ = stat(f.second, "p99")
	f.second.Reset()
	f.lastSent, f.lastAnswered, f.lagThisSecond = c[Sent], c[Answered], 0
	f.secondAt = f.now
	if f.cfg.Second != nil {
		f.cfg.Second(m)
	}
}

// total is what all phases counted.
func (f *fleet) total() (sum [counts]int64) {
	for i := range f.phases[:f.phase.number+1] {
		for k, n := range f.phases[i].figures.Counts {
			sum[k] += n
		}
	}
	return sum
}
