package bench

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/codec"
	"mobilegate/session"
)

// What a device that comes may cost: accept, upgrade, hello, ready, and what is then remembered of it.
const (
	maxHelloAllocs = 16
	maxHelloBytes  = 1500
	maxHelloWrites = 2 // the answer to the upgrade, and ready
)

// TestHello lets devices come for the first time. What they cost on the way is what they leave in memory (TestIdleDevice)
// and what is thrown away.
func TestHello(t *testing.T) {
	yardstick(t)
	const devices = 1000
	g := newInside(t, session.Config{})
	g.fleet.connect(200) // pools and tables have found their sizes
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := g.fleet.do(order{Do: "connect", N: devices, Hello: true})
	runtime.ReadMemStats(&after)
	require.Equal(t, devices, r.Ready)
	allocs, bytes := float64(after.Mallocs-before.Mallocs)/devices, float64(after.TotalAlloc-before.TotalAlloc)/devices
	writes := float64(r.Writes) / devices
	t.Logf("connect + hello: %.1f allocations, %.0f B, %.2f writes", allocs, bytes, writes)
	require.LessOrEqual(t, writes, float64(maxHelloWrites), "writes to the device's socket")
	if codec.FastPath() {
		require.LessOrEqual(t, allocs, float64(maxHelloAllocs), "allocations")
		require.LessOrEqual(t, bytes, float64(maxHelloBytes), "bytes allocated")
	}
}

// BenchmarkConnectHello: TCP, upgrade, hello and ready of one new device after the other, and its end, all in this process. It
// is latency: both ends, and the waiting for one another, are in it.
func BenchmarkConnectHello(b *testing.B) {
	g := newInside(b, session.Config{QuotaOff: true})
	n := 0
	for b.Loop() {
		n++
		p := dial(b, g.address)
		p.hello(&device{id: fmt.Sprintf("00000000-0000-4000-8000-%012d", n)})
		p.conn.Close()
	}
	require.Zero(b, g.hub.Stats().Refused)
}
