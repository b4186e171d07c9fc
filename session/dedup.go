package session

import (
	"hash/maphash"

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
	known []seen // oldest first
	index map[messageKey]struct{}
}

type seen struct {
	key messageKey
	at  uint32 // seconds
}

const (
	dedupSeconds = uint32(codec.DedupWindow / 1e9)
	indexFrom    = 32 // ids from which on an index beats a scan
)

// has tells whether the key is in the window.
func (d *dedup) has(k messageKey) bool {
	if d.index != nil {
		_, ok := d.index[k]
		return ok
	}
	for i := range d.known {
		if d.known[i].key == k {
			return true
		}
	}
	return false
}

// add remembers the key; the oldest goes when there are too many.
func (d *dedup) add(k messageKey, second uint32) {
	if len(d.known) >= codec.MaxDedupIDs {
		d.drop(1)
	}
	d.known = append(d.known, seen{k, second})
	if d.index != nil {
		d.index[k] = struct{}{}
	} else if len(d.known) > indexFrom {
		d.index = make(map[messageKey]struct{}, 2*indexFrom)
		for i := range d.known {
			d.index[d.known[i].key] = struct{}{}
		}
	}
}

// remove gives a key back, if it is there. It is a recent one.
func (d *dedup) remove(k messageKey) {
	for i := len(d.known) - 1; i >= 0; i-- {
		if d.known[i].key == k {
			d.known = append(d.known[:i], d.known[i+1:]...)
			delete(d.index, k)
			return
		}
	}
}

// expire lets go what is out of the window.
func (d *dedup) expire(second uint32) {
	n := 0
	for n < len(d.known) && second-d.known[n].at >= dedupSeconds {
		n++
	}
	if n > 0 {
		d.drop(n)
	}
}

func (d *dedup) drop(n int) {
	for i := range n {
		delete(d.index, d.known[i].key)
	}
	if d.known = d.known[n:]; len(d.known) == 0 {
		*d = dedup{}
	}
}
