package openai

import (
	"context"
	"strings"

	"mobilegate/agent"
)

// maxAnswer is what one answer may hold, in bytes of its text.
const maxAnswer = 1 << 20

// turn puts a question to the model and tells its answer as it comes. What was said goes into the history, also when the
// answer was stopped or broke off: the user has seen it.
func (a *Agent) turn(ctx context.Context, t *agent.Turn, emit func(agent.Event)) (reply string, err error) {
	if a.holdsFile(t) {
		if err := take(ctx, a.files); err != nil {
			return "", err
		}
		defer give(a.files)
	}
	q, reply, err := a.question(ctx, t)
	if err != nil || reply != "" {
		return reply, err
	}
	s, err := a.open(ctx, a.request(t.Owner, q))
	if err != nil {
		if stopped(ctx) {
			a.keep(t.Owner, q, "")
		}
		return "", err
	}
	defer s.close()
	said, err := s.tell(emit)
	a.service.Used(s.usage.Prompt, s.usage.Completion)
	if err != nil && ctx.Err() == nil {
		a.service.Failed()
	}
	if err == nil && said == "" {
		return "", errEmpty
	}
	a.keep(t.Owner, q, said)
	if err != nil {
		return "", err
	}
	note := notes[s.finish]
	if s.whole && note == "" {
		return said, nil
	}
	if s.whole {
		emit(agent.Event{Text: said})
	}
	return note, nil
}

// notes are said after an answer that is not all that the model had to say.
var notes = map[string]string{
	"length":         "The answer was cut off here: it has reached the longest length that is allowed.",
	"content_filter": "The answer was ended here by the content filter of the model's service.",
}

// take waits for one of a number of places.
func take(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func give(places chan struct{}) { <-places }

// stopped tells whether the user ended the turn.
func stopped(ctx context.Context) bool { return context.Cause(ctx) == agent.ErrStopped }

// tell passes an answer on as it comes, unless it came whole, and returns what it said.
func (s *stream) tell(emit func(agent.Event)) (said string, err error) {
	if s.whole {
		return s.first, nil
	}
	var all strings.Builder
	for piece := s.first; piece != ""; {
		if all.Len()+len(piece) > maxAnswer {
			return all.String(), errLong
		}
		all.WriteString(piece)
		emit(agent.Event{Kind: agent.Delta, Text: piece})
		if piece, err = s.next(); err != nil {
			break
		}
	}
	return all.String(), err
}

// keep puts what was asked and answered into the history. A failure to do so is no failure of the turn, whose answer is out.
func (a *Agent) keep(o agent.Owner, q *question, said string) {
	if said == "" {
		said = "(The user stopped this answer before it began.)" // some models want an answer to every question
	}
	if err := a.history.add(o, exchange{Question: q.text, Answer: strings.Clone(said)}); err != nil {
		a.service.Warn("a conversation was not kept", "err", err)
		return
	}
	a.pictures.update(o, func(p shown) shown {
		if q.image != "" {
			return shown{url: q.image}
		}
		if p.ago++; p.ago >= pictureTurns-1 {
			return shown{}
		}
		return p
	})
}
