package engine

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// traffic takes what arrived; nothing of b is kept.
func (l *Link) traffic(b []byte) (err error) {
	if l.in == nil {
		l.in = inbounds.Get().(*inbound)
	}
	if l.phase == linkRequesting {
		b, err = l.response(b)
	}
	for err == nil && len(b) > 0 && l.phase < linkTold {
		var n int
		n, err = l.step(b)
		b = b[n:]
	}
	if l.phase < linkGone && l.in.atRest() {
		l.in.release()
		l.in = nil
	}
	return err
}

// response gathers the answer to the request; it returns what came behind it.
func (l *Link) response(b []byte) (rest []byte, err error) {
	in := l.in
	if in.message == nil {
		in.message = getMessage()
	}
	m := in.message
	before := len(m.B)
	m.B = append(m.B, b[:min(len(b), maxRequest)]...)
	end := bytes.Index(m.B, []byte("\r\n\r\n"))
	if end < 0 {
		if len(m.B) >= maxRequest {
			return nil, ErrNoHTTP
		}
		return nil, nil
	}
	err = l.judge(m.B[:end+2])
	in.message = nil
	PutMessage(m)
	if err != nil {
		return nil, err
	}
	l.phase = linkOpen
	l.caller.Upgraded(l, l.client.cfg.Now())
	return b[end+len("\r\n\r\n")-before:], nil
}

// judge holds the answer to RFC 6455, 4.1.
func (l *Link) judge(block []byte) error {
	line, headers, _ := bytes.Cut(block, []byte("\r\n"))
	version, rest, _ := bytes.Cut(line, []byte(" "))
	word, _, _ := bytes.Cut(rest, []byte(" "))
	status, err := strconv.Atoi(string(word))
	if err != nil || len(word) != 3 || !bytes.HasPrefix(version, []byte("HTTP/1.")) {
		return ErrNoHTTP
	}
	if status != 101 {
		return &StatusError{status}
	}
	key := l.key()
	digest := sha1.Sum(append(key[:], "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...))
	var upgrade, connection, accept bool
	for line := range bytes.SplitSeq(headers, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "Upgrade"):
			upgrade = is(value, "websocket")
		case is(name, "Connection"):
			for token := range bytes.SplitSeq(value, []byte(",")) {
				connection = connection || is(bytes.TrimSpace(token), "Upgrade")
			}
		case is(name, "Sec-WebSocket-Accept"):
			accept = string(value) == base64.StdEncoding.EncodeToString(digest[:])
		case is(name, "Sec-WebSocket-Extensions"), is(name, "Sec-WebSocket-Protocol"):
			return fmt.Errorf("%w: the upgrade accepts what was not offered", ErrViolation)
		}
	}
	if !upgrade || !connection || !accept {
		return fmt.Errorf("%w: the upgrade has a wrong Upgrade, Connection or Sec-WebSocket-Accept", ErrViolation)
	}
	return nil
}

// step takes one piece of b: the rest of a header, or payload as far as it reaches.
func (l *Link) step(b []byte) (n int, err error) {
	in := l.in
	if !in.inFrame {
		if n, err = in.header(b, ws.StateClientSide); err != nil {
			return n, fmt.Errorf("%w: %w", ErrViolation, err)
		}
		if !in.inFrame {
			return n, nil
		}
		whole := in.left <= int64(len(b)-n)
		switch {
		case in.frame.OpCode.IsControl() || in.frame.OpCode == ws.OpContinuation:
		case whole && in.frame.Fin: // mostly so: no copy is made
			in.inFrame = false
			end := n + int(in.left)
			return end, l.deliver(in.frame.OpCode, b[n:end])
		default:
			in.op, in.message = in.frame.OpCode, getMessage()
		}
		if !in.frame.OpCode.IsControl() && in.left > int64(l.client.cfg.MaxMessage-len(in.message.B)) {
			return n, ErrTooBig
		}
	}
	m := int(min(in.left, int64(len(b)-n)))
	l.payload(b[n : n+m])
	if n += m; in.left > 0 {
		return n, nil
	}
	return n, l.complete()
}

func (l *Link) payload(p []byte) {
	in := l.in
	offset := int(in.frame.Length - in.left)
	in.left -= int64(len(p))
	if in.frame.OpCode.IsControl() {
		copy(in.control[offset:], p)
		return
	}
	if m := in.message; cap(m.B)-len(m.B) < len(p) {
		announced := in.left
		if !in.frame.Fin {
			announced = int64(l.client.cfg.MaxMessage - len(m.B) - len(p))
		}
		grow(m, len(p), announced, math.MaxInt64)
	}
	in.message.B = append(in.message.B, p...)
}

// complete is called when a frame is whole that was not delivered at once.
func (l *Link) complete() error {
	in := l.in
	in.inFrame = false
	switch in.frame.OpCode {
	case ws.OpPing:
		if l.phase == linkOpen {
			b := GetBuffer()
			start := BeginMasked(b)
			b.B = append(b.B, in.control[:in.frame.Length]...)
			l.client.endMasked(b, start, ws.OpPong)
			l.write(b)
		}
		return nil
	case ws.OpPong:
		return nil
	case ws.OpClose:
		return l.hearClose(in.control[:in.frame.Length])
	}
	if !in.frame.Fin {
		return nil
	}
	m, op := in.message, in.op
	in.message, in.op = nil, 0
	defer PutMessage(m)
	return l.deliver(op, m.B)
}

func (l *Link) deliver(op ws.OpCode, b []byte) error {
	if op == ws.OpText && !utf8.Valid(b) {
		return ErrNotUTF8
	}
	if len(b) > l.client.cfg.MaxMessage {
		return ErrTooBig
	}
	if l.phase == linkOpen {
		l.caller.Message(l, b, l.client.cfg.Now())
	}
	return nil
}

// hearClose answers a close frame with its code; the other end then ends TCP, as RFC 6455, 7.1.1 wants it of a server.
func (l *Link) hearClose(body []byte) error {
	told := &CloseError{Code: int(ws.StatusNoStatusRcvd)}
	if len(body) == 1 {
		return fmt.Errorf("%w: %w", ErrViolation, errCloseBody)
	}
	if len(body) >= 2 {
		if err := checkClose(ws.StatusCode(binary.BigEndian.Uint16(body)), body[2:]); err != nil {
			return fmt.Errorf("%w: %w", ErrViolation, err)
		}
		told.Code, told.Reason = int(binary.BigEndian.Uint16(body)), string(body[2:])
	}
	l.told = told
	if l.phase == linkOpen {
		b := GetBuffer()
		start := BeginMasked(b)
		b.B = append(b.B, body[:min(len(body), 2)]...)
		l.client.endMasked(b, start, ws.OpClose)
		l.write(b)
		l.phase = linkTold
	}
	return nil
}

// key is the Sec-WebSocket-Key: RFC 6455, 4.1: "The nonce MUST be selected randomly for each connection." It is drawn from
// the link's number, so that nothing need be kept until the answer comes.
func (l *Link) key() (key [24]byte) {
	random := rand.New(rand.NewPCG(l.client.cfg.Seed, uint64(l.dial)))
	raw := binary.LittleEndian.AppendUint64(make([]byte, 0, 16), random.Uint64())
	raw = binary.LittleEndian.AppendUint64(raw, random.Uint64())
	base64.StdEncoding.Encode(key[:], raw)
	return key
}
