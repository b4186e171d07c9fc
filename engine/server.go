package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"mobilegate/internal/wheel"
)

// Server holds the connections. Make it with New, then Start, Drain, Stop.
type Server struct {
	gnet.BuiltinEventEngine
	cfg     Config
	handler Handler
	start   time.Time
	wheel   *wheel.Wheel[*conn]
	drainer *drainer
	addrs   []string // of the listeners, in gnet's spelling

	goingAway *Farewell // of handler
	origins   origins
	strangers atomic.Int64 // bytes that connections which are nobody's have half received
	halves    atomic.Int64 // bytes of messages up to 64 KiB that the others have
	waiting   atomic.Int64 // bytes that devices have not taken
	port      int

	engine   gnet.Engine
	booted   chan error    // nil once the listeners are open
	ended    chan struct{} // closed when gnet has ended
	endErr   error         // readable then
	cancel   context.CancelFunc
	timer    sync.WaitGroup
	draining atomic.Bool
	stopping atomic.Bool

	proxySeen atomic.Bool // and warned of

	open, accepted, refused, upgraded, panics, released atomic.Int64
}

// New makes a Server whose strangers are handler's. Nothing runs before Start.
func New(cfg Config, handler Handler) *Server {
	cfg.fill()
	return &Server{cfg: cfg, origins: origins{trusted: cfg.TrustedProxies}, handler: handler, goingAway: handler.Farewell(ErrGoingAway, true), booted: make(chan error, 1), ended: make(chan struct{})}
}

// tick is the grain of the engine's deadlines, the shortest of which is 3 s.
const tick = 250 * time.Millisecond

// connBytes is about what a connection and its session cost.
const connBytes = 1 << 10

// userTimeout is how long TCP itself waits for a sign of life.
const userTimeout = 120 * time.Second

// keepAlive is the silence after which TCP probes a connection, where the pings come later or never. Linux ends it once
// userTimeout has passed and the last probe is unanswered: the first probes must be long before that, or the loss of a single
// one would do.
const keepAlive = userTimeout / 2

// Start opens the listeners and returns when they accept, or with the plain reason why they do not.
func (s *Server) Start() error {
	fit, err := MaxConnections(s.cfg.Loops)
	if err != nil {
		return err
	}
	switch {
	case s.cfg.MaxConnections == 0:
		s.cfg.MaxConnections = fit
	case s.cfg.MaxConnections > fit:
		return fmt.Errorf("%d connections are too many for the limit on open files, which has room for %d; raise it (ulimit -n, LimitNOFILE=)", s.cfg.MaxConnections, fit)
	}
	held, err := s.resolve()
	defer func() {
		for _, probe := range held {
			probe.Close()
		}
	}()
	if err != nil {
		return err
	}
	if s.drainer, err = newDrainer(); err != nil {
		return err
	}
	s.start = s.cfg.Now()
	s.wheel = wheel.New[*conn](tick, s.start)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		err := gnet.Rotate(s, s.addrs,
			gnet.WithNumEventLoop(s.cfg.Loops),
			gnet.WithReusePort(true), // each loop accepts for itself, and sees whether there is room before the next: see OnOpen
			gnet.WithReuseAddr(true), // else a restart fails while sockets are in TIME_WAIT
			gnet.WithTicker(true),    // for OnTick
			gnet.WithTCPKeepAlive(keepAlive),
			gnet.WithReadBufferCap(64<<10),
			gnet.WithWriteBufferCap(1<<10), // never written to: see conn.write
			gnet.WithLogger(reactorLog{s.cfg.Log}))
		if err == nil && !s.stopping.Load() {
			err = errors.New("the event loops ended by themselves")
		}
		s.endErr = err
		s.booted <- err
		close(s.ended)
	}()
	if err := <-s.booted; err != nil {
		<-s.ended
		cancel()
		s.drainer.close()
		return err
	}
	if err := s.tune(len(s.addrs)*s.cfg.Loops + len(held)); err != nil {
		s.cfg.Log.Warn("the listeners keep the system's settings", "error", err)
	}
	s.timer.Go(func() { s.wheel.Run(ctx, s.cfg.Now, s.fire) })
	return nil
}

// Port is the port that is listened on, once Start has returned.
func (s *Server) Port() int { return s.port }

// MaxConnections is how many connections are held at a time, once Start has returned.
func (s *Server) MaxConnections() int { return s.cfg.MaxConnections }

