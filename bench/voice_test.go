package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A voice message: a frame of 1 MiB, that is 768 KiB of sound in base64, which comes back as media.
const (
	voiceFrame   = 1 << 20
	voiceDevices = 4
)

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
