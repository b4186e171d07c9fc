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
)

// Bounds of one device's turns.
const (
	maxWaiting      = 4096     // turns that wait behind the running one
	maxWaitingBytes = 32 << 20 // of their texts
	maxEmitted      = 16       // events of a turn that the device has not taken; then emit blocks
)

// turns are what a session has to do with the agent. They exist only while a turn runs or waits.
type turns struct {
	running *turn
	waiting []*turn
	bytes   int    // of the texts that wait
	said    []said // what the running turn said and the device has not been told
	stream  stream // the streamed message that is open
}

// turn is one question to the agent.
type turn struct {
	agent.Turn
	session *Session
	key     messageKey
	slot    bool            // it has a slot, or stands in line for one
	ctx     context.Context // nil until the agent was asked
	cancel  context.CancelFunc
	room    chan struct{} // one for every emitted event that is not told yet; made by the first

	// Owned by the session's worker.
	spoke   bool          // the avatar speaks, on this connection
	replied bool          // some of the reply went out
	last    time.Duration // when its last message was sent
}

// said is one thing that the agent said, and how far it was told.
type said struct {
	agent.Event
	end   bool // the turn is over; Text is the reply that ends it
	err   error
	id    string // of the message that Text is told in
	told  int    // frames of it; Text is what is left
	total int    // frames of all of it
}

// text is a message for the agent (spec 5): it becomes a turn.
func (s *Session) text(in *codec.In, now time.Time) {
	r, second, key := s.remember(now), s.hub.second(now), keyOf(in.ID)
	r.expire(second)
	if r.has(key) {
		return
	}
	ts := s.turns
	if ts == nil {
		ts = newTurns()
	} else if len(ts.waiting) >= maxWaiting || ts.bytes+len(in.Text) > maxWaitingBytes {
		s.limited(in.ID, time.Second, now)
		return
	}
	r.add(key, second)
	s.turns = ts
	t := newTurn(s, key, in)
	if ts.running == nil && len(ts.waiting) == 0 && s.instant(t, now) {
		return
	}
	t.keep()
	ts.waiting = append(ts.waiting, t)
	ts.bytes += len(t.Text)
	if ts.running == nil {
		s.nextTurn(now)
	}
}

// instant lets the agent answer t here and now, if it can; t still borrows from the frame.
func (s *Session) instant(t *turn, now time.Time) bool {
	reply, ok := t.instant()
	if !ok {
		return false
	}
	ts := s.turns
	s.begins(t)
	if len(reply) > codec.DefaultChunkLimit || !s.room() {
		t.keep() // it may have to wait
		reply = strings.Clone(reply)
	}
	ts.said = append(ts.said, said{Event: agent.Event{Text: reply}, end: true})
	s.resume(now)
	return true
}

