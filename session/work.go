package session

import (
	"sync"
	"time"

	"mobilegate/codec"
	"mobilegate/media"
)

// work is all that a session has under way. It exists only while there is something: a device at rest has none.
type work struct {
	running *turn
	waiting []*turn
	bytes   int // of the texts and files that wait

	said   []said // what is to be told to the device, first things first
	stream stream // the streamed message that is open
	mid    bool   // a frame went out in part: until it is whole no other may

	cards   []*card // open, answering, or waiting for a text; oldest first
	uploads media.Uploads
	suitor  *event // a hello that waits until the silent link is known to be dead
}

var works = sync.Pool{New: func() any { return new(work) }}

// toDo returns the session's work, which is made if there is none.
func (s *Session) toDo() *work {
	if s.work == nil {
		s.work = works.Get().(*work)
	}
	return s.work
}

// settle lets go of the work when all of it is done.
func (s *Session) settle() {
	w := s.work
	if w == nil || w.running != nil || len(w.waiting) > 0 || len(w.said) > 0 || len(w.cards) > 0 || !w.uploads.Empty() || w.suitor != nil {
		return
	}
	s.work = nil
	*w = work{said: w.said[:0]}
	works.Put(w)
}

// deadline does what is due; arm says when the next thing is.
func (w *work) deadline(s *Session, now time.Time) {
	at := s.hub.since(now)
	if w.stream.due != 0 && w.stream.due <= at {
		w.stream.edit(s, now)
	}
	for _, id := range w.uploads.Expire(at) {
		s.fault(errUploadIdle, id, now)
	}
	s.expireCards(now)
	if w.suitor != nil {
		s.judge(now)
	}
}

func (w *work) arm(s *Session, now time.Time) {
	at := func(d time.Duration) { s.hub.wheel.SetEarlier(s, s.hub.start.Add(d)) }
	if w.stream.due != 0 {
		at(w.stream.due)
	}
	if d, ok := w.uploads.Next(); ok {
		at(d)
	}
	for _, c := range w.cards {
		if c.state != cardAnswering {
			at(c.due)
		}
	}
	if w.suitor != nil {
		s.hub.wheel.SetEarlier(s, now.Add(suitorLook))
	}
}

var errUploadIdle = &codec.Fault{Code: codec.BadFrame, Message: "The upload had no new chunk for 120 seconds and is dropped."}
