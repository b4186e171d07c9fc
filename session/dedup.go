package session

import (
	"hash/maphash"
	"sync/atomic"

	"mobilegate/codec"
)

// messageKey stands for the id of a message: 16 bytes instead of up to 512.
type messageKey [2]uint64

var keySeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func keyOf(id string) messageKey {
	return messageKey{maphash.String(keySeeds[0], id), maphash.String(keySeeds[1], id)}
}

// dedup is the window of the ids that a device has used (spec 5): the last 4 000 of the last 600 s. A repeat does not renew
// an id. The zero value is empty.
type dedup struct {
	only seen     // while there is just one, as with most devices; none if its key is zero
	many *history // from the second on
}

type seen struct {
	key messageKey
	at  uint32 // seconds
}

// histories is how many ids all histories hold. Above maxHistories every device that adds one forgets the older half of its
// own: 4 000 ids for each of very many devices would be more memory than there is.
var histories atomic.Int64

const maxHistories = 16 << 20 // about 1 GiB

type history struct {
	known []seen // oldest first
	index map[messageKey]struct{}
}

const (
	dedupSeconds = uint32(codec.DedupWindow / 1e9)
	indexFrom    = 32 // ids from which on an index beats a scan
)

func (d *dedup) empty() bool { return d.many == nil && d.only.key == messageKey{} }

// has tells whether the key is in the window.
func (d *dedup) has(k messageKey) bool {
	if d.many != nil {
		return d.many.has(k)
	}
	return d.only.key == k
}

// add remembers the key; the oldest goes when there are too many.
func (d *dedup) add(k messageKey, second uint32) {
	switch {
	case d.many != nil:
		d.many.add(seen{k, second})
	case d.empty():
		d.only = seen{k, second}
	default:
		d.many = &history{}
		d.many.add(d.only)
		d.many.add(seen{k, second})
		d.only = seen{}
	}
}

// forget lets go of all.
func (d *dedup) forget() {
	if d.many != nil {
		d.many.drop(len(d.many.known))
	}
	*d = dedup{}
}

// remove gives a key back, if it is there. It is a recent one.
func (d *dedup) remove(k messageKey) {
	switch {
	case d.many != nil:
		d.many.remove(k)
		d.settle()
	case d.only.key == k:
		*d = dedup{}
	}
}

// expire lets go what is out of the window.
func (d *dedup) expire(second uint32) {
	if d.many != nil {
		d.many.expire(second)
		d.settle()
	} else if !d.empty() && second-d.only.at >= dedupSeconds {
		*d = dedup{}
	}
}

// oldest is when the id that leaves the window next was used. The window is not empty.
func (d *dedup) oldest() uint32 {
	if d.many != nil {
		return d.many.known[0].at
	}
	return d.only.at
}

func (d *dedup) settle() {
	if len(d.many.known) == 0 {
		d.many = nil
	}
}

func (h *history) has(k messageKey) bool {
	if h.index != nil {
		_, ok := h.index[k]
		return ok
	}
	for i := range h.known {
		if h.known[i].key == k {
			return true
		}
	}
	return false
}

func (h *history) add(s seen) {
	if len(h.known) >= codec.MaxDedupIDs {
		h.drop(1)
	}
	if histories.Add(1) > maxHistories {
		h.drop(len(h.known) / 2)
	}
	h.known = append(h.known, s)
	if h.index != nil {
		h.index[s.key] = struct{}{}
	} else if len(h.known) > indexFrom {
		h.index = make(map[messageKey]struct{}, 2*indexFrom)
		for i := range h.known {
			h.index[h.known[i].key] = struct{}{}
		}
	}
}

func (h *history) remove(k messageKey) {
	for i := len(h.known) - 1; i >= 0; i-- {
		if h.known[i].key == k {
			h.known = append(h.known[:i], h.known[i+1:]...)
			delete(h.index, k)
			histories.Add(-1)
			return
		}
	}
}

func (h *history) expire(second uint32) {
	n := 0
	for n < len(h.known) && second-h.known[n].at >= dedupSeconds {
		n++
	}
	h.drop(n)
}

func (h *history) drop(n int) {
	for i := range n {
		delete(h.index, h.known[i].key)
	}
	h.known = h.known[n:]
	histories.Add(-int64(n))
}
