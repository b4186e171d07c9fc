package media

import "sync"

const (
	slabBytes = 64 << 10          // the largest memory that is ever asked for at once
	slabFill  = slabBytes / 3 * 3 // what of it is used: then every slab begins at a multiple of four characters of base64
	small     = slabBytes / 2     // up to here a piece gets memory of just its size
	overhead  = 64                // what a piece costs beside its bytes: its place in a list that grows, and the allocator's rounding
)

// piece is memory that holds a stretch of a file: a slab of the pool or, when it is small, an allocation of just its size.
type piece struct {
	b  []byte
	at int // in an upload: the number of the part; in a File: the offset of the first byte
}

// slabs keeps slabs that nobody uses; the garbage collector empties it.
var slabs = sync.Pool{New: func() any { return new([slabBytes]byte) }}

func newPiece(n, at int) piece {
	if n <= small {
		return piece{make([]byte, n), at}
	}
	return piece{taken(slabs.Get().(*[slabBytes]byte))[:n], at}
}

// cost is what p takes of the budget.
func (p piece) cost() int { return cap(p.b) + overhead }

// free gives a slab back to the pool: nobody may read p any more.
func (p piece) free() {
	if cap(p.b) == slabBytes {
		slab := (*[slabBytes]byte)(p.b[:slabBytes])
		given(slab)
		slabs.Put(slab)
	}
}

// pieces is the number of pieces that size bytes need, and cost what they take of the budget together.
func pieces(size int) int { return (size + slabFill - 1) / slabFill }

func cost(size int) int {
	n := pieces(size)
	last := size - (n-1)*slabFill
	if last > small {
		last = slabBytes
	}
	return (n-1)*slabBytes + last + n*overhead
}

// discard frees all pieces of list, forgets them, and tells what they took of the budget.
func discard(list []piece) (cost int) {
	for _, p := range list {
		cost += p.cost()
		p.free()
	}
	clear(list)
	return cost
}
