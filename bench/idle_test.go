package bench

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/session"
)

// What an idle device may cost, in bytes, all of it included.
const (
	maxIdleRSS  = 1000
	maxIdleHeap = 900 // the part of it that the gateway's own structs are
)

// idleCost is what one idle device costs, as the slope between two sizes of a fleet.
type idleCost struct {
	rss, anonymous float64 // bytes
	threads        int     // that came with the larger fleet
}

func measureIdle(tb testing.TB, small, large int) (c idleCost) {
	s := startServer(tb, nil)
	f := newFleet(tb, s.address, "idle")
	f.connect(small)
	before, threads := s.settled(), s.threads()
	f.connect(large - small)
	after := s.settled()
	require.Equal(tb, large, f.do(order{Do: "look"}).Online, "devices that stayed")
	n := float64(large - small)
	return idleCost{float64(after.rss-before.rss) / n, float64(after.anonymous-before.anonymous) / n, s.threads() - threads}
}

func (c idleCost) check(tb testing.TB) {
	require.LessOrEqual(tb, c.rss, float64(maxIdleRSS), "bytes of RSS for an idle device")
	require.LessOrEqual(tb, c.threads, 4, "threads that came with the fleet")
}

func TestIdleDevice(t *testing.T) {
	yardstick(t)
	t.Parallel()
	c := measureIdle(t, 2000, 10000)
	t.Logf("an idle device: %.0f B of RSS, %.0f B anonymous; %+d threads", c.rss, c.anonymous, c.threads)
	c.check(t)
}

// measureIdleInside looks at the heap and the goroutines of a gateway in this process, again as a slope.
func measureIdleInside(tb testing.TB, small, large int) (heapBytes float64, goroutines int) {
	g := newInside(tb, session.Config{})
	g.fleet.connect(small)
	before, running := heap(), runtime.NumGoroutine()
	g.fleet.connect(large - small)
	return float64(heap()-before) / float64(large-small), runtime.NumGoroutine() - running
}

func TestIdleDeviceInside(t *testing.T) {
	yardstick(t)
	bytes, goroutines := measureIdleInside(t, 500, 2500)
	t.Logf("an idle device: %.0f B of heap; %+d goroutines", bytes, goroutines)
	require.LessOrEqual(t, bytes, float64(maxIdleHeap), "bytes of heap for an idle device")
	require.LessOrEqual(t, goroutines, 4, "goroutines that came with the fleet")
}

func BenchmarkIdleDevice(b *testing.B) {
	yardstick(b)
	c := measureIdle(b, 5000, 15000)
	heapBytes, goroutines := measureIdleInside(b, 2000, 10000)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(heapBytes, "heap-B/device")
	b.ReportMetric(float64(goroutines), "goroutines")
	b.ReportMetric(c.rss, "RSS-B/device")
	b.ReportMetric(c.anonymous, "anonymous-B/device")
	b.ReportMetric(float64(c.threads), "threads")
	c.check(b)
}
