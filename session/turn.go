package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"mobilegate/agent"
	"mobilegate/codec"
	"mobilegate/media"
)

// Bounds of one device's turns.
const (
	maxWaiting      = 4096     // turns that wait behind the running one
	maxWaitingBytes = 32 << 20 // of their texts and files
	maxEmitted      = 16       // events of a turn that the device has not taken; then emit blocks
)

// turn is one question to the agent.
type turn struct {
	agent.Turn
	session *Session
	key     messageKey
	file    *media.File     // Turn.File's content; the turn's
	waits   bool            // it took of the budget for that
	asked   bool            // a slot was asked for; the agent was, once ctx is set
	ctx     context.Context // nil until the agent was asked
	cancel  context.CancelCauseFunc
	room    chan struct{} // one for every emitted event that is not told yet; made by the first
	slot    slotState

	// Owned by the session's worker.
	spoke   bool          // the avatar speaks, on this connection
	replied bool          // some of the reply went out
	stopped bool          // its user said so
	last    time.Duration // when its last message was sent
}

// text is a message for the agent (spec 5): it becomes a turn, or the answer to a card that waits for one.
func (s *Session) text(in *codec.In, now time.Time) {
	key := keyOf(in.ID)
	if s.knows(key, now) {
		return
	}
	if s.stops(in.Text) {
		s.stop(in, key, now)
		return
	}
	if c := s.listening(); c != nil {
		s.recent.add(key, s.hub.second(now))
		s.settleCard(c, agent.Answer{Option: other, Text: strings.Clone(in.Text)}, now)
		return
	}
	s.accept(agent.Turn{Text: in.Text}, nil, in.ID, key, now)
}

// knows tells whether the device used the id within the window.
func (s *Session) knows(key messageKey, now time.Time) bool {
	r := s.remember(now)
	r.expire(s.hub.second(now))
	return r.has(key)
}

// accept makes a turn of a message whose strings borrow from its frame, unless too many wait; file becomes the turn's.
func (s *Session) accept(ask agent.Turn, file *media.File, id string, key messageKey, now time.Time) {
	w := s.toDo()
	size := len(ask.Text)
	if file != nil {
		size += file.Size()
	}
	if len(w.waiting) >= maxWaiting || w.bytes+size > maxWaitingBytes {
		if file != nil {
			file.Release()
		}
		s.limited(id, time.Second, now)
		return
	}
	s.recent.add(key, s.hub.second(now))
	t := turnPool.Get().(*turn)
	t.session, t.key, t.file = s, key, file
	t.Turn = ask
	t.ID, t.Owner = id, agent.Owner{Device: s.id, Entry: s.hub.cfg.Access.Tokens[s.owner].Name}
	if s.user != nil {
		t.User = *s.user
	}
	if w.running == nil && len(w.waiting) == 0 && s.instant(t, now) {
		return
	}
	if w.running == nil && s.hub.slots.crowded() || !s.hub.texts.Take(t.weight()) {
		s.recent.remove(key)
		t.free()
		s.busy(id, now)
		return
	}
	t.waits = true
	t.keep()
	if t.Ended {
		w.waiting = slices.Insert(w.waiting, 0, t)
	} else {
		w.waiting = append(w.waiting, t)
	}
	w.bytes += size
	if w.running == nil {
		s.nextTurn(now)
	}
}

// turnWeight is what a turn that waits costs beside its text.
const turnWeight = 256

// weight is what t takes of the budget of all devices while it waits; its file is counted already.
func (t *turn) weight() int { return turnWeight + len(t.ID) + len(t.Text) }

// instant lets the agent answer t here and now, if it can; t still borrows from the frame.
func (s *Session) instant(t *turn, now time.Time) bool {
	reply, ok := t.instant()
	if !ok {
		return false
	}
	if len(reply) > codec.DefaultChunkLimit {
		reply = strings.Clone(reply) // its parts would borrow from the frame
	}
	s.begins(t)
	s.work.said = append(s.work.said, said{Event: agent.Event{Text: reply}, turn: t, end: true})
	s.resume(now)
	if w := s.work; w.running == t { // it has to wait, and the frame will be gone
		t.keep()
		last := &w.said[len(w.said)-1]
		last.Text = strings.Clone(last.Text)
	}
	return true
}

func (t *turn) instant() (reply string, ok bool) {
	h := t.session.hub
	if h.instant == nil || t.File != nil || h.draining.Load() {
		return "", false
	}
	defer func() {
		if r := recover(); r != nil {
			h.panicked("the agent panicked", r)
			reply, ok = "", false // Ask says what becomes of the turn
		}
	}()
	return h.instant.Instant(&t.Turn)
}

// keep lets t outlive the frame that it came with.
func (t *turn) keep() {
	t.ID, t.Text = strings.Clone(t.ID), strings.Clone(t.Text)
}

func (t *turn) size() int {
	if t.file != nil {
		return len(t.Text) + t.file.Size()
	}
	return len(t.Text)
}

var turnPool = sync.Pool{New: func() any { return new(turn) }}

// counted gives back what t took while it waited.
func (t *turn) counted() {
	if t.waits {
		t.waits = false
		t.session.hub.texts.Give(t.weight())
	}
}

