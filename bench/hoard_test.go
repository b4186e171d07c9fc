package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Devices that hoard: each sends half of a large frame and then nothing more.
const (
	maxHoardRSS   = 2.5              // bytes of RSS for each byte that came: room for as much again, and the rounding of that
	hoardRecovery = 80 * time.Second // 30 s in which the half came, 30 s in which nothing did, 5 s to leave, and until it is quiet
)

// hoardCost is what hoarding devices do to the gateway's memory.
type hoardCost struct {
	held   float64       // bytes of RSS for each of them, at most
	given  time.Duration // from the last byte until all are given up
	back   time.Duration // and until their memory is back; 0: not within hoardRecovery
	behind int           // bytes of RSS over what there was before, then
}

func measureHoard(tb testing.TB, devices, size int) (c hoardCost) {
	s := startServer(tb, nil)
	f := newFleet(tb, s.address, "hoard")
	f.connect(devices)
	files, before := s.descriptors(), s.settled().rss
	f.do(order{Do: "misbehave", Kind: "hoard", Size: size})
	last := time.Now()
	for time.Since(last) < hoardRecovery && c.back == 0 {
		time.Sleep(500 * time.Millisecond)
		if c.given == 0 && s.descriptors() <= files-devices {
			c.given = time.Since(last)
		}
		c.behind = s.memory().rss - before
		c.held = max(c.held, float64(c.behind)/float64(devices))
		if c.given > 0 && c.behind <= devices*faultRSS+faultNoise {
			c.back = time.Since(last)
		}
	}
	r := f.do(order{Do: "look"})
	require.Zero(tb, r.Online, "hoarding devices that are still there")
	require.Equal(tb, map[int]int{1013: devices}, r.Closed, "how they were closed")
	return c
}

func (c hoardCost) check(tb testing.TB, size int) {
	tb.Logf("half a frame of %d KiB: %.0f B of RSS for each device; all given up after %v, memory back after %v (%+d KiB)",
		size>>10, c.held, c.given.Round(time.Second), c.back.Round(time.Second), c.behind>>10)
	require.LessOrEqual(tb, c.held, maxHoardRSS*float64(size/2), "bytes of RSS for each device that hoards")
	require.NotZero(tb, c.back, "%d KiB of memory stay behind", c.behind>>10)
}

func TestHoard(t *testing.T) {
	yardstick(t)
	t.Parallel()
	for _, size := range []int{64 << 10, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			measureHoard(t, 100, size).check(t, size)
		})
	}
}

// BenchmarkHoard has so many that the budget for messages on their way in (MOBILE_MAX_INBOUND) is full by a third.
func BenchmarkHoard(b *testing.B) {
	for _, x := range []struct{ devices, size int }{{2000, 64 << 10}, {200, 1 << 20}} {
		b.Run(fmt.Sprint(x.size), func(b *testing.B) {
			yardstick(b)
			c := measureHoard(b, x.devices, x.size)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(c.held, "RSS-B-held/device")
			b.ReportMetric(c.given.Seconds(), "s-until-given-up")
			b.ReportMetric(c.back.Seconds(), "s-until-memory-back")
			c.check(b, x.size)
		})
	}
}
