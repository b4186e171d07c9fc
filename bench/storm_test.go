package bench

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// storms lets a whole fleet come back at once, after its network broke down, while some devices that stayed go on with their
// turns. The fleet is in two processes.
func (c *contest) storms() {
	cpu := &figure{name: "CPU per device of a fleet that comes back at once", unit: "µs", maxRatio: 0.45}
	took := &figure{name: "until all of it is ready", unit: "s"}
	p99 := &figure{name: "p99 of the others meanwhile", unit: "ms", maxRatio: 2}
	growth := &figure{name: "p99 of the others meanwhile, to before", unit: "times"}
	devices := pick(c, 4000, 12000)
	c.pairs("storm", pick(c, 3, 10), 0, func(t *testing.T, p program) window { return openStorm(t, p, devices) }, cpu, took, p99, growth)
}

// maxStormWaits is for each device of a fleet that comes back: once for it to come and once for its hello would be two.
const maxStormWaits = 1

// TestStorm counts how often the gateway stops to wait while a fleet comes back: there is always more than one that needs it,
// unless the kernel's queue for those who come is too short, or wakes the gateway for those who say nothing yet.
func TestStorm(t *testing.T) {
	yardstick(t)
	s, f := gateway.apart(t)
	const devices = 12000
	before := s.load()
	r := f.do(order{Do: "connect", N: devices, AtOnce: devices, Hello: true})
	waits := float64(s.load().waits-before.waits) / devices
	require.Equal(t, devices, r.Ready)
	t.Logf("a device of a fleet that comes back: %.2f voluntary context switches", waits)
	require.LessOrEqual(t, waits, float64(maxStormWaits))
}

const (
	stormQuiet = 2 * time.Second // before it
	stormTime  = 2 * time.Second // that the turns of the others go on from its beginning
)

func openStorm(t *testing.T, p program, devices int) window {
	cpus := separate(t)
	s, well := p.apart(t)
	well.connect(wellBehaved)
	none := s.descriptors()
	var fleets [2]*fleet
	for i, name := range []string{"first", "second"} {
		fleets[i] = newFleet(t, s.address, name, cpus[1]...)
		fleets[i].connect(devices / 2)
	}
	all := func(o order) (r [2]result) {
		var err [2]error
		var both sync.WaitGroup
		for i, f := range fleets {
			both.Go(func() { r[i], err[i] = f.try(o) })
		}
		both.Wait()
		for i := range r {
			require.NoError(t, err[i])
			require.Empty(t, r[i].Err)
		}
		return r
	}
	return func() []float64 {
		all(order{Do: "drop"})
		s.left(none)
		before := s.load()
		quiet := well.do(order{Do: "paced", Rate: wellRate, For: stormQuiet})
		perSecond := (s.load().cpu - before.cpu).Seconds() / quiet.Took.Seconds()

		var during result
		var failed error
		var others sync.WaitGroup
		others.Go(func() { during, failed = well.try(order{Do: "paced", Rate: wellRate, For: stormTime}) })
		began := time.Now()
		before = s.load()
		back := all(order{Do: "connect", N: devices / 2, AtOnce: devices, Hello: true})
		took := time.Since(began).Seconds()
		used := (s.load().cpu - before.cpu).Seconds() - took*perSecond // without the turns of the others
		others.Wait()
		require.NoError(t, failed)
		require.Zero(t, during.Bad+back[0].Bad+back[1].Bad, "errors")
		require.Equal(t, wellBehaved, during.Online)
		require.Equal(t, devices, back[0].Ready+back[1].Ready, "devices that %s let in; it closed with %v and %v, and refused %d upgrades",
			p.name, back[0].Closed, back[1].Closed, back[0].Refused+back[1].Refused)
		require.Equal(t, devices, back[0].Online+back[1].Online, "and that stayed")
		return []float64{used * 1e6 / float64(devices), took, microseconds(during.P99) / 1000, float64(during.P99) / float64(quiet.P99)}
	}
}
