package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// narrow is join with small buffers in the kernel: what is sent waits with us, and moves in small steps.
func (r *rig) narrow(t testing.TB) (*device, *owner) {
	t.Helper()
	d, p := r.join(t)
	require.NoError(t, d.pipe.(*net.TCPConn).SetReadBuffer(128<<10))
	require.NoError(t, unix.SetsockoptInt(p.c.sock.Fd(), unix.SOL_SOCKET, unix.SO_SNDBUF, 128<<10))
	return d, p
}

// numbered is message n of sender, about size bytes long, whose every part tells where it belongs.
func numbered(sender, n, size int) string {
	unit := fmt.Sprintf("%d:%d ", sender, n)
	return unit + strings.Repeat(unit, size/len(unit))
}

// Whatever many goroutines send to a device that reads slowly, in small steps: each one's messages come whole and in order.
func TestSlowReaderGetsAll(t *testing.T) {
	t.Parallel()
	const senders, each, size = 4, 256, 8 << 10 // 8 MiB
	r := start(t, Config{MaxPending: 64 << 20}, newDesk())
	d, p := r.narrow(t)
	var sending sync.WaitGroup
	for sender := range senders {
		sending.Go(func() {
			for n := range each {
				say(p.c, numbered(sender, n, size))
			}
		})
	}
	sending.Wait()
	require.Greater(t, p.c.Pending(), 1<<20)
	require.Zero(t, p.drains.Load())

	var next [senders]int
	d.r.Reset(sips{d.pipe})
	for range senders * each {
		heard := d.hears()
		sender, err := strconv.Atoi(heard[len("text "):strings.IndexByte(heard, ':')])
		require.NoError(t, err)
		require.True(t, heard == "text "+numbered(sender, next[sender], size), brief(heard))
		next[sender]++
	}
	eventually(t, "Drained", func() bool { return p.drains.Load() == 1 })
	require.Zero(t, p.c.Pending())
	d.put(text("and on"))
	d.wants("text and on")
	require.Equal(t, int32(1), p.drains.Load())
}

// sips reads a little at a time.
type sips struct{ pipe }

func (s sips) Read(b []byte) (int, error) { return s.pipe.Read(b[:min(len(b), 1000)]) }

// A sender that goes on from Drained, as a file does, is called until it has nothing more to send.
func TestRefillOnDrained(t *testing.T) {
	t.Parallel()
	const steps, size = 40, 256 << 10
	desk := newDesk()
	desk.owner = func(p *owner) {
		sent := 1 // by the test
		p.drained = func(c Conn) {
			for c.Pending() == 0 && sent < steps {
				sent++
				say(c, numbered(0, sent, size))
			}
		}
	}
	r := start(t, Config{MaxPending: 30 * size}, desk)
	d, p := r.join(t)
	say(p.c, numbered(0, 1, 20*size))
	d.wants("text " + numbered(0, 1, 20*size))
	for n := 2; n <= steps; n++ {
		d.wants("text " + numbered(0, n, size))
	}
	eventually(t, "all is taken", func() bool { return p.c.Pending() == 0 })
}

// Pending is what was sent less what the socket took: no byte is missing or counted twice.
func TestPending(t *testing.T) {
	t.Parallel()
	s, _ := bare(t, Config{MaxPending: 64 << 20}, newDesk())
	l, p := ownedBy(t, s, nil)
	r := rand.New(rand.NewPCG(3, 4))
	sent := 0
	for range 200 {
		b := GetBuffer()
		b.B = append(b.B, longData[:r.IntN(len(longData))]...)
		sent += len(b.B)
		l.Send(b)
		taken, err := unix.IoctlGetInt(int(l.far.Fd()), unix.TIOCINQ)
		require.NoError(t, err)
		require.Equal(t, sent, taken+l.Pending())
	}
	require.NoError(t, unix.SetNonblock(int(l.far.Fd()), true))
	got, buf := 0, make([]byte, 64<<10)
	for got < sent {
		n, err := unix.Read(int(l.far.Fd()), buf)
		if err == unix.EAGAIN {
			continue
		}
		require.NoError(t, err)
		got += n
	}
	eventually(t, "Drained", func() bool { return p.drains.Load() == 1 })
	require.Zero(t, l.Pending())
}

