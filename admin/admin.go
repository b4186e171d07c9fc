// Package admin serves the people who run the gateway, on a listener of its own that no device reaches: its numbers, in
// the text format of Prometheus. The number of series does not grow with the number of devices.
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"mobilegate/agent"
	"mobilegate/engine"
	"mobilegate/session"
)

// Config is whose numbers are served, and where. All functions are called at each look, from any goroutine.
type Config struct {
	Addr    string // host:port; port 0 takes a free one
	Engine  func() engine.Stats
	Hub     func() session.Stats
	Agent   func() agent.Health // nil: the agent has no service behind it
	Version string
	Log     *slog.Logger
}

// Listener is an open listener. Close ends it.
type Listener struct {
	of     Config
	server *http.Server
	socket net.Listener
}

// Listen opens the listener and serves it.
func Listen(c Config) (*Listener, error) {
	socket, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return nil, err
	}
	l := &Listener{of: c, socket: socket}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", l.metrics)
	l.server = &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug)} // its lines hold what clients sent
	if ip := net.ParseIP(host(socket)); ip == nil || !ip.IsLoopback() {
		c.Log.Warn("the listener for operators asks nobody for a password, and more than this host can reach it")
	}
	go func() {
		if err := l.server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("the listener for operators ended by itself", "error", err)
		}
	}()
	return l, nil
}

func host(socket net.Listener) string {
	host, _, _ := net.SplitHostPort(socket.Addr().String())
	return host
}

// URL is where the numbers are.
func (l *Listener) URL() string { return "http://" + l.socket.Addr().String() + "/metrics" }

// Close ends the listener, after those who are being answered, if they take what they are told within a second.
func (l *Listener) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		l.server.Close()
	}
}

func (l *Listener) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	l.write(w)
}

// write names the numbers. What only grows ends in _total.
func (l *Listener) write(w io.Writer) {
	e, h := l.of.Engine(), l.of.Hub()
	now := func(name string, n int64) { metrics.WriteGaugeUint64(w, "mobilegate_"+name, uint64(n)) }
	all := func(name string, n int64) { metrics.WriteCounterUint64(w, "mobilegate_"+name, uint64(n)) }
	now(fmt.Sprintf("info{version=%q}", l.of.Version), 1)
	now("connections", e.Connections)
	all("connections_accepted_total", e.Accepted)
	all("connections_upgraded_total", e.Upgraded)
	all(`connections_refused_total{at="upgrade"}`, e.Refused)
	all(`connections_refused_total{at="hello"}`, h.Refused)
	now("devices_online", h.Online)
	now("devices_remembered", h.Devices)
	all("frames_total", h.Frames)
	all("frames_unknown_total", h.Unknown)
	all("frame_errors_total", h.Errors)
	all("turns_total", h.Turns)
	all("turns_failed_total", h.Failed)
	all(`panics_total{in="engine"}`, e.Panics)
	all(`panics_total{in="session"}`, h.Panics)
	all("memory_released_bytes_total", e.Released+h.Released)
	if l.of.Agent != nil {
		a := l.of.Agent()
		now("agent_up", up(!a.Down))
		all("agent_calls_total", a.Calls)
		all("agent_failures_total", a.Failures)
		all("agent_retries_total", a.Retries)
		all("agent_refused_total", a.Refused)
		all(`agent_tokens_total{direction="input"}`, a.InputTokens)
		all(`agent_tokens_total{direction="output"}`, a.OutputTokens)
	}
	metrics.WriteProcessMetrics(w)
	// The kernel tells how many there are since 6.2; to count a million of them at each look would be dear.
	if fds, err := os.Stat("/proc/self/fd"); err == nil && fds.Size() > 0 {
		metrics.WriteGaugeUint64(w, "process_open_fds", uint64(fds.Size()))
	}
}

func up(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
