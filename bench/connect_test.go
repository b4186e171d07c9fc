package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// connects measures a device that comes: TCP, upgrade, hello, ready. At most 128 of them are on their way at a time.
func (c *contest) connects() {
	cpu := &figure{name: "CPU per connect + hello", unit: "µs", maxRatio: 0.45}
	devices := pick(c, 1000, 4000)
	c.pairs("connect", 10, 0, func(t *testing.T, p program) window {
		s, f := p.apart(t)
		none := s.descriptors()
		return func() []float64 {
			before := s.load()
			r := f.do(order{Do: "connect", N: devices, Hello: true})
			after := s.load()
			require.Equal(t, devices, r.Ready)
			f.do(order{Do: "drop"})
			s.left(none)
			return []float64{microseconds(after.cpu-before.cpu) / float64(devices)}
		}
	}, cpu)
}

// left waits until the server has no more descriptors open than that: until it has noticed who went.
func (s *server) left(descriptors int) {
	s.tb.Helper()
	for began := time.Now(); s.descriptors() > descriptors; time.Sleep(20 * time.Millisecond) {
		require.Less(s.tb, time.Since(began), 20*time.Second, "connections that ended are still open")
	}
	time.Sleep(50 * time.Millisecond) // for what a server does behind that
}