// A device that lets more than MaxPending wait is told so behind all that waits.
func TestMaxPending(t *testing.T) {
	t.Parallel()
	r := start(t, Config{MaxPending: 1 << 20}, newDesk())
	d, p := r.narrow(t)
	sent := 0
	for ; len(p.ended) == 0; sent++ {
		require.LessOrEqual(t, p.c.Pending(), 1<<20)
		say(p.c, numbered(0, sent, 64<<10))
	}
	p.closed(t, ErrSlowConsumer)
	for n := range sent {
		d.wants("text " + numbered(0, n, 64<<10))
	}
	d.bidden(ErrSlowConsumer, true)
	require.Zero(t, p.drains.Load(), "nobody is told that a queue is empty whose connection has ended")
}

// A queue that does not move for StallTimeout ends the connection, however short it is; one that moves does not.
func TestStall(t *testing.T) {
	t.Parallel()
	r := start(t, Config{MaxPending: 64 << 20}, newDesk())
	d, p := r.narrow(t)
	chunk := strings.Repeat("0123456789abcdef", 16<<10)
	sent, got := 0, 0
	for ; p.c.Pending() < 8<<20; sent++ {
		say(p.c, chunk)
	}
	moves := func() {
		for before := p.c.Pending(); p.c.Pending() == before; got++ {
			d.wants("text " + chunk)
		}
	}
	for range 4 {
		moves()
		r.pass(StallTimeout - tick)
		settled(t, p.c)
		require.Empty(t, p.ended)
	}
	for range 100 { // what the socket still takes after the last read is progress too
		if r.pass(StallTimeout); len(p.ended) > 0 {
			break
		}
	}
	p.closed(t, ErrSlowConsumer)
	for ; got < sent; got++ {
		d.wants("text " + chunk)
	}
	d.bidden(ErrSlowConsumer, true)
}

func TestStallToTheTick(t *testing.T) {
	t.Parallel()
	s, k := bare(t, Config{}, newDesk())
	l, p := ownedBy(t, s, nil)
	s.wheel.Set(l.conn, k.now().Add(15*time.Second)) // an earlier deadline does not put it off
	for l.Pending() == 0 {
		say(l, longData)
	}
	k.pass(s, 20*time.Second)
	say(l, "more")
	l.traffic(text("the device may speak"), k.now())
	k.pass(s, 10*time.Second-tick)
	require.Empty(t, p.ended)
	k.pass(s, tick)
	p.closed(t, ErrSlowConsumer)
}

// Bytes that the device takes are life: a device that takes a long file without a word is not pinged.
func TestTakingIsLife(t *testing.T) {
	t.Parallel()
	r := start(t, Config{MaxPending: 64 << 20, PingInterval: 50 * time.Second}, newDesk())
	d, p := r.narrow(t)
	chunk := strings.Repeat("0123456789abcdef", 16<<10)
	sent, got := 0, 0
	for ; p.c.Pending() < 8<<20; sent++ {
		say(p.c, chunk)
	}
	for range 4 {
		r.pass(StallTimeout - time.Second)
		for before := p.c.Pending(); p.c.Pending() == before; got++ {
			d.wants("text " + chunk)
		}
		require.Zero(t, p.c.Silence(r.clock.now()))
	}
	for ; got < sent; got++ {
		d.wants("text " + chunk) // and no ping among them
	}
}

// A device that sends pings and takes no pongs does not fill the queue: some go without an answer.
func TestPingsOfADeafDevice(t *testing.T) {
	t.Parallel()
	s, k := bare(t, Config{}, newDesk())
	l, p := ownedBy(t, s, nil)
	flood := bytes.Repeat(ping(longData[:125]), 400)
	for range 100 {
		l.traffic(flood, k.now())
		require.LessOrEqual(t, l.Pending(), maxPooled+len(flood))
	}
	require.Greater(t, l.Pending(), maxPooled)
	require.Empty(t, p.ended)
}
