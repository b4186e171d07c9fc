//go:build ownercheck

package media

import "sync"

// atRest holds the slabs that lie in the pool, which nobody may use.
var atRest sync.Map

func taken(slab *[slabBytes]byte) *[slabBytes]byte {
	atRest.Delete(slab)
	return slab
}

// given poisons slab, so that a former owner that still reads it reads nonsense.
func given(slab *[slabBytes]byte) {
	if _, twice := atRest.LoadOrStore(slab, true); twice {
		panic("media: a slab is given back twice")
	}
	for i := range slab {
		slab[i] = 0xDB
	}
}
