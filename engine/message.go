package engine

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// The memory of messages on their way in, in part or whole.

// large is the capacity of all messages over maxPooled: Config.MaxInbound bounds it.
var large atomic.Int64

// messagesReleased is the capacity of all messages over minSpare that were let go since the start: memory that a collection may
// give back.
var messagesReleased atomic.Int64

// spares are messages over minSpare that nobody uses: a pool for each capacity, of which there are eight to each doubling, so
// that little of one is wasted. The collector empties them.
var spares [8 * 8]sync.Pool

const (
	minSpare  = 8 << 10                       // up to here messages holds them
	maxSpare  = minSpare << (len(spares) / 8) // 2 MiB
	maxSpares = 64 << 20                      // with so many bytes of large messages in use none is kept: a wave of them must not stay
)

func getMessage() *Buffer { return taken(messages.Get()) }

// PutMessage ends the life of a Buffer that came through Peer.Message or Handler.Hello.
func PutMessage(b *Buffer) {
	n := int64(cap(b.B))
	if n > minSpare {
		messagesReleased.Add(n)
	}
	if n > maxPooled {
		large.Add(-n)
	}
	giveMessage(b)
}

func giveMessage(b *Buffer) {
	given(b)
	n := cap(b.B)
	if n <= minSpare {
		messages.Put(b)
	} else if size, spare := spareFor(n); size == n && large.Load() <= maxSpares {
		b.Reset()
		spare.Put(b)
	}
}

// spareFor rounds the capacity of a message over minSpare up to one that spares has a pool for. One over maxSpare has none.
func spareFor(size int) (int, *sync.Pool) {
	if size > maxSpare {
		return 0, nil
	}
	shift := bits.Len(uint(size-1)) - 4
	eighths := (size-1)>>shift + 1 // of the power of two below: 9 to 16
	return eighths << shift, &spares[8*(shift+4-bits.Len(minSpare))+eighths-9]
}

// A large message is made room for at once, and not by doubling, when a sixteenth of it is there and all together take no more
// than an eighth of what they may: those who announce much and send little must not keep others out.
const (
	ahead  = 16
	plenty = 8
)

// grow makes room for n bytes more in a message of which so many more are announced: at least twice what is there, so that copying
// stays cheap, but never far ahead of what was received, whatever was announced. It answers false when that is more than all
// messages together may have.
func grow(b *Buffer, n int, announced int64, limit int64) bool {
	have, old := len(b.B)+n, cap(b.B)
	size, whole := max(2*old, have, 512), have+int(announced)
	soon := whole > maxPooled && whole <= ahead*have && plenty*(large.Load()+int64(whole)) <= limit
	if soon || whole <= 2*size {
		size = whole // the last step at once: the largest copy is spared
	}
	if size <= minSpare {
		b.B = append(make([]byte, 0, size), b.B...)
		return true
	}
	rounded, spare := spareFor(size)
	size = max(size, rounded)
	if size > maxPooled {
		more := int64(size)
		if old > maxPooled {
			more -= int64(old)
		}
		if large.Add(more) > limit {
			large.Add(-more)
			return false
		}
	}
	var wide *Buffer
	if spare != nil {
		wide, _ = spare.Get().(*Buffer)
	}
	if wide == nil {
		wide = &Buffer{B: make([]byte, 0, size)}
	}
	taken(wide)
	b.B, wide.B = append(wide.B, b.B...), b.B
	giveMessage(wide)
	return true
}
