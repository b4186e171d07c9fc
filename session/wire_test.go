package session

import (
	"encoding/binary"
	"errors"
	"fmt"

	"mobilegate/internal/transcript"
)

// wireFrame is one frame of the server, its payload in the memory that it was read from.
type wireFrame struct {
	op      byte
	fin     bool
	payload []byte
}

// readServerFrame reads one frame as a client does: 0 bytes when it is not whole yet.
func readServerFrame(b []byte) (f wireFrame, n int, err error) {
	if len(b) < 2 {
		return f, 0, nil
	}
	if b[0]&0x70 != 0 || b[1]&0x80 != 0 {
		return f, 0, fmt.Errorf("a reserved bit or a mask: %x", b[:2])
	}
	size, at := uint64(b[1]), 2
	switch {
	case size == 126 && len(b) >= 4:
		size, at = uint64(binary.BigEndian.Uint16(b[2:])), 4
	case size == 127 && len(b) >= 10:
		size, at = binary.BigEndian.Uint64(b[2:]), 10
	case size >= 126:
		return f, 0, nil
	}
	if uint64(len(b)-at) < size {
		return f, 0, nil
	}
	n = at + int(size)
	return wireFrame{b[0] & 0x0F, b[0]&0x80 != 0, b[at:n]}, n, nil
}

// maxFragment is the longest fragment of a message (spec 7).
const maxFragment = 256 << 10

// assembly puts the fragments of messages together, and sees to it that nothing but control frames comes between them.
type assembly struct {
	begun   bool
	message []byte
}

// take gives what f is or completes, if anything, in memory of its own.
func (a *assembly) take(f wireFrame) (h transcript.Heard, whole bool, err error) {
	switch {
	case f.op >= 8 && !f.fin:
		return h, false, errors.New("a control frame in fragments")
	case f.op == 8 && len(f.payload) >= 2:
		return transcript.Heard{Code: int(binary.BigEndian.Uint16(f.payload)), Reason: string(f.payload[2:])}, true, nil
	case f.op == 8:
		return transcript.Heard{Code: 1005}, true, nil
	case f.op == 9:
		return transcript.Heard{Ping: true}, true, nil
	case f.op > 9:
		return h, false, nil
	case a.begun == (f.op != 0):
		return h, false, errors.New("a message begins inside another, or goes on without a beginning")
	case len(f.payload) > maxFragment:
		return h, false, fmt.Errorf("a fragment of %d bytes", len(f.payload))
	}
	a.message = append(a.message, f.payload...)
	if a.begun = !f.fin; a.begun {
		return h, false, nil
	}
	h.Frame = a.message
	if h.Frame == nil {
		h.Frame = []byte{}
	}
	a.message = nil
	return h, true, nil
}

// base64Of is base64 of about so many bytes.
func base64Of(n int) []byte {
	b := make([]byte, (n+2)/3*4)
	for i := range b {
		b[i] = 'A' + byte(i%26)
	}
	return b
}
