//go:build ownercheck

package engine

import "sync"

// atRest holds the Buffers that lie in a pool, which nobody may use.
var atRest sync.Map

func taken(b *Buffer) *Buffer {
	atRest.Delete(b)
	return b
}

// given poisons b, so that a former owner that still reads it reads nonsense.
func given(b *Buffer) {
	if _, twice := atRest.LoadOrStore(b, true); twice {
		panic("engine: a buffer is given back twice")
	}
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
