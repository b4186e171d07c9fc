// Package media holds what devices send as base64: it decodes recordings and files straight from the bytes of a frame, and
// puts the parts of uploads together (spec 5 and 6).
//
// A file lies in pieces of at most 64 KiB, most of them slabs of a pool; nothing else grows with it. What it takes of memory is
// counted by capacity, in a Budget for all devices and given back to the last byte. Nothing here reads a clock, logs, or puts
// a word of a device into an error.
package media

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync/atomic"
)

// File is one whole file of a device.
//
// It is counted: who gets it has one reference, Retain adds one, Release takes one away, and with the last one its memory goes
// back to the pool and the budget. Whoever holds a reference may read it, from any goroutine and several at a time. The strings
// are its own memory, words of the device, and not to be changed while others read.
type File struct {
	ID, Kind, Mime, Filename, Caption string

	pieces []piece // by offset, none empty
	size   int
	cost   int // taken of the budget
	budget *Budget
	refs   atomic.Int32
}

// seal makes f whole: its pieces stand in order, its cost is without theirs, and it has one reference from now on.
func (f *File) seal(budget *Budget) {
	at := 0
	for i, p := range f.pieces {
		f.pieces[i].at = at
		f.cost += p.cost()
		at += len(p.b)
	}
	f.budget = budget
	f.refs.Store(1)
}

// guess gives f a type if the device named none (spec 6).
func (f *File) guess() {
	if f.Mime == "" {
		head := make([]byte, min(f.size, 512))
		f.ReadAt(head, 0)
		f.Mime = GuessMime(f.Filename, head)
	}
}

// Retain adds a reference; false when nobody holds the file any more.
func (f *File) Retain() bool {
	for {
		refs := f.refs.Load()
		if refs <= 0 {
			return false
		}
		if f.refs.CompareAndSwap(refs, refs+1) {
			return true
		}
	}
}

// Release takes a reference away; who called it may not use f any more.
func (f *File) Release() {
	switch left := f.refs.Add(-1); {
	case left < 0:
		panic("media: a file is released more often than it is held")
	case left == 0:
		discard(f.pieces)
		f.pieces = nil
		f.budget.Give(f.cost)
	}
}

// Size is the number of bytes.
func (f *File) Size() int { return f.size }

// ReadAt is io.ReaderAt. A read that begins after the last Release gets fs.ErrClosed, but one that runs meanwhile is a bug that
// may see another device's file: hold a reference.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	switch {
	case off < 0:
		return 0, errors.New("media: the offset is negative")
	case f.pieces == nil:
		return 0, fs.ErrClosed
	case off >= int64(f.size):
		return 0, io.EOF
	}
	at := int(off)
	i, found := slices.BinarySearchFunc(f.pieces, at, func(p piece, at int) int { return p.at - at })
	if !found {
		i-- // it lies inside the piece before
	}
	for ; i < len(f.pieces) && n < len(p); i++ {
		n += copy(p[n:], f.pieces[i].b[at+n-f.pieces[i].at:])
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}
