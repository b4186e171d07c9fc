package engine

import (
	"encoding/binary"

	"github.com/gobwas/ws"
)

// What a connection answers to control frames, and how it ends because of what came.

// pong answers a ping. RFC 6455, 5.5.3, lets a server leave some out: who takes none gets no more of them.
func (c *conn) pong(payload []byte) {
	if c.in.pongs == nil {
		if c.Pending() > maxPooled {
			return
		}
		c.in.pongs = GetBuffer()
	}
	c.in.pongs.B = appendControl(c.in.pongs.B, ws.OpPong, payload)
}

func (c *conn) answerPings() {
	if pongs := c.in.pongs; pongs != nil {
		c.in.pongs = nil
		c.send(pongs, control)
	}
}

// farewellOfDevice answers a close frame with the same code, or refuses one that RFC 6455, 7.4, does not allow.
func (c *conn) farewellOfDevice(body []byte) error {
	answer := Farewell{wire: appendControl(nil, ws.OpClose, nil), code: ws.StatusNoStatusRcvd}
	switch {
	case len(body) == 1:
		return errCloseBody
	case len(body) >= 2:
		code := ws.StatusCode(binary.BigEndian.Uint16(body))
		if err := checkClose(code, body[2:]); err != nil {
			return err
		}
		answer = Farewell{wire: appendClose(nil, code, ""), code: code}
	}
	c.answerPings()
	c.end(&answer, ErrClosedByPeer)
	return nil
}

// checkClose applies RFC 6455, 7.4, to a close frame. The library knows the codes of the RFC; 1012 to 1014 were registered
// later, and nothing is defined from 5000 on.
func checkClose(code ws.StatusCode, reason []byte) error {
	if code >= 1012 && code <= 1014 {
		code = ws.StatusNormalClosure
	}
	if code >= 5000 {
		return ws.ErrProtocolStatusCodeUnknown
	}
	return ws.CheckCloseFrameData(code, string(reason))
}

// violation ends the connection because of what it sent.
func (c *conn) violation(err error) {
	c.answerPings()
	switch err {
	case ErrTooBig, ErrNotUTF8, ErrOverloaded:
		c.fail(err)
	case ws.ErrProtocolInvalidUTF8:
		c.end(badReason, ErrViolation)
	default:
		c.end(badFrame, ErrViolation)
	}
}

var (
	badFrame  = NewFarewell(nil, uint16(ws.StatusProtocolError), "protocol error")
	badReason = NewFarewell(nil, uint16(ws.StatusInvalidFramePayloadData), "close reason is not UTF-8")
)
