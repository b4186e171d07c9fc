package media

import "sync/atomic"

// Budget bounds the bytes that the files and unfinished uploads of all devices hold together. Its methods may be called from
// any goroutine. A nil Budget has no bound.
type Budget struct {
	limit    int64
	used     atomic.Int64
	returned atomic.Int64
}

// NewBudget makes a Budget of so many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes} }

// Take reserves n bytes, all of them or none; false means that the budget has not so much left.
func (b *Budget) Take(n int) bool {
	if b == nil {
		return true
	}
	for {
		used := b.used.Load()
		if int64(n) > b.limit-used {
			return false
		}
		if b.used.CompareAndSwap(used, used+int64(n)) {
			return true
		}
	}
}

// Give returns n bytes that were taken.
func (b *Budget) Give(n int) {
	if b != nil {
		b.used.Add(-int64(n))
		b.returned.Add(int64(n))
	}
}

// Used is the number of bytes that are taken now.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Returned is the number of bytes that were given back since the start.
func (b *Budget) Returned() int64 {
	if b == nil {
		return 0
	}
	return b.returned.Load()
}
