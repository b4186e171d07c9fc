package engine

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var refusal = NewFarewell([]byte(`the error`), 1008, "bad_frame")

// floods writes b over and over until the server ends TCP, or the test.
func (d *device) floods(b []byte) {
	for {
		if _, err := d.Write(b); err != nil {
			return
		}
	}
}

// The last words reach a device that does not stop sending, every time.
func TestLastWordsReachWhoStillSends(t *testing.T) {
	t.Parallel()
	huge := announce(fin|dataOp, 8, 17<<20, strings.Repeat("x", 1<<20))
	for name, test := range map[string]struct {
		flood []byte
		hello func(d *desk) func(Conn, *Buffer)
		words []string
	}{
		"messages": {text(strings.Repeat("x", 1000)), func(d *desk) func(Conn, *Buffer) {
			return func(c Conn, b *Buffer) {
				p := d.admit(c, b)
				n := 0
				p.message = func(c Conn, b *Buffer) {
					PutMessage(b)
					if n++; n == 20 {
						c.Close(refusal)
					}
				}
			}
		}, []string{"text the error", "close 1008 bad_frame", "end"}},
		"a message of megabytes, refused by its header": {huge, nil, []string{
			"text " + lastWords(ErrTooBig, true), "close 1008 too_big", "end"}},
		"a message of megabytes, closed from elsewhere": {announce(fin|dataOp, 8, 15<<20, strings.Repeat("x", 1<<20)), func(d *desk) func(Conn, *Buffer) {
			return func(c Conn, b *Buffer) {
				d.admit(c, b)
				go func() {
					eventuallyPartial(c.(*conn))
					c.Close(refusal)
				}()
			}
		}, []string{"text the error", "close 1008 bad_frame", "end"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			if test.hello != nil {
				d.hello = test.hello(d)
			}
			r := start(t, Config{}, d)
			for range 30 {
				device, _ := r.join(t)
				flooded := make(chan struct{})
				go func() {
					defer close(flooded)
					device.floods(test.flood)
				}()
				device.wants(test.words...)
				device.Close()
				<-flooded
			}
		})
	}
}

// eventuallyPartial returns when a message is half received.
func eventuallyPartial(c *conn) {
	for !c.marked(partial) {
		done := make(chan struct{})
		if c.sock.Wake(gnetDone(done)) != nil {
			return
		}
		<-done
	}
}

// The server reads on for LingerTimeout after its last words, and no longer.
func TestLinger(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	d, p := r.join(t)
	p.c.Close(refusal)
	d.wants("text the error", "close 1008 bad_frame", "end")
	r.pass(LingerTimeout - tick)
	d.put(text("still talking"))
	settled(t, p.c)
	require.Equal(t, closing, p.c.phase.Load())
	r.pass(tick)
	eventually(t, "the end", func() bool { return p.c.phase.Load() == closed })
	p.closed(t, nil)
	require.Empty(t, p.ended)
}

// A device that takes a long queue slowly gets all of it, with the last words, however long that takes; one that stops
// taking is dropped.
func TestCloseBehindAQueue(t *testing.T) {
	t.Parallel()
	r := start(t, Config{MaxPending: 64 << 20}, newDesk())
	d, p := r.narrow(t)
	const count = 64
	chunk := strings.Repeat("0123456789abcdef", 16<<10)
	for range count {
		say(p.c, chunk)
	}
	p.c.Close(refusal)
	say(p.c, "too late")
	last, passed := p.c.Pending(), 0
	for range count {
		d.wants("text " + chunk)
		if p.c.Pending() < last {
			r.pass(LingerTimeout - tick)
			last, passed = p.c.Pending(), passed+1
		}
	}
	require.Greater(t, passed, 2)
	d.wants("text the error", "close 1008 bad_frame", "end")
	require.Zero(t, p.c.Pending())
	d.Close()

	d, p = r.join(t)
	for range count {
		say(p.c, chunk)
	}
	p.c.Close(refusal)
	r.pass(LingerTimeout)
	eventually(t, "the end", func() bool { return p.c.phase.Load() == closed })
}

// A device that ends TCP together with its close frame gets the answer nevertheless.
func TestFINBehindTheClose(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	for range 30 {
		d, p := r.join(t)
		d.put(text("last"), goodbye(1000, ""))
		require.NoError(t, d.pipe.(*net.TCPConn).CloseWrite())
		d.wants("text last", "close 1000", "end")
		p.closed(t, ErrClosedByPeer)
		d.Close()
	}
}

func TestNothingAfterTheEnd(t *testing.T) {
	t.Parallel()
	r := start(t, Config{PingInterval: 0}, newDesk())
	for name, end := range map[string]func(*device, *owner){
		"closing": func(_ *device, p *owner) { p.c.Close(refusal) },
		"closed": func(d *device, p *owner) {
			d.Close()
			eventually(t, "the end", func() bool { return p.c.phase.Load() == closed })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, p := r.join(t)
			end(d, p)
			say(p.c, "too late")
			p.c.Probe()
			p.c.Close(NewFarewell(nil, 1000, "once more"))
			require.False(t, p.c.Admit(newOwner(p.c)))
			require.Zero(t, p.c.Pending())
			if name == "closing" {
				d.wants("text the error", "close 1008 bad_frame", "end")
			}
			<-p.ended
			require.Empty(t, p.ended)
		})
	}
	t.Run("refused before it was decided", func(t *testing.T) {
		refused := make(chan Conn, 1)
		d := newDesk()
		d.hello = func(c Conn, b *Buffer) {
			PutMessage(b)
			c.Close(refusal)
			refused <- c
		}
		r := start(t, Config{}, d)
		device := r.open(t)
		device.put(text("hello"))
		device.wants("text the error", "close 1008 bad_frame", "end")
		require.False(t, (<-refused).Admit(newOwner(new(conn))))
	})
}

