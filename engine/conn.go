package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"
	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"mobilegate/internal/wheel"
)

// The phases of a connection. They only go forward, and change under conn.mu.
const (
	requesting uint32 = iota // reads the opening request
	stranger                 // upgraded, nobody's yet
	deciding                 // the hello is out for a decision; what follows is held back
	admitted                 // has a peer
	closing                  // the last words are said or queued; what comes in is dropped
	closed                   // the descriptor is gone
)

// conn is one connection. A million of them are idle at a time, so it holds nothing that is not needed at rest.
type conn struct {
	// Fixed when the connection is accepted.
	srv  *Server
	sock gnet.Conn

	phase    atomic.Uint32
	marks    atomic.Uint32 // the marks below
	lastLife atomic.Uint32 // when the last byte came or was taken, in seconds since the server's start
	pingedAt atomic.Uint32 // when the open ping was sent, likewise; 0: none is open

	// Owned by the loop.
	in *inbound // what is half received; nil at rest

	mu    sync.Mutex
	peer  Peer      // set once by Admit; read without the lock once phase says admitted
	out   *outbound // what the socket has not taken; nil at rest
	timer wheel.Item
}

// Marks of a connection, in one word since there are a million of them.
const (
	probing  uint32 = 1 << iota // the open ping is Probe's
	partial                     // a message is half received: somebody should look whether the sender is too slow
	overfull                    // accepted above the limit, to be told so
	proxied                     // its request had a header that a proxy leaves
	midway                      // what was sent ends in the middle of a message; changes under conn.mu
	local                       // the peer's socket is the gateway's own user's: see Local
	foreign                     // it is not

	control = 1 << 31 // for conn.send: no mark
)

func (c *conn) marked(m uint32) bool { return c.marks.Load()&m != 0 }
func (c *conn) mark(m uint32)        { c.marks.Or(m) }
func (c *conn) unmark(m uint32)      { c.marks.And(^m) }

// TimerItem is the connection's place in the server's wheel.
func (c *conn) TimerItem() *wheel.Item { return &c.timer }

func (c *conn) Admit(p Peer) bool {
	c.mu.Lock()
	was := c.phase.Load()
	if was >= closing {
		c.mu.Unlock()
		return false
	}
	c.peer = p
	c.phase.Store(admitted)
	c.mu.Unlock()
	if was == deciding {
		c.sock.Wake(nil) // the loop reads what was held back
	}
	if interval := c.srv.cfg.PingInterval; 0 < interval && interval < c.srv.cfg.HelloTimeout {
		c.srv.wheel.SetEarlier(c, c.srv.cfg.Now().Add(interval)) // before the timer of the hello
	}
	return true
}

func (c *conn) SendPart(b *Buffer) { c.send(b, midway) }

func (c *conn) Send(b *Buffer) { c.send(b, 0) }

// send sends whole frames; what says whether they end in the middle of a message, or are control frames, which say nothing
// of that.
func (c *conn) send(b *Buffer, what uint32) {
	owned(b)
	c.mu.Lock()
	if c.phase.Load() >= closing {
		c.mu.Unlock()
		PutBuffer(b)
		return
	}
	if is := c.marked(midway); what == midway && !is {
		c.mark(midway)
	} else if what == 0 && is {
		c.unmark(midway)
	}
	c.write(b)
	waits := 0
	if c.out != nil {
		waits = c.out.size
	}
	c.mu.Unlock()
	switch {
	case waits > c.srv.cfg.MaxPending:
		c.fail(ErrSlowConsumer)
	case waits > fairShare && c.srv.waiting.Load() > c.srv.cfg.MaxOutbound, waits > 0 && c.srv.waiting.Load() > 2*c.srv.cfg.MaxOutbound:
		c.fail(ErrOverloaded) // those first for whom more waits than an honest slow device has
	}
}

func (c *conn) Close(f *Farewell) { c.end(f, nil) }

func (c *conn) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil {
		return 0
	}
	return c.out.size
}

func (c *conn) Silence(now time.Time) time.Duration {
	return since(c.srv.seconds(now), c.lastLife.Load())
}

// since is the time between two seconds. then may be the later one: another goroutine read its clock a moment after us.
func since(second, then uint32) time.Duration {
	return time.Duration(max(0, int32(second-then))) * time.Second
}

func (c *conn) Probe() {
	c.mark(probing)
	now := c.srv.cfg.Now()
	c.ping(now)
	c.srv.wheel.SetEarlier(c, now.Add(ProbeTimeout))
}

func (c *conn) ping(now time.Time) {
	c.pingedAt.Store(max(1, c.srv.seconds(now)))
	b := GetBuffer()
	b.B = appendControl(b.B, ws.OpPing, nil)
	c.send(b, control)
}

// alive notes that something came from the device, or was taken by it.
func (c *conn) alive(now time.Time) {
	if s := c.srv.seconds(now); c.lastLife.Load() != s {
		c.lastLife.Store(s)
	}
	if c.pingedAt.Load() != 0 {
		c.pingedAt.Store(0)
		c.unmark(probing)
	}
}