func (t *turn) instant() (reply string, ok bool) {
	h := t.session.hub
	if h.instant == nil || h.draining.Load() {
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

var (
	turnsPool = sync.Pool{New: func() any { return new(turns) }}
	turnPool  = sync.Pool{New: func() any { return new(turn) }}
)

func newTurns() *turns { return turnsPool.Get().(*turns) }

func newTurn(s *Session, key messageKey, in *codec.In) *turn {
	t := turnPool.Get().(*turn)
	t.session, t.key = s, key
	t.Turn = agent.Turn{Device: s.id, ID: in.ID, Text: in.Text}
	return t
}

// nextTurn begins the first of the turns that wait.
func (s *Session) nextTurn(now time.Time) {
	ts := s.turns
	if s.hub.draining.Load() {
		return
	}
	t := ts.waiting[0]
	ts.waiting[0] = nil
	if ts.waiting = ts.waiting[1:]; len(ts.waiting) == 0 {
		ts.waiting = nil
	}
	ts.bytes -= len(t.Text)
	s.begins(t)
	t.slot = true
	if s.hub.slots.take(s) {
		s.ask()
	}
}

// begins shows that a turn runs.
func (s *Session) begins(t *turn) {
	s.turns.running = t
	s.pause = 0
	s.hub.stats.turns.Add(1)
	s.show(thinking)
	s.sendTyping(false)
}

// ask puts the running turn to the agent. The session holds a slot for it.
func (s *Session) ask() {
	var t *turn
	if s.turns != nil {
		t = s.turns.running
	}
	if t == nil || !t.slot || t.ctx != nil || s.hub.draining.Load() {
		s.hub.slots.release() // the turn that waited for the slot is no more
		return
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	go t.run()
}

// run is the goroutine of a turn: only turns that run have one.
func (t *turn) run() {
	s, e := t.session, newEvent(evTurnEnd)
	e.turn = t
	e.said.Text, e.err = t.answer()
	t.cancel()
	s.post(e, onTurn) // t is the worker's from now on
	s.hub.slots.release()
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
	t.session.post(e, onTurn)
}

// answer takes what the agent said.
func (s *Session) answer(e *event, now time.Time) {
	if s.turns == nil || s.turns.running != e.turn {
		return // the turn was taken away from the device
	}
	s.turns.said = append(s.turns.said, said{Event: e.said, end: e.kind == evTurnEnd, err: e.err})
	s.resume(now)
}

// resume tells the device what the agent said, as far as the device takes it.
func (s *Session) resume(now time.Time) {
	for ts := s.turns; ts != nil && len(ts.said) > 0 && s.room(); ts = s.turns {
		what, t := &ts.said[0], ts.running
		if !s.tell(what, now) {
			return
		}
		end, err := what.end, what.err
		copy(ts.said, ts.said[1:]) // few: an agent that is ahead of its device has to wait
		ts.said[len(ts.said)-1] = said{}
		ts.said = ts.said[:len(ts.said)-1]
		if end {
			s.endTurn(t, err, now)
		} else {
			<-t.room
		}
	}
}

// tell says one thing; it answers false when the device had no room for all of it.
func (s *Session) tell(what *said, now time.Time) bool {
	stream := &s.turns.stream
	switch {
	case what.Kind == agent.Delta:
		stream.add(s, what.Text, now)
		return true
	case what.id == "":
		stream.finish(s, now)
	}
	if what.Text == "" || what.err != nil {
		return true
	}
	if what.id == "" {
		what.id = s.hub.names.next()
		what.total = countParts(what.Text, codec.DefaultChunkLimit)
	}
	for what.Text != "" {
		if !s.room() {
			return false
		}
		n := cut(what.Text, codec.DefaultChunkLimit)
		s.sendMessage(&codec.Message{ID: what.id, Text: what.Text[:n], Index: what.told, Total: what.total, Final: n == len(what.Text)}, now)
		what.Text = what.Text[n:]
		what.told++
	}
	return true
}

// countParts is how many frames a text takes (chunk.total).
func countParts(text string, limit int) (n int) {
	for ; text != ""; n++ {
		text = text[cut(text, limit):]
	}
	return n
}

// endTurn: the turn is over, and its reply is out (spec 7).
func (s *Session) endTurn(t *turn, err error, now time.Time) {
	if err != nil {
		s.hub.stats.failed.Add(1)
		s.sendError(&codec.ErrorFrame{Code: codec.InternalError, Message: "The agent could not answer this message.", ID: t.ID})
		if !t.replied && s.recent != nil {
			s.recent.remove(t.key) // the application's repeat is tried again (spec 5)
		}
	}
	s.sendTyping(true)
	ts, last := s.turns, t.last
	ts.running = nil
	if err != nil || last == 0 {
		s.show(idle)
	}
	*t = turn{}
	turnPool.Put(t)
	if len(ts.waiting) > 0 {
		s.nextTurn(now)
		return
	}
	s.turns = nil
	*ts = turns{said: ts.said[:0]}
	turnsPool.Put(ts)
	if s.avatar != idle {
		s.pauseFrom(last, now)
	}
}

// show tells a new connection that a turn runs, and what a streamed message says so far.
func (ts *turns) show(s *Session, now time.Time) {
	if ts.running == nil {
		return
	}
	ts.running.spoke = false
	s.show(thinking)
	s.sendTyping(false)
	ts.stream.show(s, now)
}

func (ts *turns) deadline(s *Session, now time.Time) {
	if ts.stream.due != 0 && ts.stream.due <= s.hub.since(now) {
		ts.stream.edit(s, now)
	}
}

// cancel ends the running turn and lets those that wait go.
func (ts *turns) cancel() {
	if t := ts.running; t != nil && t.cancel != nil {
		t.cancel()
	}
	ts.waiting = nil
}

// slots bounds how many turns run at a time over all devices. Sessions that find none wait in line.
type slots struct {
	mu      sync.Mutex
	free    int
	running int
	line    []*Session
	quiet   []chan struct{} // closed when nothing runs
}

// take takes a slot, or puts s in line for one: evTurnSlot then brings it.
func (l *slots) take(s *Session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free == 0 {
		l.line = append(l.line, s)
		return false
	}
	l.free--
	l.running++
	return true
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
	if len(l.line) > 0 {
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
