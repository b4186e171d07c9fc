package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// outbound is what the socket has not taken yet. It exists only while something waits; conn.mu guards it.
type outbound struct {
	waiting []*Buffer // in order; the first may be written in part
	written int       // bytes of the first that are
	size    int       // bytes that wait
	moved   time.Time // when the socket had last taken minTaken, or all
	taken   int       // bytes since then
	some    time.Time // when it last took anything
	watch   uint64    // the drainer's name for it; 0: not watched yet
}

func (o *outbound) release() {
	for _, b := range o.waiting {
		PutBuffer(b)
	}
}

// write sends b or queues it; it takes b over and needs c.mu, under which the descriptor cannot be closed: writing from any
// goroutine never meets a descriptor that is somebody else's by now. What waits here waits in our own queue, never in
// gnet's: that one is unbounded and does not tell when it is empty.
func (c *conn) write(b *Buffer) {
	if c.out != nil {
		c.out.waiting = append(c.out.waiting, b)
		c.out.size += len(b.B)
		c.srv.waiting.Add(int64(len(b.B)))
		return
	}
	n, err := writeSome(c.sock.Fd(), b.B)
	switch {
	case err != nil && err != unix.EAGAIN:
		PutBuffer(b)
		c.drop()
		return
	case n == len(b.B):
		PutBuffer(b)
		return
	}
	now := c.srv.cfg.Now()
	c.out = &outbound{waiting: []*Buffer{b}, written: n, size: len(b.B) - n, moved: now, some: now}
	c.srv.waiting.Add(int64(c.out.size))
	c.srv.wheel.SetEarlier(c, now.Add(StallTimeout))
	if c.srv.drainer.watch(c) != nil {
		c.drop()
	}
}

// writeSome writes as much of b as the socket takes.
func writeSome(fd int, b []byte) (n int, err error) {
	for n < len(b) {
		m, err := unix.Write(fd, b[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

// flush writes what waits, as far as the socket takes it.
func (o *outbound) flush(fd int) error {
	for len(o.waiting) > 0 {
		b := o.waiting[0]
		n, err := writeSome(fd, b.B[o.written:])
		o.written += n
		o.size -= n
		if err == unix.EAGAIN {
			return nil
		}
		if err != nil {
			return err
		}
		PutBuffer(b)
		o.waiting[0] = nil
		o.waiting, o.written = o.waiting[1:], 0
	}
	return nil
}

// drain is called by the drainer when the socket takes bytes again.
func (c *conn) drain() {
	c.mu.Lock()
	o := c.out
	if o == nil {
		c.mu.Unlock()
		return
	}
	before := o.size
	if err := o.flush(c.sock.Fd()); err != nil {
		c.srv.waiting.Add(int64(o.size - before))
		c.mu.Unlock()
		c.drop()
		return
	}
	c.srv.waiting.Add(int64(o.size - before))
	c.srv.released.Add(int64(before - o.size))
	if o.size < before {
		o.some = c.srv.cfg.Now()
		if o.taken += before - o.size; o.taken >= minTaken || o.size == 0 {
			o.moved, o.taken = o.some, 0
		}
		c.alive(o.some)
	}
	if o.size > 0 {
		if c.srv.drainer.watch(c) != nil {
			c.drop()
		}
		c.mu.Unlock()
		return
	}
	c.srv.drainer.forget(c)
	c.out = nil
	phase := c.phase.Load()
	if phase == closing {
		c.endWriting()
		c.srv.wheel.Set(c, o.some.Add(LingerTimeout))
	}
	c.mu.Unlock()
	if phase == admitted {
		c.peer.Drained(c)
	}
}

// stallsAt is when the device has taken nothing for too long; zero while nothing waits.
func (c *conn) stallsAt() (at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out != nil {
		at = c.out.moved.Add(StallTimeout)
	}
	return at
}