// ways are all the ways in which a connection ends, and what Closed says.
var ways = map[string]struct {
	end  func(t *testing.T, r *rig, d *device, p *owner)
	says error
}{
	"closed by the owner":   {func(_ *testing.T, _ *rig, _ *device, p *owner) { p.c.Close(refusal) }, nil},
	"closed without a word": {func(_ *testing.T, _ *rig, _ *device, p *owner) { p.c.Close(nil) }, nil},
	"closed by many at once": {func(_ *testing.T, _ *rig, _ *device, p *owner) {
		for range 8 {
			go p.c.Close(refusal)
		}
	}, nil},
	"closed by the device": {func(_ *testing.T, _ *rig, d *device, _ *owner) { d.put(goodbye(1000, "")) }, ErrClosedByPeer},
	"a violation":          {func(_ *testing.T, _ *rig, d *device, _ *owner) { d.put(unmasked(fin|textOp, "x")) }, ErrViolation},
	"a bad close":          {func(_ *testing.T, _ *rig, d *device, _ *owner) { d.put(goodbye(1000, "\xFF")) }, ErrViolation},
	"a message too big":    {func(_ *testing.T, _ *rig, d *device, _ *owner) { d.put(announce(fin|textOp, 8, 1<<40, "x")) }, ErrTooBig},
	"a text that is none":  {func(_ *testing.T, _ *rig, d *device, _ *owner) { d.put(text("\xFF")) }, ErrNotUTF8},
	"the end of TCP":       {func(_ *testing.T, _ *rig, d *device, _ *owner) { d.Close() }, ErrLost},
	"half the end of TCP": {func(t *testing.T, _ *rig, d *device, _ *owner) {
		require.NoError(t, d.pipe.(*net.TCPConn).CloseWrite())
	}, ErrLost},
	"a reset": {func(t *testing.T, _ *rig, d *device, _ *owner) { d.resets() }, ErrLost},
	"a reset within a message": {func(t *testing.T, _ *rig, d *device, _ *owner) {
		d.put(announce(fin|textOp, 8, 1<<20, "x"))
		d.resets()
	}, ErrLost},
	"a panic": {func(_ *testing.T, _ *rig, d *device, p *owner) {
		d.put(text("panic"))
	}, ErrPanic},
	"the server's end": {func(t *testing.T, r *rig, _ *device, _ *owner) {
		r.stopping.Store(true)
		go r.engine.Stop(t.Context())
	}, ErrGoingAway},
}

// resets ends TCP with a RST.
func (d *device) resets() {
	d.pipe.(*net.TCPConn).SetLinger(0)
	d.Close()
}

// Closed comes once, whatever ends the connection, and whoever else tries to end it then.
func TestClosedComesOnce(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			d.owner = func(p *owner) {
				p.message = func(_ Conn, b *Buffer) {
					PutMessage(b)
					panic("on purpose")
				}
			}
			r := start(t, Config{}, d)
			device, p := r.join(t)
			way.end(t, r, device, p)
			p.closed(t, way.says)
			p.c.Close(refusal)
			r.pass(LingerTimeout)
			device.Close()
			eventually(t, "the end", func() bool { return p.c.phase.Load() == closed })
			require.False(t, p.c.Admit(newOwner(p.c)))
			require.Empty(t, p.ended)
			eventually(t, "it is counted out", func() bool { return r.Stats().Connections == 0 })
		})
	}
}

// Close and the device's own end at the same time: Closed once, and every goroutine may send meanwhile.
func TestEndsThatRace(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Loops: 2}, newDesk())
	for i := range 100 {
		d, p := r.join(t)
		go p.c.Close(refusal)
		go say(p.c, "in between")
		switch i % 3 {
		case 0:
			d.put(goodbye(1000, ""))
			for d.hears() != "end" {
			}
		case 1:
			d.resets()
		}
		d.Close()
		<-p.ended
		eventually(t, "the end", func() bool { return p.c.phase.Load() == closed })
		require.Empty(t, p.ended)
	}
}

// A client of which nothing is left to read learns nothing from a reset: io.EOF is what it gets, not ECONNRESET.
func TestNoResetBeforeTheEnd(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	d, p := r.join(t)
	d.put(bytes.Repeat(text(strings.Repeat("x", 100)), 100), text("stop"))
	for d.hears() != "text stop" {
	}
	p.c.Close(refusal)
	d.put(text("one more"), text("and another"))
	all, err := io.ReadAll(d.r)
	require.NoError(t, err)
	require.Equal(t, refusal.wire, all)
	require.Equal(t, 1008, refusal.Code())
	_, err = d.Write(text("the server still reads"))
	require.False(t, errors.Is(err, syscall.ECONNRESET) || errors.Is(err, unix.EPIPE), err)
}
