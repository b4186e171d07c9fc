package bench

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/codec"
	"mobilegate/session"
)

// A voice message: a frame of 1 MiB, that is 768 KiB of sound in base64, which comes back as media.
const (
	voiceFrame   = 1 << 20
	voiceDevices = 4
)

// What such a frame may allocate on its whole way, in and out: nothing of its size.
const (
	maxVoiceAllocs = 60
	maxVoiceBytes  = 128 << 10
)

// TestVoice looks at a gateway in this process, whose devices are not.
func TestVoice(t *testing.T) {
	yardstick(t)
	g := newInside(t, session.Config{QuotaOff: true})
	g.fleet.connect(voiceDevices)
	measure := func(each int) (allocs, bytes float64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := g.fleet.do(order{Do: "turns", N: each, Kind: "voice", Size: voiceFrame})
		runtime.ReadMemStats(&after)
		require.Equal(t, voiceDevices*each, r.Turns)
		n := float64(r.Turns)
		return float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n
	}
	measure(20)
	allocs, bytes := measure(100)
	t.Logf("a voice frame of 1 MiB, echoed: %.1f allocations, %.0f B", allocs, bytes)
	if codec.FastPath() {
		require.LessOrEqual(t, allocs, float64(maxVoiceAllocs), "allocations")
		require.LessOrEqual(t, bytes, float64(maxVoiceBytes), "bytes allocated")
	}
}

func (c *contest) voices() {
	cpu := &figure{name: "CPU per voice frame of 1 MiB, echoed", unit: "µs", maxRatio: 0.15}
	each := pick(c, 6, 12)
	c.pairs("voice", 10, 0, func(t *testing.T, p program) window {
		s, f := p.apart(t, "MOBILE_QUOTA=off")
		f.connect(voiceDevices)
		return func() []float64 {
			before := s.load()
			r := f.do(order{Do: "turns", N: each, Kind: "voice", Size: voiceFrame})
			after := s.load()
			require.Equal(t, voiceDevices*each, r.Turns)
			return []float64{microseconds(after.cpu-before.cpu) / float64(r.Turns)}
		}
	}, cpu)
}
