package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"mobilegate/engine"
	"mobilegate/session"
)

// limitMemory tells Go's collector how much memory the gateway may take at most by its own budgets: without a limit it lets
// a full heap double. GOMEMLIMIT, where it is set, counts instead.
func limitMemory(server *engine.Server, hub *session.Hub) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	const (
		own  = 64 << 20 // the program itself, and what its pools hold
		each = 2 << 10  // a connection with its device, generously
	)
	debug.SetMemoryLimit(own + int64(server.MaxConnections())*each + server.MaxMemory() + hub.MaxMemory())
}

// keepSmall gives memory back to the system after a burst. Go's own collector runs again only when the heap has doubled,
// or after two minutes, so after ten thousand connections or a wave of large messages an idle gateway would keep twice
// what it needs. Once the gateway is quiet, and enough was allocated or let go since the last time, the heap is collected
// and what is free of it returned. A gateway that is busy is left alone, also when its pools spare it to allocate: there the
// collector runs often enough.
//
// released tells how many bytes were let go since the start: memory that was in use when it was last looked at, and for
// which nothing is allocated when it falls free.
func keepSmall(ctx context.Context, released func() int64) {
	const (
		look  = 5 * time.Second
		worth = 1 << 20 // bytes allocated or let go since the last time, at least, and an eighth of what is in use
		quiet = 1 << 20 // bytes allocated or let go within look, at most, and a hundredth of what is in use
		times = 2       // in a row: a pool keeps what it is given for one collection more
	)
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	read := func() (allocated, used uint64) {
		metrics.Read(samples)
		return samples[0].Value.Uint64(), samples[1].Value.Uint64()
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	var last, done uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		allocated, used := read()
		churn := allocated + uint64(released())
		if churn-last <= max(quiet, used/100) && churn-done >= max(worth, used/8) {
			for range times {
				debug.FreeOSMemory()
			}
			allocated, _ = read()
			churn = allocated + uint64(released())
			done = churn
		}
		last = churn
	}
}
