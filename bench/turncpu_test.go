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

// separate gives the gateway one processor and the fleet the others, as far as there are two.
func separate(b *testing.B) [2][]int {
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
