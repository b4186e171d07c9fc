package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What devices that misbehave may do to the others.
const (
	wellBehaved  = 200
	wellRate     = 200 // turns a second over all of them
	phase        = 5 * time.Second
	maxP99Growth = 2
	quietMachine = 5 * time.Millisecond // p99 of the control; above it the machine is too busy with something else to judge
	recovery     = 60 * time.Second     // until everything that misbehaves is given up, and its memory is back
	faultRSS     = 1000                 // bytes that may stay for each that misbehaved: what is remembered of a device
	faultNoise   = 4 << 20              // and of the process as a whole
)

// faultPhase is how long turns took while something happened.
type faultPhase struct {
	name    string
	well    result // of the well-behaved devices
	control result // at the same time, of devices of another gateway, to which nothing happened
}

// faultCost is how the well-behaved and the gateway fared.
type faultCost struct {
	phases []faultPhase  // the first is that before any fault
	given  time.Duration // from the last fault until the gateway has given up every connection that misbehaved; 0: not within recovery
	back   time.Duration // and until its memory is back; 0 likewise
	before int           // bytes of RSS
	behind int           // bytes of RSS over what there was before
	slow   int           // slow senders that were told so
}

type faultRun struct {
	tb            testing.TB
	server        *server
	well, control *fleet
	cost          faultCost
}

// during measures the well-behaved for one phase that begins with what do does. None may be lost, and no turn.
func (r *faultRun) during(name string, do func()) {
	r.tb.Helper()
	pace := func(f *fleet, to *result) func() {
		return func() {
			var err error
			if *to, err = f.try(order{Do: "paced", Rate: wellRate, For: phase}); err != nil {
				to.Err = err.Error()
			}
		}
	}
	var both sync.WaitGroup
	p := faultPhase{name: name}
	both.Go(pace(r.well, &p.well))
	both.Go(pace(r.control, &p.control))
	do()
	both.Wait()
	for _, res := range []result{p.well, p.control} {
		require.Empty(r.tb, res.Err, name)
		require.Zero(r.tb, res.Bad, name)
		require.Equal(r.tb, wellBehaved, res.Online, "well-behaved devices that stayed, %s", name)
		require.Equal(r.tb, int(phase.Seconds()*wellRate), res.Turns, "turns of the well-behaved, %s", name)
	}
	r.cost.phases = append(r.cost.phases, p)
}

// measureFaults lets n devices of each kind misbehave, one kind after the other, and does not wait for the end of one before
// the next begins.
func measureFaults(tb testing.TB, n int) faultCost {
	s := startServer(tb, nil, "MOBILE_PING_INTERVAL=5s") // so that the dead are found soon
	r := &faultRun{tb: tb, server: s, well: newFleet(tb, s.address, "well"), control: newFleet(tb, startServer(tb, nil).address, "control")}
	r.well.connect(wellBehaved)
	r.control.connect(wellBehaved)
	killed, half, drip := newFleet(tb, s.address, "killed"), newFleet(tb, s.address, "half"), newFleet(tb, s.address, "drip")
	deaf := newFleet(tb, s.address, "deaf")
	s.settled()
	r.during("before", func() {})
	files := s.descriptors()
	r.cost.before = s.memory().rss
	for _, f := range []*fleet{killed, half, drip} {
		f.connect(n)
	}
	require.Equal(tb, n, deaf.do(order{Do: "connect", N: n, Narrow: true}).Turns)
	r.during("killed", killed.kill)
	r.during("half a frame", func() { half.do(order{Do: "misbehave", Kind: "half"}) })
	r.during("a byte a second", func() { drip.do(order{Do: "misbehave", Kind: "drip"}) })
	last := time.Now()
	r.during("never reads", func() { deaf.do(order{Do: "misbehave", Kind: "deaf", For: phase - time.Second}) })
	r.recover(last, files, n)
	r.cost.slow = drip.do(order{Do: "look"}).Closed[1013]
	return r.cost
}

// recover waits until the gateway is what it was before.
func (r *faultRun) recover(last time.Time, files, n int) {
	for time.Since(last) < recovery {
		r.during(fmt.Sprintf("%.0f s later", time.Since(last).Seconds()), func() {})
		if r.cost.given == 0 && r.server.descriptors() <= files {
			r.cost.given = time.Since(last)
		}
		r.cost.behind = r.server.memory().rss - r.cost.before
		if r.cost.given > 0 && r.cost.behind <= 4*n*faultRSS+faultNoise {
			r.cost.back = time.Since(last)
			return
		}
	}
}

// limit is the p99 that the well-behaved may have in a phase: twice what they had before, or what the machine, which others use
// too, did to the control. Below floor a latency says nothing.
func (c faultCost) limit(p faultPhase, floor time.Duration) time.Duration {
	return max(maxP99Growth*c.phases[0].well.P99, maxP99Growth*p.control.P99, floor)
}

func (p faultPhase) judged() bool { return p.control.P99 <= quietMachine }

func (c faultCost) unjudged() (n int) {
	for _, p := range c.phases {
		if !p.judged() {
			n++
		}
	}
	return n
}

func (c faultCost) check(tb testing.TB, n int, floor time.Duration) {
	for _, p := range c.phases {
		if p.judged() {
			require.LessOrEqual(tb, p.well.P99, c.limit(p, floor), "p99 of the well-behaved, %s", p.name)
		}
	}
	require.NotZero(tb, c.given, "connections that misbehaved are still open after %v", recovery)
	require.NotZero(tb, c.back, "%d KiB of memory stay behind after %v", c.behind>>10, recovery)
	require.Equal(tb, n, c.slow, "slow senders that were closed with 1013")
}

func (c faultCost) log(tb testing.TB) {
	for _, p := range c.phases {
		tb.Logf("%-16s p50 %5d p99 %6d max %6d us; control p99 %6d", p.name,
			p.well.P50.Microseconds(), p.well.P99.Microseconds(), p.well.Max.Microseconds(), p.control.P99.Microseconds())
	}
	if n := c.unjudged(); n > 0 {
		tb.Logf("%d of %d phases cannot be judged: the machine was busy with something else", n, len(c.phases))
	}
	tb.Logf("all given up after %v, memory back after %v (%d KiB before, %+d KiB)", c.given.Round(time.Second), c.back.Round(time.Second), c.before>>10, c.behind>>10)
}

func TestFaults(t *testing.T) {
	yardstick(t)
	const n = 100
	c := measureFaults(t, n)
	c.log(t)
	c.check(t, n, 25*time.Millisecond) // other packages may be tested at the same time
}

func BenchmarkFaults(b *testing.B) {
	yardstick(b)
	const n = 1000
	c := measureFaults(b, n)
	c.log(b)
	var worst faultPhase
	for _, p := range c.phases[1:] {
		if p.judged() && p.well.P99 > worst.well.P99 {
			worst = p
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(c.phases[0].well.P99.Microseconds()), "p99-us-before")
	b.ReportMetric(float64(worst.well.P99.Microseconds()), "p99-us-worst")
	b.ReportMetric(float64(worst.control.P99.Microseconds()), "p99-us-control")
	b.ReportMetric(float64(c.unjudged()), "unjudged-phases")
	b.ReportMetric(c.given.Seconds(), "s-until-given-up")
	b.ReportMetric(c.back.Seconds(), "s-until-memory-back")
	c.check(b, n, 5*time.Millisecond)
}
