package bench

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/codec"
	"mobilegate/engine"
	"mobilegate/session"
)

// inside is a gateway in this process, put together as serve does, whose heap and goroutines can be looked at. Its devices
// are in a process of their own, so that nearly all that happens here is the gateway's.
type inside struct {
	engine  *engine.Server
	hub     *session.Hub
	address string
	fleet   *fleet
}

func newInside(tb testing.TB, cfg session.Config) *inside {
	tb.Helper()
	codec.Warm()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	cfg.Agent, cfg.Access, cfg.Log = &agent.Echo{}, session.Access{Tokens: []session.Token{{Secret: token}, {Secret: deliverToken, Deliver: true}}}, log
	hub, err := session.New(cfg)
	require.NoError(tb, err)
	g := &inside{hub: hub}
	g.engine = engine.New(engine.Config{
		Host: "127.0.0.1", Loops: max(runtime.GOMAXPROCS(0)-1, 1), PingInterval: 50 * time.Second, Log: log,
		MaxMessage: codec.MaxFrameBytes, MaxHello: codec.MaxHelloBytes, HelloTimeout: codec.HelloTimeout,
	}, hub)
	require.NoError(tb, g.engine.Start())
	hub.Start()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(tb, g.engine.Stop(ctx))
		hub.Close()
		require.Zero(tb, g.engine.Stats().Panics+hub.Stats().Panics)
	})
	g.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(g.engine.Port()))
	g.fleet = newFleet(tb, g.address, "inside")
	return g
}

// heap is what is alive, in bytes. What a pool holds is given up first: that takes two collections.
func heap() int {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
