package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds every wait for something that must come: it is what a failure costs, never what a success takes.
const patience = 10 * time.Second

// clock is time that only the test moves.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	k := new(clock)
	k.nanos.Store(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return k
}

func (k *clock) now() time.Time { return time.Unix(0, k.nanos.Load()) }

// pass lets d go by, and s do what is due then.
func (k *clock) pass(s *Server, d time.Duration) {
	k.nanos.Add(int64(d))
	s.Tick(k.now())
}

// desk is a Handler. Unless hello is set, it admits whoever says anything, and echoes it.
type desk struct {
	hello  func(c Conn, b *Buffer)
	owner  func(*owner) // sets up the owner of the next connection
	joined chan *owner  // those that were admitted
}

func newDesk() *desk { return &desk{joined: make(chan *owner, 1024)} }

func (d *desk) Hello(c Conn, b *Buffer) {
	if d.hello != nil {
		d.hello(c, b)
		return
	}
	d.admit(c, b)
}

func (d *desk) admit(c Conn, b *Buffer) *owner {
	p := newOwner(c)
	if d.owner != nil {
		d.owner(p)
	}
	if !c.Admit(p) {
		PutMessage(b)
		return nil
	}
	d.joined <- p
	echo(c, b)
	return p
}

// words are the close codes and reasons of this desk.
var words = map[error]struct {
	code   uint16
	reason string
}{
	ErrTooBig:       {1008, "too_big"},
	ErrNotUTF8:      {1007, "bad_frame"},
	ErrNoHello:      {1008, "no_hello"},
	ErrSlowSender:   {1013, "slow_sender"},
	ErrSlowConsumer: {1013, "slow_consumer"},
	ErrOverloaded:   {1013, "overloaded"},
	ErrGoingAway:    {1001, "going away"},
}

func lastWords(err error, admitted bool) string { return fmt.Sprintf("%v, admitted %t", err, admitted) }

func (d *desk) Farewell(err error, admitted bool) *Farewell {
	return NewFarewell([]byte(lastWords(err, admitted)), words[err].code, words[err].reason)
}

// owner is a Peer that echoes and remembers.
type owner struct {
	c       *conn
	message func(c Conn, b *Buffer) // nil: echo
	drained func(c Conn)            // before drains counts
	drains  atomic.Int32
	ended   chan error // every Closed
}

func newOwner(c Conn) *owner { return &owner{c: c.(*conn), ended: make(chan error, 16)} }

func (p *owner) Message(c Conn, b *Buffer) {
	if p.message != nil {
		p.message(c, b)
		return
	}
	echo(c, b)
}

func (p *owner) Drained(c Conn) {
	if p.drained != nil {
		p.drained(c)
	}
	p.drains.Add(1)
}

func (p *owner) Closed(_ Conn, err error) { p.ended <- err }

// closed waits for Closed and wants it to say err.
func (p *owner) closed(t testing.TB, err error) {
	t.Helper()
	select {
	case got := <-p.ended:
		require.Equal(t, err, got)
	case <-time.After(patience):
		require.FailNow(t, "Closed does not come")
	}
}

func echo(c Conn, b *Buffer) {
	say(c, string(b.B))
	PutMessage(b)
}

// say sends one text frame.
func say(c Conn, s string) {
	b := GetBuffer()
	start := BeginFrame(b)
	b.B = append(b.B, s...)
	EndFrame(b, start)
	c.Send(b)
}

// rig is a Server on loopback whose time stands still.
type rig struct {
	*Server
	clock *clock
	desk  *desk
}

func start(t testing.TB, cfg Config, d *desk) *rig {
	t.Helper()
	r := &rig{clock: newClock(), desk: d}
	cfg.Host, cfg.Now, cfg.Log = "127.0.0.1", r.clock.now, slog.New(slog.NewTextHandler(io.Discard, nil))
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = 1000
	}
	r.Server = New(cfg, d)
	require.NoError(t, r.Start())
	t.Cleanup(func() {
		require.NoError(t, r.Stop(context.Background()))
		require.NoError(t, r.Err())
	})
	return r
}

func (r *rig) pass(d time.Duration) { r.clock.pass(r.Server, d) }

// dial connects and says nothing. It is accepted once it does, or after deferAccept.
func (r *rig) dial(t testing.TB) *device {
	t.Helper()
	c, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port())))
	require.NoError(t, err)
	return newDevice(t, c)
}

// open is a device that is upgraded and has said nothing yet.
func (r *rig) open(t testing.TB) *device {
	t.Helper()
	d := r.dial(t)
	d.put([]byte(goodRequest))
	d.upgraded()
	return d
}

// join is a device that was admitted, and its owner. Not for concurrent use on one rig.
func (r *rig) join(t testing.TB) (*device, *owner) {
	t.Helper()
	d := r.open(t)
	d.put(text("hello"))
	d.wants("text hello")
	return d, <-r.desk.joined
}

// caughtUp returns when the loop has accepted so many connections since the start and read what had come on them. Those that
// say nothing take deferAccept.
func (r *rig) caughtUp(t testing.TB, accepted int) {
	t.Helper()
	eventually(t, "connections that are accepted", func() bool { return r.Stats().Accepted >= int64(accepted) })
	d := r.dial(t)
	d.put([]byte("GET /healthz HTTP/1.0\r\n\r\n"))
	d.response("GET")
	d.Close()
}

// settled returns when c's loop has done everything that was asked of it before.
func settled(t testing.TB, c *conn) {
	t.Helper()
	done := make(chan struct{})
	require.NoError(t, c.sock.Wake(gnetDone(done)))
	select {
	case <-done:
	case <-time.After(patience):
		require.FailNow(t, "the loop does not answer")
	}
}

// eventually waits for what no event tells of.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patience, time.Millisecond, what)
}
