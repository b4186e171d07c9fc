// Package wheel is a hashed timing wheel: one deadline for each of very many holders, at a few bytes each and without a
// timer or a goroutine for any of them.
//
// A deadline is rounded up to a tick and lies in the slot of that tick, modulo one round. A deadline that is more than a
// round away stays in its slot and is looked at once a round. The slots are slices, not linked lists, because the
// garbage collector marks a long list on one core only.
package wheel

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	slots = 512           // a power of two
	small = 8             // a slot of this capacity is never shrunk: 32 KiB in all
	never = math.MaxInt64 // a tick that does not come
	burst = 1024          // Run keeps a list of at most this capacity from one tick to the next
)

// Item is the place of one holder in a wheel. It is embedded by value; its zero value is not armed. It must not be
// copied while armed, belongs to one wheel at a time, and is guarded by that wheel's lock.
type Item struct {
	tick int64 // deadline, in ticks after the wheel's start
	pos  int32 // 1 + index in the slot of tick; 0: not armed
}

// TimerItem makes whatever embeds an Item a Holder.
func (it *Item) TimerItem() *Item { return it }

// Holder has a deadline: usually a pointer to a struct that embeds an Item.
type Holder interface{ TimerItem() *Item }

// Wheel holds the deadlines. Set, SetEarlier, Stop and Len may be called from any goroutine, also from within fire;
// Advance, Next and Run belong to one driver.
type Wheel[T Holder] struct {
	tick  time.Duration
	start time.Time
	wake  chan struct{} // wakes Run; holds one

	mu      sync.Mutex
	slots   [slots][]T
	armed   int
	done    int64 // the last tick that Advance has come to
	overdue bool  // something was armed for done afterwards
	planned int64 // the tick that Run sleeps for
}

// New makes a wheel whose ticks are counted from start. tick is the accuracy: nothing is due early, nor later than a
// tick after its deadline. A round is 512 ticks.
func New[T Holder](tick time.Duration, start time.Time) *Wheel[T] {
	return &Wheel[T]{tick: tick, start: start, wake: make(chan struct{}, 1), planned: -1}
}

// Set arms x, or moves it, so that it is due at the time given: at once when that has passed.
func (w *Wheel[T]) Set(x T, at time.Time) { w.arm(x, at, false) }

// SetEarlier arms x, or moves it to an earlier time; a later time changes nothing. A deadline that mostly moves later
// costs little this way: its holder finds out when it is due, and arms the rest.
func (w *Wheel[T]) SetEarlier(x T, at time.Time) { w.arm(x, at, true) }

func (w *Wheel[T]) arm(x T, at time.Time, onlyEarlier bool) {
	d := at.Sub(w.start)
	tick := int64(d / w.tick)
	if d%w.tick > 0 {
		tick++
	}
	it := x.TimerItem()

	w.mu.Lock()
	tick = max(tick, w.done)
	if it.pos != 0 {
		if tick == it.tick || onlyEarlier && tick > it.tick {
			w.mu.Unlock()
			return
		}
		w.remove(it)
	}
	slot := &w.slots[tick%slots]
	*slot = append(*slot, x)
	it.tick, it.pos = tick, int32(len(*slot))
	w.armed++
	w.overdue = w.overdue || tick == w.done
	earlier := tick < w.planned
	if earlier {
		w.planned = tick
	}
	w.mu.Unlock()

	if earlier {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// Armed tells whether x has a deadline. Who was handed x by Advance can tell this way that it was armed again meanwhile.
func (w *Wheel[T]) Armed(x T) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return x.TimerItem().pos != 0
}

// Stop disarms x if it is armed. It cannot take x out of a list that Advance has already returned.
func (w *Wheel[T]) Stop(x T) {
	it := x.TimerItem()
	w.mu.Lock()
	if it.pos != 0 {
		w.remove(it)
	}
	w.mu.Unlock()
}

// remove takes an armed item out: the last of its slot takes its place.
func (w *Wheel[T]) remove(it *Item) {
	slot := &w.slots[it.tick%slots]
	s := *slot
	last := len(s) - 1
	if i := int(it.pos - 1); i != last {
		s[i] = s[last]
		s[i].TimerItem().pos = it.pos
	}
	clear(s[last:])
	*slot = fit(s[:last])
	it.pos = 0
	w.armed--
}

// Len is the number of armed items.
func (w *Wheel[T]) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.armed
}

// Advance disarms what is due at now and appends it to due, in the order of the ticks. The caller fires it, outside of
// the lock; by then an x may have been armed again by another goroutine.
func (w *Wheel[T]) Advance(now time.Time, due []T) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	from, to := w.done+1, max(int64(now.Sub(w.start)/w.tick), w.done)
	if w.overdue {
		from = w.done
	}
	if to-from < slots {
		for t := from; t <= to; t++ {
			due = w.take(t, t, due)
		}
	} else { // the driver was away for more than a round
		first := len(due)
		for slot := range int64(slots) {
			due = w.take(slot, to, due)
		}
		slices.SortFunc(due[first:], func(a, b T) int { return cmp.Compare(a.TimerItem().tick, b.TimerItem().tick) })
	}
	w.done, w.overdue = to, false
	return due
}

// take moves the items of t's slot that are due at tick to from the slot to due.
func (w *Wheel[T]) take(t, to int64, due []T) []T {
	slot := &w.slots[t%slots]
	s, kept := *slot, 0
	if len(s) == 0 {
		return due
	}
	for i, x := range s {
		it := x.TimerItem()
		if it.tick <= to {
			it.pos = 0
			due = append(due, x)
			continue
		}
		if kept < i {
			s[kept] = x
			it.pos = int32(kept + 1)
		}
		kept++
	}
	clear(s[kept:])
	*slot = fit(s[:kept])
	w.armed -= len(s) - kept
	return due
}

// fit gives back what a burst has left: a slot that is at most a quarter full moves to a smaller array. Between two
// moves the slot halves or doubles, so removals stay cheap.
func fit[T any](s []T) []T {
	switch {
	case cap(s) <= small || len(s) > cap(s)/4:
		return s
	case len(s) == 0:
		return nil
	}
	return append(make([]T, 0, 2*len(s)), s...)
}

// Next is when Advance has something to do: never later than the first deadline, rounded up to its tick, and earlier
// when that is over a round away. ok is false when nothing is armed.
func (w *Wheel[T]) Next() (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time(w.next())
}

func (w *Wheel[T]) next() int64 {
	if w.armed == 0 {
		return never
	}
	t := w.done
	if !w.overdue {
		t++
		for len(w.slots[t%slots]) == 0 {
			t++
		}
	}
	return t
}

func (w *Wheel[T]) time(tick int64) (at time.Time, ok bool) {
	if tick == never {
		return time.Time{}, false
	}
	return w.start.Add(time.Duration(tick) * w.tick), true
}

// plan is Next for Run: from now on an earlier deadline wakes it.
func (w *Wheel[T]) plan() (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.planned = w.next()
	return w.time(w.planned)
}

// Run drives the wheel until ctx ends: it sleeps until something is due, then hands it to fire, whose list is valid
// until fire returns. While nothing is armed it sleeps without a timer.
func (w *Wheel[T]) Run(ctx context.Context, now func() time.Time, fire func(now time.Time, due []T)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due []T
	for ctx.Err() == nil {
		if at, ok := w.plan(); ok {
			timer.Reset(at.Sub(now()))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
			continue
		case <-timer.C:
		}
		t := now()
		due = w.Advance(t, due[:0])
		if len(due) > 0 {
			fire(t, due)
		}
		if clear(due); cap(due) > burst {
			due = nil
		}
	}
}
