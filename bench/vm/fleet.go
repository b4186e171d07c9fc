package main

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"mobilegate/engine"
)

// fleet is all devices, on one loop. What it does comes in steps, one after the other, each of which is a run of that loop.
type fleet struct {
	outcome
	client  *engine.Client
	gateway *gateway
	out     io.Writer
	start   time.Time
	told    time.Time // the last line
	devices []device
	called  int
	again   []*device // that were not let in, and call again
	asked   int
}

// Limits of the steps.
const (
	portsEach   = 16_000           // of a source address that are used: a quarter, so that the kernel finds a free one soon
	every       = 10 * time.Second // a line
	look        = time.Second      // between two looks at what changes without the loop
	restTime    = 5 * time.Minute  // until memory must have come to rest
	restSlack   = 100              // part of the memory that is no change
	answerTime  = 5 * time.Minute  // for all answers: emulation is slow
	askedAtOnce = 50
)

// newFleet starts a gateway, and makes a fleet that has not connected to it yet.
func newFleet(p *plan, out io.Writer) (*fleet, error) {
	if fit, err := engine.MaxConnections(1); err != nil {
		return nil, err
	} else if fit < p.devices {
		return nil, fmt.Errorf("%d devices need more than the limit on open files, which has room for %d", p.devices, fit)
	}
	g, err := startGateway(p.gateway)
	if err != nil {
		return nil, err
	}
	client, err := engine.NewClient(engine.ClientConfig{To: g.addr, From: sources(p.devices)})
	if err != nil {
		g.stop()
		return nil, err
	}
	f := &fleet{client: client, gateway: g, out: out, start: time.Now(), devices: make([]device, p.devices)}
	f.plan, f.reasons = p, map[string]int{}
	f.empty, _ = g.memory()
	return f, nil
}

func (f *fleet) stop() {
	f.gateway.stop()
	f.client.Close()
}

// carryOut does all of it, and says what came of it. It is soon over once a device is lost.
func (f *fleet) carryOut() (status int) {
	for _, step := range []func() error{f.connect, f.rest, f.ask} {
		if err := step(); err != nil {
			f.lose(err)
		}
	}
	return f.tell(f.out)
}

// sources are addresses to connect from, enough of them for so many devices.
func sources(devices int) (from []netip.Addr) {
	a := netip.MustParseAddr("127.0.0.1")
	for range (devices-1)/portsEach + 1 {
		a = a.Next()
		from = append(from, a)
	}
	return from
}

// step runs the loop until work says that it is done, or a device was lost. work is called after everything that happened.
func (f *fleet) step(work func(now time.Time) (done bool)) error {
	return f.client.Run(func(now time.Time) time.Time {
		if now.Sub(f.told) >= every {
			f.line(now)
		}
		if f.lost > 0 || work(now) {
			f.line(now)
			return time.Time{}
		}
		return now.Add(look)
	})
}

func (f *fleet) line(now time.Time) {
	f.told = now
	used, all := machineMemory()
	f.guest, f.memory = max(f.guest, used), all
	var rss int
	if rss, f.most = f.gateway.memory(); f.asked == 0 {
		f.rss = rss
	}
	fmt.Fprintf(f.out, "%5.0f s  connected %d  gateway %s  machine %s\n", now.Sub(f.start).Seconds(), f.online-f.lost, mib(rss), mib(used))
}

// connect brings all devices in, so many at a time as the plan says: who is in makes room for the next.
func (f *fleet) connect() error {
	return f.step(func(now time.Time) bool {
		for _, d := range f.again {
			d.call()
		}
		f.again = f.again[:0]
		for f.called < len(f.devices) && f.called-f.online < f.plan.window && f.lost == 0 {
			d := &f.devices[f.called]
			d.fleet, d.number = f, int32(f.called)
			d.call()
			f.called++
		}
		f.took = now.Sub(f.start)
		return f.online == len(f.devices)
	})
}

// rest waits until the gateway's memory stays the same: it gives back what it does not need once it is idle.
func (f *fleet) rest() error {
	began, since, before := time.Now(), time.Now(), 0
	return f.step(func(now time.Time) bool {
		if rss, _ := f.gateway.memory(); max(rss-before, before-rss) > before/restSlack {
			before, since = rss, now
		}
		f.atRest = now.Sub(since) >= f.plan.still
		return f.atRest || now.Sub(began) > restTime
	})
}

// ask lets devices from everywhere in the fleet say something, and waits for the answers.
func (f *fleet) ask() error {
	began := time.Now()
	return f.step(func(now time.Time) bool {
		for f.asked < f.plan.samples && f.asked-f.answered-f.wrong < askedAtOnce {
			f.devices[f.asked*len(f.devices)/f.plan.samples].ask()
			f.asked++
		}
		f.asking = now.Sub(began)
		return f.answered+f.wrong == f.plan.samples || f.asking > answerTime
	})
}

func (f *fleet) lose(err error) {
	f.lost++
	f.reasons[err.Error()]++
}
