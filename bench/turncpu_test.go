package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Turns at a pace: the usual load of a large fleet, where most of the time nothing is to be done.
const (
	pacedDevices   = 2000
	pacedRate      = 2000 // turns a second over all devices
	pacedTime      = 5 * time.Second
	crowdedDevices = 200 // that ask again as soon as they are answered
	maxWaits       = 3   // context switches for a paced turn
)

// turnLoad is what the gateway needs for a turn under some load.
type turnLoad struct {
	result
	cpu      time.Duration // for each turn
	switches float64       // for each turn
}

func measureLoad(b *testing.B, cpus [2][]int, o order, devices int, settings ...string) turnLoad {
	s := startServer(b, cpus[0], settings...)
	f := newFleet(b, s.address, "load", cpus[1]...)
	f.connect(devices)
	f.do(order{Do: o.Do, Rate: o.Rate, For: time.Second}) // the first second is not counted
	before := s.load()
	r := f.do(o)
	after := s.load()
	require.Equal(b, devices, r.Online)
	n := float64(r.Turns)
	return turnLoad{r, time.Duration(float64(after.cpu-before.cpu) / n), float64(after.switches-before.switches) / n}
}

// TestPacedTurn counts how often the gateway stops to wait for each turn. That does not depend on the clock: on a machine that
// is busy it waits less often.
func TestPacedTurn(t *testing.T) {
	yardstick(t)
	s, f := gateway.apart(t)
	f.connect(pacedDevices)
	before := s.load()
	r := f.do(order{Do: "paced", Rate: pacedRate, For: 2 * time.Second})
	waits := float64(s.load().waits-before.waits) / float64(r.Turns)
	t.Logf("a paced echo turn: %.2f voluntary context switches", waits)
	require.LessOrEqual(t, waits, float64(maxWaits))
}

// separate gives the gateway one processor and the fleet the others, as far as there are two.
func separate(b testing.TB) [2][]int {
	if runtime.NumCPU() < 2 {
		b.Skip("there is only one processor")
	}
	return [2][]int{{0}, {1}}
}

func (l turnLoad) report(b *testing.B) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(l.Turns)/l.Took.Seconds(), "turns/s")
	b.ReportMetric(float64(l.cpu.Nanoseconds())/1000, "cpu-us/turn")
	b.ReportMetric(l.switches, "switches/turn")
	b.ReportMetric(float64(l.P50.Nanoseconds())/1000, "p50-us")
	b.ReportMetric(float64(l.P99.Nanoseconds())/1000, "p99-us")
}

func BenchmarkPacedTurn(b *testing.B) {
	o := order{Do: "paced", Rate: pacedRate, For: pacedTime}
	b.Run("one-core", func(b *testing.B) {
		yardstick(b)
		l := measureLoad(b, separate(b), o, pacedDevices)
		require.Equal(b, int(pacedTime.Seconds()*pacedRate), l.Turns)
		l.report(b)
	})
	b.Run("all-cores", func(b *testing.B) {
		yardstick(b)
		l := measureLoad(b, [2][]int{}, o, pacedDevices)
		require.Equal(b, int(pacedTime.Seconds()*pacedRate), l.Turns)
		l.report(b)
	})
}

func BenchmarkSaturatedTurn(b *testing.B) {
	o := order{Do: "turns", For: pacedTime}
	b.Run("one-core", func(b *testing.B) {
		yardstick(b)
		measureLoad(b, separate(b), o, crowdedDevices, "MOBILE_QUOTA=off").report(b)
	})
	b.Run("all-cores", func(b *testing.B) {
		yardstick(b)
		measureLoad(b, [2][]int{}, o, crowdedDevices, "MOBILE_QUOTA=off").report(b)
	})
}

// pacedTurns and saturatedTurns give the program one processor and its devices the other, and measure both programs in turn.
// A pair of paced windows is followed by a rest in which the avatars become idle, so that no frame of theirs falls into a
// window; the second window of a pair is over before those of the first begin.
func (c *contest) pacedTurns() {
	cpu := &figure{name: "CPU per echo turn, paced", unit: "µs", maxRatio: 0.50}
	switches := &figure{name: "context switches per paced turn", unit: "count", max: maxWaits}
	writes := &figure{name: "writes per echo turn", unit: "count", max: maxTurnWrites}
	p99 := &figure{name: "p99 of a paced turn", unit: "µs", maxRatio: 1}
	o := order{Do: "paced", Rate: pacedRate, For: 2 * time.Second}
	c.pairs("paced", 10, 3500*time.Millisecond, func(t *testing.T, p program) window {
		s, f := p.apart(t)
		f.connect(pacedDevices)
		return func() []float64 {
			before := s.load()
			r := f.do(o)
			after := s.load()
			require.Equal(t, int(o.For.Seconds()*pacedRate), r.Turns)
			n := float64(r.Turns)
			return []float64{microseconds(after.cpu-before.cpu) / n, float64(after.switches-before.switches) / n, float64(r.Writes) / n, microseconds(r.P99)}
		}
	}, cpu, switches, writes, p99)
}

func (c *contest) saturatedTurns() {
	cpu := &figure{name: "CPU per echo turn, saturated", unit: "µs", maxRatio: 0.30}
	o := order{Do: "turns", For: pick(c, time.Second, 2*time.Second)}
	c.pairs("saturated", 10, 0, func(t *testing.T, p program) window {
		s, f := p.apart(t, "MOBILE_QUOTA=off")
		f.connect(crowdedDevices)
		return func() []float64 {
			before := s.load()
			r := f.do(o)
			return []float64{microseconds(s.load().cpu-before.cpu) / float64(r.Turns)}
		}
	}, cpu)
}

// apart starts a program on one processor and a fleet on the other.
func (p program) apart(tb testing.TB, settings ...string) (*server, *fleet) {
	cpus := separate(tb)
	s := p.start(tb, cpus[0], settings...)
	return s, newFleet(tb, s.address, "load", cpus[1]...)
}
