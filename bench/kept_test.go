package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Uploads whose memory must come back.
const (
	uploads      = 8
	uploadSize   = 8 << 20
	maxUploadRSS = 4 << 20 // bytes of RSS of the process, burstRest after them
)

// memories measures what idle devices, large frames and uploads leave in memory. Nothing of it depends on the clock, so all
// servers run at the same time (as far as -parallel lets them).
func (c *contest) memories() {
	idle := &figure{name: "RSS per idle device", unit: "B", max: maxIdleRSS}
	burst := &figure{name: "RSS kept after 2 000 frames of 64 KiB, per device", unit: "B", max: maxBurstRSS}
	upload := &figure{name: "RSS kept after 8 uploads of 8 MiB", unit: "MiB", max: maxUploadRSS >> 20}
	var idles, bursts, kept [2]float64
	c.t.Run("memory", func(t *testing.T) {
		for i, p := range c.programs {
			t.Run(p.name+" idle", func(t *testing.T) {
				t.Parallel()
				idles[i] = p.perIdle(t, 2000, pick(c, 6000, 12000))
			})
			t.Run(p.name+" burst", func(t *testing.T) {
				t.Parallel()
				bursts[i] = p.keptByBurst(t, 2000)
			})
			t.Run(p.name+" uploads", func(t *testing.T) {
				t.Parallel()
				kept[i] = float64(p.keptByUploads(t)) / (1 << 20)
			})
		}
	})
	if kept[0] == 0 {
		return // left out by -run
	}
	for i := range c.programs {
		idle.seen[i], burst.seen[i], upload.seen[i] = []float64{idles[i]}, []float64{bursts[i]}, []float64{kept[i]}
	}
	c.figures = append(c.figures, idle, burst, upload)
}

// perIdle is the RSS of an idle device, as the slope between two sizes of a fleet.
func (p program) perIdle(t *testing.T, small, large int) float64 {
	s := p.start(t, nil)
	f := newFleet(t, s.address, "idle")
	f.connect(small)
	before := s.settled()
	f.connect(large - small)
	after := s.settled()
	require.Equal(t, large, f.do(order{Do: "look"}).Online, "devices that stayed")
	return float64(after.rss-before.rss) / float64(large-small)
}

// keptByBurst is what a large frame of each device leaves behind, for each of them.
func (p program) keptByBurst(t *testing.T, devices int) float64 {
	s := p.start(t, nil)
	f := newFleet(t, s.address, "burst")
	f.connect(devices)
	before := s.settled()
	require.Equal(t, devices, f.do(order{Do: "turns", N: 1, Size: burstFrame}).Turns)
	time.Sleep(burstRest)
	behind := s.memory().rss - before.rss
	require.Equal(t, devices, f.do(order{Do: "look"}).Online, "devices that stayed")
	return float64(behind) / float64(devices)
}

func (p program) keptByUploads(t *testing.T) int {
	s := p.start(t, nil)
	f := newFleet(t, s.address, "upload")
	f.connect(uploads)
	before := s.settled()
	require.Equal(t, uploads, f.do(order{Do: "turns", N: 1, Kind: "upload", Size: uploadSize}).Turns)
	time.Sleep(burstRest)
	return s.memory().rss - before.rss
}
