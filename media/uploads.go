package media

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"
)

// What may be wrong with a part of an upload, beside its base64 (spec 6).
var (
	ErrPart      = errors.New("media: part or parts is out of range")
	ErrDisagrees = errors.New("media: kind or parts is not what the upload began with")
	ErrOpen      = errors.New("media: too many uploads are open")
	ErrSum       = errors.New("media: the open uploads hold too many bytes together")
)

// Limits are the bounds of one device. A zero field means the limit of protocol v1 (spec 3 and 6).
type Limits struct {
	Open  int           // uploads that are not complete; 8
	Bytes int           // decoded bytes of them all; 8 MiB
	Parts int           // parts of one file; 2 048
	File  int           // decoded bytes of one file; 8 MiB
	Idle  time.Duration // an upload lives so long without a new part; 120 s
}

func (l *Limits) or() (all Limits) {
	if l != nil {
		all = *l
	}
	all.Open = cmp.Or(all.Open, 8)
	all.Bytes = cmp.Or(all.Bytes, 8<<20)
	all.Parts = cmp.Or(all.Parts, 2048)
	all.File = cmp.Or(all.File, 8<<20)
	all.Idle = cmp.Or(all.Idle, 120*time.Second)
	return all
}

// Part is one media frame. Its strings may borrow from the frame: what is kept of them is copied.
type Part struct {
	ID, Kind, Mime, Filename, Caption string

	Part, Parts int    // Part is 0..Parts-1
	Data        string // base64, see Decode
}

// longMime is more than any type has; a longer one counts as none, so that the frame that brings it is not kept with it.
const longMime = 255

// file makes the file that p is of, without content: a copy of what does not depend on the part.
func (p *Part) file() *File {
	f := &File{ID: strings.Clone(p.ID), Kind: strings.Clone(p.Kind), Filename: strings.Clone(p.Filename), Caption: strings.Clone(p.Caption)}
	if len(p.Mime) <= longMime {
		f.Mime = strings.Clone(p.Mime)
	}
	return f
}

// own is what that costs.
func (p *Part) own() int {
	return fileBytes + len(p.ID) + len(p.Kind) + min(len(p.Mime), longMime) + len(p.Filename) + len(p.Caption)
}

// fileBytes is what a file costs beside its strings and its pieces, and what an upload costs beside its file and its bits.
const (
	fileBytes   = 192
	uploadBytes = 128
)

// Uploads are the unfinished uploads of one device. Its session owns it: it is not for concurrent use. Without an upload it
// holds no memory. Limits and Budget are set before its first use and may be shared by all devices; nil means the limits of the
// protocol and no budget.
type Uploads struct {
	Limits *Limits
	Budget *Budget

	open []*upload // in the order in which they began; nil when there is none
	sum  int       // decoded bytes of all of them
}

// upload is a file that is not complete.
type upload struct {
	*File // its pieces as they came, each with the number of its part; its cost, without theirs

	parts  int
	have   []uint64      // a bit for each part that is here
	missed int           // parts that are not
	room   int           // taken of the budget for those
	last   time.Duration // when the last part came
}

// Add takes one frame of media at the time now. It returns the file that p completes, which is the caller's to Release, or nil
// when parts are missing still. A file without a type gets one by GuessMime.
//
// On an error p is not kept. Then the upload of p.ID goes on as before after ErrBase64, ErrEmpty, ErrBudget and ErrPart; after
// ErrDisagrees, ErrTooBig and ErrSum it is dropped; and with ErrOpen there is none.
func (u *Uploads) Add(p *Part, now time.Duration) (done *File, err error) {
	limits := u.Limits.or()
	up := u.find(p.ID)
	switch {
	case p.Parts < 1 || p.Parts > limits.Parts || p.Part < 0 || p.Part >= p.Parts:
		return nil, ErrPart
	case up != nil && (p.Kind != up.Kind || p.Parts != up.parts):
		u.drop(up)
		return nil, ErrDisagrees
	case p.Parts == 1:
		return Whole(p, limits.File, u.Budget)
	case up == nil && len(u.open) >= limits.Open:
		return nil, refused(p.Data)
	case up == nil:
		return nil, u.begin(p, &limits, now)
	}
	if err := u.put(up, p, &limits, now); err != nil {
		if err == ErrTooBig || err == ErrSum {
			u.drop(up)
		}
		return nil, err
	}
	if up.missed > 0 {
		return nil, nil
	}
	return u.complete(up), nil
}

// Whole makes a file of p, which is all of it, with at most so many bytes. A file without a type gets one by GuessMime.
func Whole(p *Part, most int, budget *Budget) (*File, error) {
	f, err := whole(p, most, budget)
	if err == nil {
		f.guess()
	}
	return f, err
}

func whole(p *Part, most int, budget *Budget) (*File, error) {
	own := p.own()
	if !budget.Take(own) {
		return nil, ErrBudget
	}
	list, size, err := decode(nil, 0, p.Data, most, budget)
	if err != nil {
		budget.Give(own)
		return nil, err
	}
	f := p.file()
	f.pieces, f.size, f.cost = list, size, own
	f.seal(budget)
	return f, nil
}

