package session

import (
	"time"

	"mobilegate/agent"
	"mobilegate/codec"
)

// said is one thing that is to be told to the device, and how far it was: something that the agent said in a turn, or a
// delivery.
type said struct {
	agent.Event
	turn     *turn     // nil for a delivery
	end      bool      // the turn is over; Text is the reply that ends it
	err      error     // why it failed
	delivery *delivery // nil for what the agent said

	id    string   // of the message that Text is told in
	parts []string // of Text, a frame each
	told  int      // frames that were sent
	file  *outgoing
}

// rewind lets what was told in part be told from its beginning, on another connection.
func (what *said) rewind() {
	what.told = 0
	if what.file != nil {
		what.file.rewind()
	}
}

// resume tells the device what is to be told, as far as the device takes it. What cannot be told because nobody listens
// is lost (spec 10).
func (s *Session) resume(now time.Time) {
	for w := s.work; w != nil && len(w.said) > 0 && s.room(); {
		what := w.said[0] // a copy: telling may append to w.said
		done := s.tell(&what, now)
		if !done {
			w.said[0] = what
			return
		}
		copy(w.said, w.said[1:]) // few: an agent that is ahead of its device has to wait
		w.said[len(w.said)-1] = said{}
		w.said = w.said[:len(w.said)-1]
		switch {
		case what.delivery != nil:
			if what.end {
				s.delivered(what.delivery)
			}
		case what.end:
			s.endTurn(what.turn, what.err, now)
		default:
			<-what.turn.room
		}
	}
}

// tell says one thing; it answers false when the device had no room for all of it.
func (s *Session) tell(what *said, now time.Time) bool {
	stream := &s.work.stream
	switch what.Kind {
	case agent.Delta:
		stream.add(s, what.Text, now)
		return true
	case agent.ShowCard:
		s.showCard(what.turn, what.Card, now)
		return true
	case agent.SendFile:
		return s.tellFile(what, now)
	}
	if what.id == "" && what.turn != nil {
		stream.finish(s, now)
	}
	return what.err != nil || s.tellText(what, now)
}

// tellText sends a text in as many frames as it takes.
func (s *Session) tellText(what *said, now time.Time) bool {
	if what.Text == "" {
		return true
	}
	if len(what.Text) <= codec.DefaultChunkLimit {
		s.sendMessage(&codec.Message{ID: s.hub.names.next(), Text: what.Text, Total: 1, Final: true}, what.turn, now)
		return true
	}
	if what.id == "" {
		what.id = s.hub.names.next()
		what.parts = cutAll(nil, what.Text, codec.DefaultChunkLimit)
	}
	for total := len(what.parts); what.told < total; what.told++ {
		if !s.room() {
			return false
		}
		s.sendMessage(&codec.Message{ID: what.id, Text: what.parts[what.told], Index: what.told, Total: total, Final: what.told == total-1}, what.turn, now)
	}
	return true
}
