package session

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"mobilegate/codec"
	"mobilegate/engine"
	"mobilegate/internal/wheel"
)

// Session is the life of one device with one owner, over all its connections: it begins with the first hello and ends when
// the device is offline and there is nothing left to remember of it. A million of them are idle at a time, so what is not
// needed at rest hangs on a pointer that is nil then.
type Session struct {
	// Fixed.
	hub *Hub
	id  string // device.id

	inbox inbox // has a lock of its own

	// Owned by the worker: whoever runs handle.
	conn    engine.Conn    // nil while the device is offline
	out     *engine.Buffer // what this run of the worker says; nil at rest
	work    *work          // what is under way
	recent  *recent        // what is remembered of it, be it online or not
	pause   time.Duration  // when the avatar goes idle, since the hub's start; 0: no pause is running
	address *share         // of the connection's client address; nil: not counted
	user    *string        // a name of the one at conn, as the application claims; nil: none
	owner   owner
	state   state // what the device is to see now
	told    state // what it was told of that

	mayDeliver bool   // conn said hello with a deliver token
	orphans    uint16 // turns of former owners whose agent has not returned; the session stays until they have

	timer wheel.Item // earliest of all deadlines of the session; lazy
}

// TimerItem is the session's place in the hub's wheel.
func (s *Session) TimerItem() *wheel.Item { return &s.timer }

// Message implements engine.Peer.
func (s *Session) Message(c engine.Conn, b *engine.Buffer) {
	e := newEvent(evFrame)
	e.conn, e.buf = c, b
	s.post(e, here)
}

// Drained implements engine.Peer.
func (s *Session) Drained(c engine.Conn) {
	e := newEvent(evDrained)
	e.conn = c
	s.post(e, elsewhere)
}

// Closed implements engine.Peer.
func (s *Session) Closed(c engine.Conn, err error) {
	e := newEvent(evClosed)
	e.conn, e.err = c, err
	s.post(e, elsewhere)
}

// handle is the life of a device on one screen.
func (s *Session) handle(e *event, now time.Time) {
	defer s.recover()
	switch e.kind {
	case evHello:
		s.hello(e, now)
	case evFrame:
		if e.conn == s.conn { // what a replaced connection still sends is ignored (spec 4)
			s.frame(e.buf, now)
		}
	case evDrained:
		if e.conn == s.conn {
			s.sendState()
			s.resume(now)
		}
	case evClosed:
		if e.conn == s.conn {
			s.detach(now)
		}
	case evDeadline:
		s.deadline(now)
	case evEmit, evTurnEnd:
		s.answer(e, now)
	case evConfirm:
		s.confirmed(e.card, e.err, now)
	case evDeliver:
		s.take(e.delivery, now)
	case evDelivered:
		if e.conn == s.conn {
			s.outcome(e.delivery, e.fault, now)
		}
	case evTurnSlot:
		s.ask()
	case evEvict:
		s.evict()
	case evShutdown:
		s.shutdown()
	}
	s.settle()
}

// recover keeps a panic from ending more than one connection.
func (s *Session) recover() {
	if r := recover(); r != nil {
		s.hub.panicked("a panic ended one connection", r)
		if s.conn != nil {
			s.conn.Close(s.hub.farewells.overloaded) // come again
		}
		defer func() {
			if r := recover(); r != nil {
				s.hub.panicked("a panic while a device was let go", r)
				s.work = nil
			}
		}()
		s.disown() // or what panicked would be tried again and again
	}
}

// turnFailed counts a failed turn, and tells the operator why, once a second at most. An agent's errors hold nothing that a
// device sent.
func (h *Hub) turnFailed(err error, now time.Time) {
	h.stats.failed.Add(1)
	h.failures.Lock()
	defer h.failures.Unlock()
	if !errors.Is(err, context.Canceled) && !h.failures.over(1, 1, h.second(now)) {
		h.cfg.Log.Warn("a turn failed", "error", err)
	}
}

