package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// keepSmall gives memory back to the system after a burst. Go's own collector runs again only when the heap has doubled,
// or after two minutes, so after ten thousand connections or a wave of large messages an idle gateway would keep twice
// what it needs. Once the gateway is quiet and has allocated enough since the last time, it is collected and returned.
// A gateway that is busy is left alone: there the collector runs often enough.
func keepSmall(ctx context.Context) {
	const (
		look    = 5 * time.Second
		worth   = 1 << 20 // bytes allocated since the last time, at least, and an eighth of what is in use
		quiet   = 1 << 20 // bytes allocated within look, at most, and a hundredth of what is in use
		forever = 2       // times in a row: a pool keeps what it is given for one collection more
	)
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	tick := time.NewTicker(look)
	defer tick.Stop()
	var last, kept uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(samples)
		allocated, used := samples[0].Value.Uint64(), samples[1].Value.Uint64()
		if allocated-last <= max(quiet, used/100) && allocated-kept >= max(worth, used/8) {
			for range forever {
				debug.FreeOSMemory()
			}
			metrics.Read(samples)
			allocated = samples[0].Value.Uint64()
			kept = allocated
		}
		last = allocated
	}
}
