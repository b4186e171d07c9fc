package bench

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/codec"
	"mobilegate/session"
)

// A fan-out: one device with a deliver token delivers a text to every one of many, and hears of each that it has arrived. What
// one delivery may cost:
const (
	fanoutDevices       = 1000
	maxDeliveryWrites   = 1 // to the device that it is for
	maxDeliveryOutcomes = 1 // writes to the sender, to whom many are told in one
	maxDeliveryAllocs   = 10
	maxDeliveryBytes    = 1500
)

// fanout is a fleet that is delivered to, and who delivers.
type fanout struct {
	tb     testing.TB
	sender *fleet
	fleet  *fleet
	rounds int
}

func newFanout(tb testing.TB, address string, cpus ...int) *fanout {
	f := &fanout{tb: tb, sender: startFleet(tb, address, deliverToken, "sender", cpus...), fleet: newFleet(tb, address, "fanout", cpus...)}
	f.sender.connect(1)
	f.fleet.connect(fanoutDevices)
	return f
}

// fanoutCost is in writes for each delivery: to the devices, and to the sender.
type fanoutCost struct{ writes, outcomes float64 }

// deliver delivers to all devices, so many times; every one must have heard every time.
func (f *fanout) deliver(rounds int) fanoutCost {
	before, outcomes := f.fleet.do(order{Do: "look"}), 0
	for range rounds {
		f.rounds++
		outcomes += f.sender.do(order{Do: "deliver", N: fanoutDevices, To: "fanout"}).Writes
	}
	n := float64(rounds * fanoutDevices)
	after := f.fleet.do(order{Do: "hear", N: (1 + f.rounds) * fanoutDevices}) // one of the turn at the beginning
	require.Equal(f.tb, rounds*fanoutDevices, after.Messages-before.Messages)
	require.Equal(f.tb, fanoutDevices, after.Online)
	return fanoutCost{float64(after.Segments-before.Segments) / n, float64(outcomes) / n}
}

// TestFanout looks at a gateway in this process, whose devices and sender are not.
func TestFanout(t *testing.T) {
	yardstick(t)
	const rounds = 10
	g := newInside(t, session.Config{QuotaOff: true})
	f := newFanout(t, g.address)
	f.deliver(50) // a pool of buffers finds its sizes after 42 000 of one size
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := f.deliver(rounds)
	runtime.ReadMemStats(&after)
	allocs := float64(after.Mallocs-before.Mallocs) / (rounds * fanoutDevices)
	bytes := float64(after.TotalAlloc-before.TotalAlloc) / (rounds * fanoutDevices)
	t.Logf("a delivery: %.2f writes to its device, %.2f to the sender, %.1f allocations, %.0f B", c.writes, c.outcomes, allocs, bytes)
	require.LessOrEqual(t, c.writes, float64(maxDeliveryWrites), "writes to the device's socket")
	require.LessOrEqual(t, c.outcomes, float64(maxDeliveryOutcomes), "writes to the sender's socket")
	if codec.FastPath() {
		require.LessOrEqual(t, allocs, float64(maxDeliveryAllocs), "allocations")
		require.LessOrEqual(t, bytes, float64(maxDeliveryBytes), "bytes allocated")
	}
}

// BenchmarkFanout is the processor time of the gateway, alone on one processor, for each delivery. An op is a fan-out to all devices.
func BenchmarkFanout(b *testing.B) {
	yardstick(b)
	cpus := separate(b)
	s := startServer(b, cpus[0], "MOBILE_DELIVER_TOKENS="+deliverToken, "MOBILE_QUOTA=off")
	f := newFanout(b, s.address, cpus[1]...)
	f.deliver(10)
	before, rounds := s.load(), 0
	var c fanoutCost
	for b.Loop() {
		c = f.deliver(1)
		rounds++
	}
	b.ReportMetric(microseconds(s.load().cpu-before.cpu)/float64(rounds*fanoutDevices), "cpu-us/delivery")
	b.ReportMetric(c.writes, "writes/delivery")
	b.ReportMetric(c.outcomes, "sender-writes/delivery")
}