// nextTurn begins the first of the turns that wait. What it has to say already, resume tells.
func (s *Session) nextTurn(now time.Time) {
	w := s.work
	if s.hub.draining.Load() {
		return
	}
	t := w.waiting[0]
	w.waiting[0] = nil
	if w.waiting = w.waiting[1:]; len(w.waiting) == 0 {
		w.waiting = nil
	}
	w.bytes -= t.size()
	s.begins(t)
	if t.Ended { // nobody shall wait for a slot to be told that the turn was stopped
		if reply, ok := t.instant(); ok {
			w.said = append(w.said, said{Event: agent.Event{Text: reply}, turn: t, end: true})
			return
		}
	}
	t.asked = true
	if s.hub.slots.take(s) {
		s.ask()
	}
}

// begins shows that a turn runs.
func (s *Session) begins(t *turn) {
	s.work.running = t
	s.pause = 0
	s.hub.stats.turns.Add(1)
	s.show(thinking)
	s.setTyping(true)
}

// ask puts the running turn to the agent. The session holds a slot for it.
func (s *Session) ask() {
	var t *turn
	if s.work != nil {
		t = s.work.running
	}
	if t == nil || !t.asked || t.ctx != nil || s.hub.draining.Load() {
		s.hub.slots.release() // the turn that waited for the slot is no more
		return
	}
	t.counted()
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	t.slot.Store(slotHeld)
	go t.run()
}

// run is the goroutine of a turn: only turns that run have one.
func (t *turn) run() {
	s, e := t.session, newEvent(evTurnEnd)
	e.turn = t
	e.said.Text, e.err = t.answer()
	t.cancel(nil)
	held := t.slot.end(&s.hub.slots)
	s.post(e, here) // t is the worker's from now on
	if held {
		s.hub.slots.release()
	}
}

var errPanic = errors.New("the agent panicked")

func (t *turn) answer() (reply string, err error) {
	h := t.session.hub
	defer func() {
		if r := recover(); r != nil {
			h.panicked("the agent panicked", r)
			err = errPanic
		}
	}()
	return h.cfg.Agent.Ask(t.ctx, &t.Turn, t.emit)
}

// emit is what the agent is given; see agent.Agent.
func (t *turn) emit(ev agent.Event) {
	if t.room == nil {
		t.room = make(chan struct{}, maxEmitted)
	}
	select {
	case t.room <- struct{}{}:
	case <-t.ctx.Done():
		return
	}
	e := newEvent(evEmit)
	e.turn, e.said = t, ev
	t.session.post(e, here)
}

// answer takes what the agent said.
func (s *Session) answer(e *event, now time.Time) {
	if s.work == nil || s.work.running != e.turn {
		if e.kind == evTurnEnd {
			s.orphans--
			e.turn.free() // it was taken away from the device
		}
		return
	}
	s.work.said = append(s.work.said, said{Event: e.said, turn: e.turn, end: e.kind == evTurnEnd, err: e.err})
	s.resume(now)
}

// endTurn: the turn is over, and its reply is out (spec 7).
func (s *Session) endTurn(t *turn, err error, now time.Time) {
	w := s.work
	s.dropCards(t)
	if t.stopped {
		err = nil
	}
	if err != nil {
		s.hub.turnFailed(err, now)
		s.sendError(&codec.ErrorFrame{Code: codec.InternalError, Message: whatFailed(err), ID: t.ID})
		if !t.replied && s.recent != nil {
			s.recent.remove(t.key) // the application's repeat is tried again (spec 5)
		}
	}
	s.setTyping(false)
	last := t.last
	w.running = nil
	if err != nil || last == 0 {
		s.show(idle)
	}
	t.free()
	if len(w.waiting) > 0 {
		s.nextTurn(now)
	} else if s.state.avatar != idle {
		s.pauseFrom(last, now)
	}
}

// whatFailed is what the device is told of a turn's error.
func whatFailed(err error) string {
	var f *agent.Failure
	if errors.As(err, &f) {
		return f.Tell
	}
	return "The agent could not answer this message."
}

// stops tells whether text is a command that ends the running turn.
func (s *Session) stops(text string) bool {
	return s.hub.stopper != nil && s.work != nil && s.work.running != nil && s.hub.stopper.Stops(text)
}

// stop ends the running turn, and lets the agent answer the command that says so before all that waits.
func (s *Session) stop(in *codec.In, key messageKey, now time.Time) {
	t := s.work.running
	unasked := t.asked && t.ctx == nil // it stands in line for a slot
	t.stopped = unasked || t.ctx != nil && t.slot.Load() != slotEnded
	if t.stopped && !unasked {
		t.cancel(agent.ErrStopped)
	}
	s.accept(agent.Turn{Text: in.Text, Ended: true}, nil, in.ID, key, now)
	if unasked {
		s.hub.slots.leave(s)
		s.endTurn(t, nil, now)
		s.resume(now)
	}
}

// free ends the life of a turn that no goroutine has any more.
func (t *turn) free() {
	t.counted()
	if t.file != nil {
		t.file.Release()
	}
	*t = turn{}
	turnPool.Put(t)
}

// showTurn tells a new connection that a turn runs, and what a streamed message says so far.
func (s *Session) showTurn(now time.Time) {
	if s.work.running == nil {
		return
	}
	s.work.running.spoke = false
	s.show(thinking)
	s.setTyping(true)
	s.work.stream.show(s, now)
}

// cancelTurns ends the running turn and lets those that wait go.
func (s *Session) cancelTurns() {
	w := s.work
	for _, t := range w.waiting {
		t.free()
	}
	w.waiting, w.bytes = nil, 0
	t := w.running
	if t == nil {
		return
	}
	s.dropCards(t)
	switch {
	case t.ctx != nil:
		t.cancel(nil) // its goroutine brings it back
	case t.asked:
		s.hub.slots.leave(s)
		w.running = nil
		t.free()
	}
}
