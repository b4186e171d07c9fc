package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a burst of large messages may leave behind.
const (
	burstFrame    = 64 << 10
	burstRest     = 30 * time.Second
	maxBurstRSS   = 500       // bytes of RSS for each device, burstRest after its frame
	burstOfItself = 256 << 10 // and what the first large message costs the process once, which a small fleet cannot divide
)

// burstCost is what a 64 KiB frame from every idle device does to the gateway's memory.
type burstCost struct {
	devices int
	behind  int // bytes of RSS of the whole process, burstRest later, over what it held before
	peak    int // the same right after the burst
}

func (c burstCost) perDevice() float64 { return float64(c.behind) / float64(c.devices) }

func measureBurst(tb testing.TB, devices int) burstCost {
	s := startServer(tb, nil)
	f := newFleet(tb, s.address, "burst")
	f.connect(devices)
	before := s.settled()
	r := f.do(order{Do: "turns", N: 1, Size: burstFrame})
	require.Equal(tb, devices, r.Turns)
	peak := s.memory()
	time.Sleep(burstRest)
	after := s.memory()
	require.Equal(tb, devices, f.do(order{Do: "look"}).Online, "devices that stayed")
	return burstCost{devices, after.rss - before.rss, peak.rss - before.rss}
}

func TestBurst(t *testing.T) {
	yardstick(t)
	t.Parallel()
	c := measureBurst(t, 500)
	t.Logf("30 s after a frame of 64 KiB: %.0f B of RSS for each device (%+d KiB in all, %+d KiB at once)", c.perDevice(), c.behind>>10, c.peak>>10)
	require.LessOrEqual(t, c.behind, maxBurstRSS*c.devices+burstOfItself)
}

func BenchmarkBurst(b *testing.B) {
	yardstick(b)
	c := measureBurst(b, 2000)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(c.perDevice(), "RSS-B-behind/device")
	b.ReportMetric(float64(c.peak)/float64(c.devices), "RSS-B-at-once/device")
	require.LessOrEqual(b, c.perDevice(), float64(maxBurstRSS), "bytes of RSS that stay behind")
}
