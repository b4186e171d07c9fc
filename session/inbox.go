package session

import (
	"sync"
	"sync/atomic"

	"mobilegate/agent"
	"mobilegate/codec"
	"mobilegate/engine"
)

// eventKind says what happened to a session.
type eventKind uint8

const (
	evHello     eventKind = iota // conn wants to be the device's: owner, name
	evFrame                      // conn brought buf
	evDrained                    // conn took everything that waited
	evClosed                     // conn is gone
	evDeadline                   // the session's timer is due
	evEmit                       // the agent said something in turn: said
	evTurnEnd                    // turn is over: said is its reply, or err
	evTurnSlot                   // the turn that waits for a slot may run
	evConfirm                    // the agent took an answer to card, or not: err
	evDeliver                    // another connection brings delivery
	evDelivered                  // what became of delivery, which conn sent: fault
	evEvict                      // too many devices are offline: let the state of this one go
	evShutdown                   // say good-bye
)

// event is one happening in the life of a session. It is pooled: whoever handles it gives it back.
type event struct {
	next  *event
	kind  eventKind
	owner owner
	conn  engine.Conn
	buf   *engine.Buffer // the event's, until the handler has put it back
	name  string
	user  *string
	turn  *turn
	said  agent.Event
	err   error

	deliver  bool   // conn said hello with a deliver token
	address  *share // of conn
	card     *card
	delivery *delivery
	fault    *codec.Fault
}

var events = sync.Pool{New: func() any { return new(event) }}

func newEvent(kind eventKind) *event {
	e := events.Get().(*event)
	e.kind = kind
	return e
}

func (e *event) free() {
	if e.buf != nil {
		engine.PutMessage(e.buf)
	}
	*e = event{}
	events.Put(e)
}

// maxLight is up to how many bytes of input or output an event is handled by the goroutine that brings it.
const maxLight = 4 << 10

// light tells whether handling e is so little work that an event loop may do it, or the goroutine of a turn. There may be
// thousands of those: were they to cut long replies all at once, the loops would wait for a processor.
func (e *event) light() bool {
	return (e.buf == nil || len(e.buf.B) <= maxLight) && len(e.said.Text) <= maxLight && e.said.File == nil
}

// inbox is where the order of a session is made: everything that happens to it goes through here, first in, first out, and
// one goroutine at a time works it off. So the fields of a session that its worker owns need no lock.
type inbox struct {
	mu    sync.Mutex
	last  *event // its next is the first: a ring
	bytes int32  // capacity of the frames that wait
	count uint16 // of frames
	busy  bool   // a goroutine works it off, or the run queue holds the session
	gone  bool   // the session has ended: nothing is taken any more
}

// Bounds of what waits in one inbox (spec 10): the agreed burst, and the one message that may come on top of it.
const (
	maxInboxFrames = 4096
	maxInboxBytes  = 48 << 20
	maxInboxes     = 256 << 20 // of all devices; one at rest may always be brought something
)

// put appends e. start tells that the session was at rest, and the caller must now see to it that somebody works it off;
// full, that e was not taken: too much waits, or the session has ended.
// all is what waits in all inboxes.
func (q *inbox) put(e *event, all *atomic.Int64) (start, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return false, true
	}
	if e.kind == evFrame {
		n := int32(cap(e.buf.B))
		if q.count >= maxInboxFrames || q.bytes+n > maxInboxBytes || q.busy && all.Load() > maxInboxes {
			return false, true
		}
		all.Add(int64(n))
		q.count++
		q.bytes += n
	}
	if q.last == nil {
		e.next = e
	} else {
		e.next, q.last.next = q.last.next, e
	}
	q.last = e
	start = !q.busy
	q.busy = true
	return start, false
}

// next takes the first event, or nil when there is none, or when it is not light and only light ones are wanted.
func (q *inbox) next(light bool, all *atomic.Int64) *event {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last == nil {
		return nil
	}
	e := q.last.next
	if light && !e.light() {
		return nil
	}
	if e == q.last {
		q.last = nil
	} else {
		q.last.next = e.next
	}
	e.next = nil
	if e.kind == evFrame {
		q.count--
		q.bytes -= int32(cap(e.buf.B))
		all.Add(-int64(cap(e.buf.B)))
	}
	return e
}

// rest puts the session at rest; it answers false when there is something to do after all.
func (q *inbox) rest() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last != nil {
		return false
	}
	q.busy = false
	return true
}

// where says on whose goroutine an event is posted, and so who may work the inbox off.
type where uint8

const (
	elsewhere where = iota // a goroutine that is not to be held up: the pool does the work
	here                   // an event loop, or the goroutine of a turn: does what is light, the pool the rest
)

// maxRun is after how many events a session goes to the end of the run queue, so that no device starves the others.
const maxRun = 32

// post hands e to the session. If the session is at rest, this very goroutine becomes its worker where it may: a hand-over
// would cost more than most events do.
func (s *Session) post(e *event, w where) {
	start, full := s.inbox.put(e, &s.hub.inboxes)
	switch {
	case full:
		if e.kind == evFrame {
			e.conn.Close(s.hub.farewells.overloaded) // nothing happens when it is closed already
		}
		if e.kind == evTurnEnd {
			e.turn.free()
		}
		e.free()
	case !start:
	case w == elsewhere:
		s.hub.pool.add(s)
	default:
		s.run(w)
	}
}

// run works the inbox off. Whatever is said to the device meanwhile leaves in one write at the end.
func (s *Session) run(w where) {
	for range maxRun {
		e := s.inbox.next(w == here, &s.hub.inboxes)
		if e == nil {
			s.flush()
			if s.finished() || s.inbox.rest() {
				return
			}
			if w == here {
				break // what waits is not light
			}
			continue
		}
		s.handle(e, s.hub.cfg.Now())
		e.free()
	}
	s.flush()
	s.hub.pool.add(s)
}
