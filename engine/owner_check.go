//go:build ownercheck

package engine

import (
	"sync"
	"sync/atomic"
)

// atRest holds the Buffers that lie in a pool, which nobody may use; lent is the number of those that do not.
var (
	atRest sync.Map
	lent   atomic.Int64
)

func taken(b *Buffer) *Buffer {
	lent.Add(1)
	atRest.Delete(b)
	return b
}

// given poisons b, so that a former owner that still reads it reads nonsense.
func given(b *Buffer) {
	if _, twice := atRest.LoadOrStore(b, true); twice {
		panic("engine: a buffer is given back twice")
	}
	lent.Add(-1)
	all := b.B[:cap(b.B)]
	for i := range all {
		all[i] = 0xDB
	}
}

func owned(b *Buffer) {
	if _, rest := atRest.Load(b); rest {
		panic("engine: a buffer is used after it was given back")
	}
}
