package engine

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// outcome is what came of a stream of frames.
type outcome struct {
	messages []string // that the owner got
	controls []string // that the device heard
	err      error    // that Closed said; nil: the connection is open
}

func (o outcome) requireEqual(t testing.TB, want outcome, what any) {
	t.Helper()
	require.Equal(t, want.err, o.err, what)
	require.Equal(t, want.controls, o.controls, what)
	require.True(t, slices.Equal(want.messages, o.messages), what)
}

// reference reads a stream as a whole, slowly and plainly: what a conn makes of it must be the same, however it comes. Like
// the conn, it judges the first two bytes of a frame, then the header when that is whole, then the frame.
func reference(stream []byte, limit int) (o outcome) {
	fail := func(code int, reason string, err error) outcome {
		o.controls, o.err = append(o.controls, strings.TrimSpace(fmt.Sprintf("close %d %s", code, reason))), err
		return o
	}
	violated := func() outcome { return fail(1002, "protocol error", ErrViolation) }
	var message []byte
	var op byte
	for len(stream) >= 2 {
		last, code, short := stream[0]&0x80 != 0, stream[0]&0x0F, uint64(stream[1]&0x7F)
		control := code >= 8
		switch {
		case stream[0]&0x70 != 0, stream[1]&0x80 == 0,
			control && (code > pongOp || !last || short > 125),
			!control && (code > dataOp || (code == contOp) != (op != 0)):
			return violated()
		}
		length, size, ok := lengthOf(stream)
		switch {
		case !ok:
			return violated()
		case len(stream) < size:
			return o
		case !control && length > uint64(limit-len(message)):
			return fail(1008, "too_big", ErrTooBig)
		case uint64(len(stream)-size) < length:
			return o
		}
		payload := slices.Clone(stream[size : size+int(length)])
		for i := range payload {
			payload[i] ^= stream[size-4+i%4]
		}
		stream = stream[size+int(length):]
		switch code {
		case pingOp:
			o.controls = append(o.controls, "pong "+string(payload))
		case pongOp:
		case byeOp:
			return o.farewell(payload)
		default:
			if code != contOp {
				op = code
			}
			message = append(message, payload...)
			if !last {
				continue
			}
			if op == textOp && !utf8.Valid(message) {
				return fail(1007, "bad_frame", ErrNotUTF8)
			}
			o.messages = append(o.messages, string(message))
			message, op = nil, 0
		}
	}
	return o
}

// lengthOf reads the header that frame begins with. size is the header's own; ok is false for a length in a wrong form.
func lengthOf(frame []byte) (length uint64, size int, ok bool) {
	switch short := frame[1] & 0x7F; {
	case short < 126:
		return uint64(short), 6, true
	case short == 126 && len(frame) >= 8:
		length = uint64(binary.BigEndian.Uint16(frame[2:]))
		return length, 8, length > 125
	case short == 127 && len(frame) >= 14:
		length = binary.BigEndian.Uint64(frame[2:])
		return length, 14, length > 65535 && length < 1<<63
	}
	return 0, 14, true // not all there
}

func (o outcome) farewell(body []byte) outcome {
	answer := "close"
	o.err = ErrClosedByPeer
	if len(body) > 0 {
		code := 0
		if len(body) > 1 {
			code = int(binary.BigEndian.Uint16(body))
		}
		answer = fmt.Sprintf("close %d", code)
		switch {
		case code < 1000, code > 4999, code > 1014 && code < 3000, code >= 1004 && code <= 1006:
			answer, o.err = "close 1002 protocol error", ErrViolation
		case !utf8.Valid(body[2:]):
			answer, o.err = "close 1007 close reason is not UTF-8", ErrViolation
		}
	}
	o.controls = append(o.controls, answer)
	return o
}

// outcomeOf plays stream to a conn in pieces, while its device reads along.
func outcomeOf(t testing.TB, s *Server, stream []byte, cut func(int) int) (o outcome) {
	l, p := ownedBy(t, s, func(p *owner) {
		p.message = func(_ Conn, b *Buffer) {
			o.messages = append(o.messages, string(b.B))
			PutMessage(b)
		}
	})
	done := make(chan []string, 1)
	go func() { done <- l.hears() }()
	l.takes(stream, cut)
	open := l.phase.Load() == admitted
	l.Close(nil)
	for _, s := range <-done {
		if !strings.HasPrefix(s, "text ") { // the last words before a close
			o.controls = append(o.controls, s)
		}
	}
	o.err = <-p.ended
	require.Equal(t, open, o.err == nil)
	require.Zero(t, len(p.ended), "Closed comes once")
	l.finish()
	return o
}
