package session

import (
	"strings"
	"time"
	"unicode/utf8"

	"mobilegate/codec"
)

// stream is a message that grows under the eyes of the user (spec 7): a first frame, then edits that carry the whole text
// so far, paced; the last is final. The zero value is no message.
type stream struct {
	id    string
	text  strings.Builder // the running message so far
	chars int             // of text
	told  int             // bytes of text that were shown at last
	shown bool            // its first frame went out, on this connection
	last  time.Duration   // when the last frame did
	due   time.Duration   // when the next edit may; 0: none waits
}

// add lets the message grow. When it outgrows a frame, it is finished at a cut and goes on as a new one.
func (st *stream) add(s *Session, piece string, now time.Time) {
	if piece == "" {
		return
	}
	if st.id == "" {
		st.id = s.hub.names.next()
	}
	st.text.WriteString(piece)
	st.chars += utf8.RuneCountInString(piece)
	for st.chars > codec.DefaultChunkLimit {
		text := st.text.String()
		n := cut(text, codec.DefaultChunkLimit)
		s.sendMessage(st.frame(text[:n], true), s.work.running, now)
		*st = stream{id: s.hub.names.next()}
		st.text.WriteString(text[n:])
		st.chars = utf8.RuneCountInString(text[n:])
	}
	at := s.hub.since(now)
	if !st.shown || at-st.last >= codec.EditInterval {
		st.edit(s, now)
	} else if st.due == 0 {
		st.due = st.last + codec.EditInterval
		s.hub.wheel.SetEarlier(s, s.hub.start.Add(st.due))
	}
}

// finish sends the last frame, which is never held back.
func (st *stream) finish(s *Session, now time.Time) {
	if st.id != "" {
		s.sendMessage(st.frame(st.text.String(), true), s.work.running, now)
		*st = stream{}
	}
}

// show begins the message anew for a new connection, with all that was shown.
func (st *stream) show(s *Session, now time.Time) {
	if st.shown = false; st.id != "" {
		st.edit(s, now)
	}
}

// edit shows the text so far, if it is more than was shown.
func (st *stream) edit(s *Session, now time.Time) {
	st.due = 0
	if !s.room() { // an edit that nobody takes is superseded by the next
		st.due = s.hub.since(now) + codec.EditInterval
		s.hub.wheel.SetEarlier(s, s.hub.start.Add(st.due))
		return
	}
	text := st.text.String()
	n := max(settled(text, st.chars, codec.DefaultChunkLimit), st.told)
	if n == st.told && st.shown {
		return
	}
	s.sendMessage(st.frame(text[:n], false), s.work.running, now)
	st.told, st.shown, st.last = n, s.conn != nil, s.hub.since(now)
}

func (st *stream) frame(text string, final bool) *codec.Message {
	return &codec.Message{ID: st.id, Text: text, Total: 1, Final: final, Edit: st.shown}
}