// refused tells why a part that would open one upload too many is not taken: a fault of its data comes first.
func refused(data string) error {
	data = strings.TrimRight(data, space)
	if data == "" {
		return ErrEmpty
	}
	if _, err := measure(data, true); err != nil {
		return err
	}
	return ErrOpen
}

// begin opens the upload that p is the first part of. What does not depend on the part is fixed now.
func (u *Uploads) begin(p *Part, limits *Limits, now time.Duration) error {
	words := (p.Parts + 63) / 64
	own := p.own() + uploadBytes + 8*words
	if !u.Budget.Take(own) {
		return ErrBudget
	}
	// Room for the whole upload, as far as its first part tells: who has begun can end, and who finds no room is told so
	// before he has sent much. Were every part to look for room, many uploads could wait for each other for ever.
	first := decodedLen(len(p.Data))
	rest := max(0, cost(min(limits.File, p.Parts*first))-cost(first))
	if !u.Budget.Take(rest) {
		u.Budget.Give(own)
		return ErrBudget
	}
	up := &upload{File: p.file(), parts: p.Parts, missed: p.Parts, have: make([]uint64, words)}
	up.cost = own
	if err := u.put(up, p, limits, now); err != nil {
		u.Budget.Give(own + rest)
		return err
	}
	up.room = rest
	u.open = append(u.open, up)
	return nil
}

// put decodes p into up, in place of the same part if that is here already.
func (u *Uploads) put(up *upload, p *Part, limits *Limits, now time.Duration) error {
	replaced := 0
	word, bit := p.Part/64, uint64(1)<<(p.Part%64)
	again := up.have[word]&bit != 0
	if again {
		replaced = up.partSize(p.Part)
	}
	inFile, inSum := limits.File-up.size+replaced, limits.Bytes-u.sum+replaced
	before := len(up.pieces)
	kept := NewBudget(int64(up.room)) // taken already, so nobody can come in between
	list, size, err := decode(up.pieces, p.Part, p.Data, min(inFile, inSum), kept)
	if err == ErrBudget { // the upload is longer than it began
		list, size, err = decode(up.pieces, p.Part, p.Data, min(inFile, inSum), u.Budget)
	}
	up.room -= int(kept.Used())
	if err == ErrTooBig && inSum < inFile {
		err = ErrSum
	}
	if err != nil {
		return err
	}
	up.pieces = list
	if again {
		u.Budget.Give(up.remove(p.Part, before))
	} else {
		up.have[word] |= bit
		up.missed--
	}
	up.size += size - replaced
	u.sum += size - replaced
	up.last = now
	return nil
}

// partSize is the number of bytes of part.
func (up *upload) partSize(part int) (n int) {
	for _, p := range up.pieces {
		if p.at == part {
			n += len(p.b)
		}
	}
	return n
}

// remove frees the pieces of part among the first n, and tells what they took of the budget.
func (up *upload) remove(part, n int) (cost int) {
	kept := up.pieces[:0]
	for i, p := range up.pieces {
		if i < n && p.at == part {
			cost += p.cost()
			p.free()
		} else {
			kept = append(kept, p)
		}
	}
	clear(up.pieces[len(kept):])
	up.pieces = kept
	return cost
}

// complete makes the File of an upload that has all its parts.
func (u *Uploads) complete(up *upload) *File {
	u.forget(up)
	u.Budget.Give(up.room)
	up.room = 0
	slices.SortStableFunc(up.pieces, func(a, b piece) int { return a.at - b.at })
	up.seal(u.Budget)
	up.guess()
	return up.File
}

// Has tells whether an upload with this id is open.
func (u *Uploads) Has(id string) bool { return u.find(id) != nil }

// Empty tells whether no upload is open.
func (u *Uploads) Empty() bool { return len(u.open) == 0 }

// Next is when the next upload expires, unless a part of it comes before; ok is false when none is open.
func (u *Uploads) Next() (at time.Duration, ok bool) {
	if u.Empty() {
		return 0, false
	}
	first := slices.MinFunc(u.open, func(a, b *upload) int { return cmp.Compare(a.last, b.last) })
	return first.last + u.Limits.or().Idle, true
}

// Expire frees the uploads whose time is over at now, and gives their ids.
func (u *Uploads) Expire(now time.Duration) (ids []string) {
	idle := u.Limits.or().Idle
	for i := 0; i < len(u.open); {
		if up := u.open[i]; now-up.last >= idle {
			ids = append(ids, up.ID)
			u.drop(up) // the next one moves to i
		} else {
			i++
		}
	}
	return ids
}

// Free frees all uploads: the device is gone. u may be used again.
func (u *Uploads) Free() {
	for !u.Empty() {
		u.drop(u.open[len(u.open)-1])
	}
}

func (u *Uploads) find(id string) *upload {
	for _, up := range u.open {
		if up.ID == id {
			return up
		}
	}
	return nil
}

func (u *Uploads) drop(up *upload) {
	u.forget(up)
	u.Budget.Give(up.cost + up.room + discard(up.pieces))
}

// forget takes up off the list.
func (u *Uploads) forget(up *upload) {
	u.sum -= up.size
	i := slices.Index(u.open, up)
	if u.open = slices.Delete(u.open, i, i+1); len(u.open) == 0 {
		u.open = nil
	}
}