// MaxMemory is what the budgets of Config allow together, in bytes, once Start has returned.
func (s *Server) MaxMemory() int64 {
	return s.cfg.MaxInbound + s.cfg.MaxOutbound + s.cfg.MaxStrangers
}

// Ended is closed when the server accepts no more, for whatever reason; Err then says why.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Err says why the server ended; nil after Stop.
func (s *Server) Err() error {
	<-s.ended
	return s.endErr
}

// Drain refuses upgrades from now on, and tells load balancers so.
func (s *Server) Drain() { s.draining.Store(true) }

// Stop ends every connection that is still there with close 1001, and the server.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	over, cancel := context.WithCancel(ctx)
	cancel()
	s.engine.Stop(over) // begins it; gnet itself would look twice a second whether it is done
	select {
	case <-s.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.cancel()
	s.timer.Wait()
	s.drainer.close()
	return nil
}

// Stats may be called at any time.
func (s *Server) Stats() Stats {
	return Stats{Connections: s.open.Load(), Accepted: s.accepted.Load(), Refused: s.refused.Load(), Upgraded: s.upgraded.Load(), Panics: s.panics.Load(),
		Released: s.released.Load() + messagesReleased.Load()}
}

// OnOpen is gnet's: a connection was accepted and belongs to a loop.
func (s *Server) OnOpen(sock gnet.Conn) ([]byte, gnet.Action) {
	s.accepted.Add(1)
	n := s.open.Add(1)
	now := s.cfg.Now()
	c := &conn{srv: s, sock: sock}
	if n > int64(s.cfg.MaxConnections) {
		c.mark(overfull)
	}
	c.lastLife.Store(s.seconds(now))
	sock.SetContext(c)
	// A second net below the pings: unacknowledged bytes end the connection, not only after a quarter of an hour.
	unix.SetsockoptInt(sock.Fd(), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout/time.Millisecond))
	if n > int64(s.cfg.MaxConnections+maxRefused) {
		s.refused.Add(1)
		return nil, gnet.Close // no descriptor left to say 503 on
	}
	s.wheel.Set(c, now.Add(RequestTimeout))
	return nil, gnet.None
}

// OnTraffic is gnet's: bytes came, or, with none, somebody woke the loop for this connection.
func (s *Server) OnTraffic(sock gnet.Conn) gnet.Action {
	c := sock.Context().(*conn)
	b, _ := sock.Next(-1) // all of it, always: gnet's ring for leftovers stays unused
	now := s.cfg.Now()
	if len(b) > 0 {
		c.alive(now)
	}
	c.guard(func() { c.traffic(b, now) })
	return gnet.None
}

// OnClose is gnet's: the last call for a connection, whose descriptor is closed after it.
func (s *Server) OnClose(sock gnet.Conn, _ error) gnet.Action {
	s.open.Add(-1)
	s.released.Add(connBytes)
	c := sock.Context().(*conn)
	c.guard(func() { c.closedBy(ErrLost) })
	return gnet.None
}

// guard keeps a panic from ending more than one connection. The panic's text may hold what a device sent: it is not logged.
func (c *conn) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			c.srv.panics.Add(1)
			c.srv.cfg.Log.Error("a panic ended one connection", "type", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
			c.guard(func() { c.dropBecause(ErrPanic) })
		}
	}()
	f()
}

func (s *Server) fire(now time.Time, due []*conn) {
	for _, c := range due {
		c.guard(func() { c.expire(now) })
	}
}

// Tick does what is due at now, for tests that drive the time.
func (s *Server) Tick(now time.Time) { s.fire(now, s.wheel.Advance(now, nil)) }

func (s *Server) seconds(now time.Time) uint32 { return uint32(now.Sub(s.start) / time.Second) }

// reactorLog lets gnet speak through the gateway's log. It formats descriptors and system errors, nothing of a device.
type reactorLog struct{ log *slog.Logger }

func (l reactorLog) Debugf(format string, args ...any) {}
func (l reactorLog) Infof(format string, args ...any)  {}
func (l reactorLog) Warnf(format string, args ...any) {
	l.log.Warn("reactor: " + fmt.Sprintf(format, args...))
}
func (l reactorLog) Errorf(format string, args ...any) {
	l.log.Error("reactor: " + fmt.Sprintf(format, args...))
}
func (l reactorLog) Fatalf(format string, args ...any) { l.Errorf(format, args...) }
