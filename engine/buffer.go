package engine

import (
	"encoding/binary"
	"sync"

	"github.com/gobwas/ws"
	"github.com/valyala/bytebufferpool"
)

// Buffer is a pooled run of bytes with one owner at a time. A method that takes a Buffer takes its ownership; whoever owns
// it last gives it back with PutBuffer. The debug build (-tags ownercheck) poisons a Buffer when it is given back and
// panics when it is then used.
type Buffer = bytebufferpool.ByteBuffer

// maxPooled is the largest capacity of a Buffer for outgoing frames that is kept: a burst of larger ones must not stay in memory. Over
// it messages on their way in are counted in large.
const maxPooled = 64 << 10

// Messages and replies differ in size, and a pool calibrates itself by what it sees: one pool for each.
var messages, replies bytebufferpool.Pool

// pieces are replies of maxPooled, which replies would not keep where most are small. The collector empties it.
var pieces = sync.Pool{New: func() any { return &Buffer{B: make([]byte, 0, maxPooled)} }}

// GetBuffer returns an empty Buffer for outgoing frames. The caller owns it.
func GetBuffer() *Buffer { return taken(replies.Get()) }

// GetPiece is GetBuffer for who has nearly 64 KiB to say.
func GetPiece() *Buffer { return taken(pieces.Get().(*Buffer)) }

// PutBuffer ends the life of b. The caller must own it and not touch it again.
func PutBuffer(b *Buffer) {
	given(b)
	switch n := cap(b.B); {
	case n < maxPooled:
		replies.Put(b)
	case n == maxPooled:
		b.Reset()
		pieces.Put(b)
	}
}

// headroom is what BeginFrame reserves: the header of a frame of 126 to 65 535 bytes, which most are.
const headroom = 4

// BeginFrame reserves the header of a text frame in b. What the caller appends to b.B until EndFrame is the payload.
// Several frames in one Buffer leave in one write.
func BeginFrame(b *Buffer) (start int) {
	start = len(b.B)
	b.B = append(b.B, 0, 0, 0, 0)
	return start
}

// EndFrame writes the header that BeginFrame reserved at start.
func EndFrame(b *Buffer, start int) { EndFragment(b, start, true, true) }

// EndFragment is EndFrame for one fragment of a message. Until its last one is sent, only control frames may come between.
func EndFragment(b *Buffer, start int, first, last bool) {
	putLength(b, start, len(b.B)-start-headroom)
	b.B[start] = 0
	if first {
		b.B[start] = byte(ws.OpText)
	}
	if last {
		b.B[start] |= 0x80
	}
}

// putLength writes the length of a payload of n bytes in its shortest form, and moves what stands behind the headroom there.
func putLength(b *Buffer, start, n int) {
	end := len(b.B)
	switch {
	case n <= 125:
		copy(b.B[start+2:], b.B[start+headroom:])
		b.B = b.B[:end-2]
		b.B[start+1] = byte(n)
	case n <= 65535:
		b.B[start+1] = 126
		binary.BigEndian.PutUint16(b.B[start+2:], uint16(n))
	default:
		b.B = append(b.B, 0, 0, 0, 0, 0, 0)
		copy(b.B[start+10:], b.B[start+headroom:end])
		b.B[start+1] = 127
		binary.BigEndian.PutUint64(b.B[start+2:], uint64(n))
	}
}

// appendControl appends a whole control frame; payload is at most 125 bytes.
func appendControl(dst []byte, op ws.OpCode, payload []byte) []byte {
	dst = append(dst, 0x80|byte(op), byte(len(payload)))
	return append(dst, payload...)
}

// appendClose appends a close frame. The reason is cut to what a control frame holds.
func appendClose(dst []byte, code ws.StatusCode, reason string) []byte {
	reason = reason[:min(len(reason), ws.MaxControlFramePayloadSize-2)]
	dst = append(dst, 0x80|byte(ws.OpClose), byte(2+len(reason)))
	dst = binary.BigEndian.AppendUint16(dst, uint16(code))
	return append(dst, reason...)
}

// Farewell is what a connection says before it ends: bytes that are ready to be written, shared by all who say the same.
type Farewell struct {
	wire  []byte
	close int // where the close frame begins in wire: in the middle of a message nothing else may be said
	code  ws.StatusCode
}

// NewFarewell compiles a farewell of an optional last text frame and a close frame with the code and the reason.
func NewFarewell(last []byte, code uint16, reason string) *Farewell {
	var b Buffer
	if last != nil {
		start := BeginFrame(&b)
		b.B = append(b.B, last...)
		EndFrame(&b, start)
	}
	return &Farewell{wire: appendClose(b.B, ws.StatusCode(code), reason), close: len(b.B), code: ws.StatusCode(code)}
}

// Code is the close code of the farewell.
func (f *Farewell) Code() int { return int(f.code) }
