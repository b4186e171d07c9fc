package engine

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mobilegate/internal/wheel"
)

// lone is a conn on one end of a socketpair, without a loop: the test calls traffic itself, with exactly the pieces it
// likes. The device's side is on the other end.
type lone struct {
	*conn
	sock *loopless // conn.sock
	far  *os.File
}

// loopless stands in for gnet's side of a conn and counts what is asked of it.
type loopless struct {
	gnet.Conn
	fd            int
	c             *conn
	brought       []byte // for the next OnTraffic
	wakes, closes atomic.Int32
}

func (l *loopless) Fd() int                       { return l.fd }
func (l *loopless) Wake(gnet.AsyncCallback) error { l.wakes.Add(1); return nil }
func (l *loopless) Close() error                  { l.closes.Add(1); return nil }
func (l *loopless) Context() any                  { return l.c }
func (l *loopless) Next(int) ([]byte, error)      { return l.brought, nil }

// bare is a Server whose loops never run: for lone conns.
func bare(t testing.TB, cfg Config, h Handler) (*Server, *clock) {
	t.Helper()
	k := newClock()
	cfg.Now, cfg.Log = k.now, slog.New(slog.NewTextHandler(io.Discard, nil))
	s := New(cfg, h)
	s.start = k.now().Add(-time.Minute)
	s.wheel = wheel.New[*conn](tick, k.now())
	var err error
	s.drainer, err = newDrainer()
	require.NoError(t, err)
	t.Cleanup(s.drainer.close)
	return s, k
}

// alone makes a conn in the phase given. Its end is the test's to call: with finish, or by itself at the end of the test.
func alone(t testing.TB, s *Server, phase uint32) *lone {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	far := os.NewFile(uintptr(pair[1]), "far")
	require.NoError(t, far.SetDeadline(time.Now().Add(patience)))
	sock := &loopless{fd: pair[0]}
	l := &lone{conn: &conn{srv: s, sock: sock}, sock: sock, far: far}
	sock.c = l.conn
	l.lastLife.Store(s.seconds(s.cfg.Now()))
	l.phase.Store(phase)
	t.Cleanup(l.finish)
	return l
}

// ownedBy makes a conn that p owns.
func ownedBy(t testing.TB, s *Server, set func(*owner)) (*lone, *owner) {
	t.Helper()
	l := alone(t, s, stranger)
	p := newOwner(l.conn)
	if set != nil {
		set(p)
	}
	require.True(t, l.Admit(p))
	return l, p
}

// finish is what gnet does when a connection ends.
func (l *lone) finish() {
	if l.phase.Load() == closed {
		return
	}
	l.closedBy(ErrLost)
	unix.Close(l.sock.fd)
	l.far.Close()
}

// takes lets stream come in pieces; it cuts where cut says, which gets what is left and answers the size of the next piece.
func (l *lone) takes(stream []byte, cut func(left int) int) {
	for len(stream) > 0 {
		n := min(max(cut(len(stream)), 1), len(stream))
		l.traffic(stream[:n], l.srv.cfg.Now())
		stream = stream[n:]
	}
}

// brings is the sock with b to read, for Server.OnTraffic.
func (l *lone) brings(b []byte) *loopless {
	l.sock.brought = b
	return l.sock
}

// woken does what gnet does for each Wake.
func (l *lone) woken(now func() time.Time) {
	for l.sock.wakes.Swap(0) > 0 && l.phase.Load() < closed {
		l.traffic(nil, now())
	}
}

// hears is everything that is sent to the device, up to the end.
func (l *lone) hears() (frames []string) {
	r := bufio.NewReader(l.far)
	for {
		s, err := readFrame(r)
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			return append(frames, err.Error())
		}
		frames = append(frames, s)
	}
}
