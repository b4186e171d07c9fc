package engine

import (
	"encoding/binary"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// inbound is what a connection has half received: of a request, a frame header, a frame, or a message. It exists only as
// long as something is incomplete and belongs to the loop.
type inbound struct {
	head    [ws.MaxHeaderSize]byte // header bytes of the frame that arrives
	headLen int
	frame   ws.Header // once inFrame
	inFrame bool
	left    int64 // payload bytes of the frame that are still to come

	op      ws.OpCode // of the message that is being put together; 0: none
	message *Buffer   // its payload so far, unmasked; or the request so far
	control [ws.MaxControlFramePayloadSize]byte

	held  *Buffer // raw bytes that came while the hello was decided
	pongs *Buffer // answers to the pings of this read

	budget  *atomic.Int64 // what this is counted in; nil: not at all
	charged int           // bytes

	since  time.Time // when gained was last looked at; zero: not yet
	gained int       // bytes of the message that came since then
}

var inbounds = sync.Pool{New: func() any { return new(inbound) }}

func (in *inbound) atRest() bool {
	return in.headLen == 0 && !in.inFrame && in.op == 0 && in.message == nil && in.held == nil
}

func (in *inbound) release() {
	for _, b := range []*Buffer{in.message, in.held} {
		if b != nil {
			PutMessage(b)
		}
	}
	if in.pongs != nil {
		PutBuffer(in.pongs)
	}
	*in = inbound{}
	inbounds.Put(in)
}

// traffic takes what arrived. Nothing of b is kept: what is needed later is copied, once.
func (c *conn) traffic(b []byte, now time.Time) {
	if c.in == nil {
		c.in = inbounds.Get().(*inbound)
	}
	if held := c.in.held; held != nil {
		if c.phase.Load() == deciding {
			c.hold(b) // behind what is held already; Admit wakes the loop for all of it
			b = nil
		} else {
			c.in.held = nil
			c.frames(held.B)
			PutMessage(held)
		}
	}
	if len(b) > 0 && c.phase.Load() == requesting {
		b = c.request(b, now)
	}
	c.frames(b)
	c.answerPings()
	c.settle(now)
}

// settle gives the inbound back when nothing is half received, and else sees to it that a sender who is too slow is given up.
func (c *conn) settle(now time.Time) {
	in := c.in
	if !in.atRest() && c.phase.Load() < closing && !c.charge() {
		if c.phase.Load() == requesting {
			c.refuse(http.StatusServiceUnavailable)
		} else {
			c.fail(ErrOverloaded)
		}
	}
	if in.atRest() || c.phase.Load() >= closing {
		c.discharge()
		in.release()
		c.in = nil
		if c.marked(partial) {
			c.unmark(partial)
		}
		return
	}
	switch {
	case c.phase.Load() <= stranger || in.held != nil: // there a deadline for all of it runs
	case in.since.IsZero():
		in.since = now
		c.mark(partial)
	case now.Sub(in.since) >= StallTimeout:
		if in.gained < c.due() {
			c.fail(ErrSlowSender)
			return
		}
		in.since, in.gained = now, 0
	}
	if !in.since.IsZero() {
		c.srv.wheel.SetEarlier(c, in.since.Add(StallTimeout))
	}
}

// frames reads frames until b is used up or the connection's phase says to stop.
func (c *conn) frames(b []byte) {
	for len(b) > 0 {
		switch c.phase.Load() {
		case deciding:
			c.hold(b)
			return
		case stranger, admitted:
			n, err := c.step(b)
			if err != nil {
				c.violation(err)
				return
			}
			b = b[n:]
		default:
			return
		}
	}
}

// hold keeps b until the hello is decided: only then it is known which limit the next message has (spec 1).
func (c *conn) hold(b []byte) {
	if c.in.held == nil {
		c.in.held = getMessage()
	}
	held := c.in.held
	if len(held.B)+len(b) > maxHeld || cap(held.B)-len(held.B) < len(b) && !grow(held, len(b), int64(maxHeld-len(held.B)-len(b)), c.srv.cfg.MaxInbound) {
		c.answerPings()
		c.fail(ErrOverloaded)
		return
	}
	held.B = append(held.B, b...)
}

// step takes one piece of b: the rest of a header, or payload as far as it reaches. It says how many bytes that were.
func (c *conn) step(b []byte) (n int, err error) {
	in := c.in
	if !in.inFrame {
		n, err = in.header(b, ws.StateServerSide)
		if err != nil || !in.inFrame {
			return n, err
		}
		if err = c.begin(); err != nil || in.left > 0 {
			return n, err
		}
		return n, c.finish()
	}
	n = int(min(in.left, int64(len(b))))
	if err = c.payload(b[:n]); err != nil {
		return n, err
	}
	if in.left > 0 {
		return n, nil
	}
	return n, c.finish()
}

// header takes header bytes from b until the header is whole, and checks each as soon as it is there. side tells who reads.
func (in *inbound) header(b []byte, side ws.State) (n int, err error) {
	for {
		need := 2
		if in.headLen >= 2 {
			switch in.head[1] & 0x7F {
			case 126:
				need += 2
			case 127:
				need += 8
			}
			if in.head[1]&0x80 != 0 {
				need += 4
			}
		}
		if in.headLen == need {
			break
		}
		m := copy(in.head[in.headLen:need], b[n:])
		n += m
		in.headLen += m
		if in.headLen < need {
			return n, nil
		}
		if need == 2 {
			if err = in.parse(side); err != nil {
				return n, err
			}
		}
	}
	err = in.parseLength()
	in.left = in.frame.Length
	in.inFrame = true
	in.headLen = 0
	return n, err
}

// parse reads the first two bytes and applies the rules of RFC 6455, 5.2 and 5.4, to them.
func (in *inbound) parse(side ws.State) error {
	in.frame = ws.Header{
		Fin:    in.head[0]&0x80 != 0,
		Rsv:    in.head[0] & 0x70 >> 4,
		OpCode: ws.OpCode(in.head[0] & 0x0F),
		Masked: in.head[1]&0x80 != 0,
		Length: int64(in.head[1] & 0x7F),
	}
	if in.op != 0 {
		side |= ws.StateFragmented
	}
	return ws.CheckHeader(in.frame, side)
}

// parseLength reads the extended length and the mask. RFC 6455, 5.2: "the minimal number of bytes MUST be used to encode the
// length", and the most significant bit of 64 "MUST be 0".
func (in *inbound) parseLength() error {
	rest := in.head[2:]
	switch in.frame.Length {
	case 126:
		in.frame.Length = int64(binary.BigEndian.Uint16(rest))
		if in.frame.Length < 126 {
			return errLength
		}
		rest = rest[2:]
	case 127:
		length := binary.BigEndian.Uint64(rest)
		if length < 1<<16 || length >= 1<<63 {
			return errLength
		}
		in.frame.Length = int64(length)
		rest = rest[8:]
	}
	copy(in.frame.Mask[:], rest)
	return nil
}

var (
	errLength    = ws.ProtocolError("a length that is not in its shortest form")
	errCloseBody = ws.ProtocolError("a close frame of one byte")
)

// begin judges a frame by its header, before its payload comes.
func (c *conn) begin() error {
	in := c.in
	if in.frame.OpCode.IsControl() {
		return nil
	}
	if in.frame.OpCode != ws.OpContinuation {
		in.op = in.frame.OpCode
		in.message = getMessage()
	}
	if in.frame.Length > int64(c.limit()-len(in.message.B)) {
		return ErrTooBig
	}
	return nil
}

// limit is how many bytes a message may have.
func (c *conn) limit() int {
	if c.phase.Load() == admitted {
		return c.srv.cfg.MaxMessage
	}
	return c.srv.cfg.MaxHello
}

// payload appends p to what it belongs to and unmasks it there: the only copy of a message's bytes.
func (c *conn) payload(p []byte) error {
	in := c.in
	offset := int(in.frame.Length - in.left)
	in.left -= int64(len(p))
	if in.frame.OpCode.IsControl() {
		ws.Cipher(in.control[offset:offset+copy(in.control[offset:], p)], in.frame.Mask, offset)
		return nil
	}
	m := in.message
	if cap(m.B)-len(m.B) < len(p) {
		announced := in.left
		if !in.frame.Fin { // more fragments may follow; were each to end the buffer, each would copy all before it
			announced = int64(c.limit() - len(m.B) - len(p))
		}
		if !grow(m, len(p), announced, c.srv.cfg.MaxInbound) {
			return ErrOverloaded
		}
	}
	at := len(m.B)
	m.B = append(m.B, p...)
	ws.Cipher(m.B[at:], in.frame.Mask, offset)
	in.gained += len(p)
	return nil
}

// finish is called when a frame is whole.
func (c *conn) finish() error {
	in := c.in
	in.inFrame = false
	if in.op == 0 {
		in.since, in.gained = time.Time{}, 0 // a control frame alone is no message that could be slow
	}
	switch in.frame.OpCode {
	case ws.OpPing:
		c.pong(in.control[:in.frame.Length])
		return nil
	case ws.OpPong:
		return nil
	case ws.OpClose:
		return c.farewellOfDevice(in.control[:in.frame.Length])
	}
	if !in.frame.Fin {
		return nil
	}
	m, op := in.message, in.op
	in.message, in.op, in.since, in.gained = nil, 0, time.Time{}, 0
	c.discharge()
	if op == ws.OpText && !utf8.Valid(m.B) {
		PutMessage(m)
		return ErrNotUTF8
	}
	if c.phase.Load() == admitted {
		c.peer.Message(c, m)
		return nil
	}
	c.srv.handler.Hello(c, m)
	c.mu.Lock()
	if c.phase.Load() == stranger { // neither admitted nor closed yet
		c.phase.Store(deciding)
	}
	c.mu.Unlock()
	return nil
}
