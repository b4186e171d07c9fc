package session

import (
	"slices"
	"sync"
	"sync/atomic"
)

// slotState says whether a turn counts among the running ones; see slots. A turn that waits for a card does not.
type slotState struct{ atomic.Int32 }

const (
	slotNone int32 = iota
	slotHeld
	slotParked // given back while the turn waits for a card
	slotEnded  // the agent has returned: the turn never counts again
)

// give parks a turn that waits for a card; false when as many are parked as may be.
func (st *slotState) give(l *slots) bool {
	if st.Load() != slotHeld {
		return true // it is parked already, or over
	}
	if !l.park() {
		return false
	}
	if !st.CompareAndSwap(slotHeld, slotParked) {
		l.unpark() // the agent returned at this moment
		return true
	}
	l.release()
	return true
}

func (st *slotState) retake(l *slots) {
	if st.CompareAndSwap(slotParked, slotHeld) {
		l.unpark()
		l.retake()
	}
}

// end says that the agent has returned; it tells whether the turn held a slot until now.
func (st *slotState) end(l *slots) (held bool) {
	was := st.Swap(slotEnded)
	if was == slotParked {
		l.unpark()
	}
	return was == slotHeld
}

// slots bounds how many turns run at a time over all devices. Sessions that find none wait in line.
type slots struct {
	mu      sync.Mutex
	free    int // below 0: answers to cards brought more turns back than there are slots
	running int
	parked  int // turns that wait for a card: each has a goroutine, so they are bounded like the running ones
	most    int // parked
	line    []*Session
	quiet   []chan struct{} // closed when nothing runs
}

// take takes a slot, or puts s in line for one: evTurnSlot then brings it.
func (l *slots) take(s *Session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free <= 0 {
		l.line = append(l.line, s)
		return false
	}
	l.free--
	l.running++
	return true
}

// maxLine is how many times as many sessions as may have a turn at a time may stand in line for one; at least 1 024 may.
const maxLine = 4

// crowded tells whether so many stand in line that nobody should join it.
func (l *slots) crowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.line) >= max(maxLine*l.most, 1024)
}

// retake takes a slot for a turn that had one, be it one too many: its agent goes on at this moment.
func (l *slots) retake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free--
	l.running++
}

func (l *slots) park() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parked >= l.most {
		return false
	}
	l.parked++
	return true
}

func (l *slots) unpark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parked--
}

// leave takes s out of the line. If a slot is on its way to it already, ask gives that back.
func (l *slots) leave(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.line, s); i >= 0 {
		l.line = slices.Delete(l.line, i, i+1)
	}
}

// release gives a slot to the first in line, or back.
func (l *slots) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) > 0 && l.free >= 0 {
		s := l.line[0]
		l.line[0] = nil
		l.line = l.line[1:]
		s.post(newEvent(evTurnSlot), elsewhere)
		return
	}
	l.free++
	if l.running--; l.running == 0 {
		for _, c := range l.quiet {
			close(c)
		}
		l.quiet = nil
	}
}

// idle returns a channel that is closed when no turn runs.
func (l *slots) idle() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	if l.running == 0 {
		close(c)
	} else {
		l.quiet = append(l.quiet, c)
	}
	return c
}