// fail ends the connection because of err, with the words that belong to it.
func (c *conn) fail(err error) {
	c.end(c.srv.handler.Farewell(err, c.phase.Load() == admitted), err)
}

// end says f and begins to close: the writing side ends once all is written, the reading side when the device has ended its
// own or LingerTimeout has passed. Were the socket closed with unread bytes, a reset would take the last words away.
func (c *conn) end(f *Farewell, err error) {
	c.mu.Lock()
	was := c.phase.Load()
	if was >= closing {
		c.mu.Unlock()
		return
	}
	if f != nil {
		b := GetBuffer()
		wire := f.wire
		if c.marked(midway) {
			wire = wire[f.close:]
		}
		b.B = append(b.B, wire...)
		c.write(b)
	}
	c.phase.Store(closing)
	if c.out == nil {
		c.endWriting()
	}
	c.mu.Unlock()
	c.srv.wheel.Set(c, c.srv.cfg.Now().Add(LingerTimeout))
	if was == admitted {
		c.peer.Closed(c, err)
	}
}

// endWriting needs c.mu: the descriptor must still be ours.
func (c *conn) endWriting() { unix.Shutdown(c.sock.Fd(), unix.SHUT_WR) }

// drop ends the connection without a word; its Closed comes from OnClose.
func (c *conn) drop() { c.sock.Close() }

// dropBecause is drop for a reason that the peer shall hear at once.
func (c *conn) dropBecause(err error) {
	c.mu.Lock()
	was := c.phase.Load()
	if was == admitted {
		c.phase.Store(closing)
	}
	c.mu.Unlock()
	c.drop()
	if was == admitted {
		c.peer.Closed(c, err)
	}
}

// closedBy is the end: gnet closes the descriptor when it returns.
func (c *conn) closedBy(err error) {
	c.mu.Lock()
	was := c.phase.Load()
	if was < closing && c.srv.stopping.Load() {
		err = ErrGoingAway
		if was > requesting && c.out == nil {
			unix.Write(c.sock.Fd(), c.srv.goingAway.wire)
		}
	}
	c.phase.Store(closed)
	if c.out != nil {
		c.srv.drainer.forget(c)
		c.out.release()
		c.srv.waiting.Add(-int64(c.out.size))
		c.srv.released.Add(int64(c.out.size))
		c.out = nil
	}
	c.mu.Unlock()
	c.srv.wheel.Stop(c)
	if c.marked(proxied) {
		c.srv.origins.take(c)
	}
	if c.in != nil {
		c.discharge()
		c.in.release()
		c.in = nil
	}
	if was == admitted {
		c.peer.Closed(c, err)
	}
}

// expire is called off the loop when the timer of the connection is due. The timer is lazy: it is left where it is when
// what it was for has passed, and finds here what it is for now.
func (c *conn) expire(now time.Time) {
	if c.srv.wheel.Armed(c) {
		return // it was given another deadline at this very moment
	}
	switch c.phase.Load() {
	case requesting:
		c.refuse(statusTimeout)
	case stranger:
		c.fail(ErrNoHello)
	case deciding, admitted:
		c.watch(now)
	case closing:
		c.linger(now)
	}
}

// linger ends a connection that said its last words, unless the device is still taking what was sent before them.
func (c *conn) linger(now time.Time) {
	c.mu.Lock()
	var until time.Time
	if c.out != nil {
		until = c.out.some.Add(LingerTimeout)
		if stalls := c.out.moved.Add(StallTimeout); stalls.Before(until) {
			until = stalls
		}
	}
	c.mu.Unlock()
	if until.After(now) {
		c.srv.wheel.Set(c, until)
		return
	}
	c.drop()
}

// watch looks after an open connection: is it alive, does it take what is sent, does its message grow?
func (c *conn) watch(now time.Time) {
	next := c.stallsAt()
	if !next.IsZero() && !next.After(now) {
		c.fail(ErrSlowConsumer)
		return
	}
	if c.marked(partial) {
		c.sock.Wake(nil) // the loop judges it: see conn.settle
	}
	if at := c.keepAlive(now); next.IsZero() || !at.IsZero() && at.Before(next) {
		next = at
	}
	if !next.IsZero() {
		c.srv.wheel.SetEarlier(c, next)
	}
}

// keepAlive pings a silent device and drops a dead one; it says when to look again.
func (c *conn) keepAlive(now time.Time) time.Time {
	second := c.srv.seconds(now)
	if at := c.pingedAt.Load(); at != 0 {
		patience := c.srv.cfg.PingInterval
		if c.marked(probing) {
			patience = ProbeTimeout
		}
		if waited := since(second, at); waited >= patience {
			c.dropBecause(ErrDead)
			return time.Time{}
		} else {
			return now.Add(patience - waited)
		}
	}
	interval := c.srv.cfg.PingInterval
	if interval == 0 {
		return time.Time{}
	}
	interval -= interval / 10 * time.Duration(uint32(c.sock.Fd())*2654435761>>24) / 256 // jitter, so that a fleet does not ping at once
	silence := c.Silence(now)
	if silence >= interval {
		c.ping(now)
		return now.Add(c.srv.cfg.PingInterval)
	}
	return now.Add(interval - silence)
}