// panicked counts and logs a panic, without its text, which may hold what a device sent.
func (h *Hub) panicked(what string, r any) {
	h.stats.panics.Add(1)
	h.cfg.Log.Error(what, "type", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
}

var ins = sync.Pool{New: func() any { return new(codec.In) }}

// frame handles one frame of the device.
func (s *Session) frame(b *engine.Buffer, now time.Time) {
	in := ins.Get().(*codec.In)
	defer func() {
		in.Reset() // it must not keep the buffer alive
		ins.Put(in)
	}()
	s.hub.stats.frames.Add(1)
	if wait := s.charge(len(b.B), now); wait > 0 {
		codec.Decode(b.B, in) // for the id
		s.limited(in.ID, wait+restOf(&s.hub.quota.Device, in.Parts, len(b.B)), now)
		return
	}
	if fault := codec.Decode(b.B, in); fault != nil {
		s.fault(fault, in.ID, now)
		return
	}
	switch in.Kind {
	case codec.Text:
		s.text(in, now)
	case codec.Ping:
		s.sendPong(in.TS)
	case codec.Typing:
		s.typing(now)
	case codec.Ack:
	case codec.Prompt:
		s.prompt(in, now)
	case codec.Audio:
		s.audio(in, now)
	case codec.Media:
		s.media(in, now)
	case codec.Deliver:
		s.deliver(in, now)
	case codec.Hello:
		s.fault(errSecondHello, in.ID, now)
	default:
		s.hub.stats.unknown.Add(1)
		s.hub.cfg.Log.Debug("a frame of unknown type is ignored")
	}
}

var errSecondHello = &codec.Fault{Code: codec.BadFrame, Message: "This connection has said hello already."}

// typing: the user writes, so a running pause of the avatar begins anew.
func (s *Session) typing(now time.Time) {
	if s.pause != 0 {
		s.pauseFrom(s.hub.since(now), now)
	}
}

// charge takes a frame from what the device, its token and its address may send; wait is how long until there is room.
func (s *Session) charge(bytes int, now time.Time) (wait time.Duration) {
	h, at := s.hub, s.hub.since(now)
	if h.cfg.QuotaOff {
		return 0
	}
	if wait = s.remember(now).charge(&h.quota.Device, bytes, at); wait == 0 {
		wait = h.tokens[s.owner].charge(&h.quota.Token, bytes, at)
	}
	if wait == 0 && s.address != nil {
		if wait = s.address.charge(&h.quota.Address, bytes, at); wait > 0 && !s.address.counts(s.conn) {
			wait = 0
		}
	}
	return wait
}

// remember returns the device's recent past, and sees to it that it is forgotten in time.
func (s *Session) remember(now time.Time) *recent {
	if s.recent == nil {
		s.recent = new(recent)
		s.hub.wheel.SetEarlier(s, now.Add(codec.DedupWindow))
	}
	return s.recent
}

// fault answers a frame with its error. Who sends errors without end is not answered for ever (spec 2).
func (s *Session) fault(f *codec.Fault, id string, now time.Time) {
	s.sendError(&codec.ErrorFrame{Code: f.Code, Message: f.Message, ID: id})
	s.tooMany(now)
}

func (s *Session) limited(id string, wait time.Duration, now time.Time) {
	s.sendError(&codec.ErrorFrame{Code: codec.RateLimited, Message: "This device sends more than its share; try again later.", ID: id, RetryAfter: wait})
	s.tooMany(now)
}

func (s *Session) tooMany(now time.Time) {
	s.hub.stats.errors.Add(1)
	if !s.hub.cfg.QuotaOff && s.remember(now).errors.over(uint16(s.hub.quota.ErrorsASecond), 1, s.hub.second(now)) {
		s.flush()
		s.conn.Close(s.hub.farewells.overloaded)
	}
}

// deadline does what is due and arms the timer for the next.
func (s *Session) deadline(now time.Time) {
	at := s.hub.since(now)
	if s.pause != 0 && s.pause <= at {
		s.pause = 0
		s.show(idle)
	}
	if s.work != nil {
		s.work.deadline(s, now)
	}
	if s.recent != nil && s.recent.over(at, s.hub.second(now)) {
		s.recent = nil
	}
	s.arm(now)
}

// arm sets the timer to the earliest deadline. Deadlines that moved later in the meantime are found this way: moving them
// costs nothing.
func (s *Session) arm(now time.Time) {
	if s.pause != 0 {
		s.hub.wheel.SetEarlier(s, s.hub.start.Add(s.pause))
	}
	if s.work != nil {
		s.work.arm(s, now)
	}
	if s.recent != nil {
		s.hub.wheel.SetEarlier(s, now.Add(s.recent.left(s.hub.second(now))))
	}
}

// evict forgets an offline device, the oldest of too many, and all that it has under way.
func (s *Session) evict() {
	if s.conn == nil {
		s.disown()
	}
}

// shutdown says good-bye; what the agent still says is said to nobody.
func (s *Session) shutdown() {
	if s.work != nil {
		s.cancelTurns()
	}
	if s.conn != nil {
		s.flush()
		s.conn.Close(s.hub.farewells.goingAway)
		s.detach(s.hub.cfg.Now())
	}
}

// finished takes the session out of the registry when there is nothing left of it; the worker then never comes back.
func (s *Session) finished() bool {
	return s.conn == nil && s.work == nil && s.recent == nil && s.orphans == 0 && s.hub.forget(s)
}

var _ engine.Peer = (*Session)(nil)
