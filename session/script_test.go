package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"mobilegate/agent"
	"mobilegate/internal/transcript"
)

// script is the agent of the transcripts: the echo agent, but that a text that begins with /hold makes it wait for what the
// transcript tells it to do.
type script struct {
	agent.Echo
	mu    sync.Mutex
	turns map[*agent.Turn]*scripted
	over  bool // the case is: nobody waits any more
}

// scripted is a turn that does what it is told.
type scripted struct {
	acts  chan transcript.Act
	waits bool
	cards []*scriptedCard
}

type scriptedCard struct {
	answers chan agent.Answer
	last    agent.Answer // heard, and not yet spoken of
}

var errRefused = errors.New("the secret reason of a refusal")

func newScript() *script { return &script{turns: map[*agent.Turn]*scripted{}} }

// Stops: /stop is the script's own command; the echo agent has none of this kind.
func (s *script) Stops(text string) bool { return text == "/stop" }

func (s *script) Instant(t *agent.Turn) (string, bool) {
	if s.Stops(t.Text) {
		return s.stopped(t), true
	}
	return s.Echo.Instant(t)
}

func (s *script) stopped(t *agent.Turn) string {
	if t.Ended {
		return "Stopped."
	}
	return "Nothing runs."
}

func (s *script) Ask(ctx context.Context, t *agent.Turn, emit func(agent.Event)) (string, error) {
	if !strings.HasPrefix(t.Text, "/hold") {
		return s.Echo.Ask(ctx, t, emit)
	}
	turn := &scripted{acts: make(chan transcript.Act, 1)}
	s.mu.Lock()
	s.turns[t] = turn
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.turns, t)
		s.mu.Unlock()
	}()
	for {
		act, err := s.next(ctx, turn)
		if err != nil {
			return "", err
		}
		switch act.Verb {
		case "streams":
			emit(agent.Event{Kind: agent.Delta, Text: act.Text})
		case "closes":
			emit(agent.Event{Kind: agent.End})
		case "says":
			emit(agent.Event{Kind: agent.Message, Text: act.Text})
		case "sends":
			emit(agent.Event{Kind: agent.SendFile, File: scriptedFile(act.Text)})
		case "asks":
			emit(agent.Event{Kind: agent.ShowCard, Card: s.card(turn, act.Text)})
		case "replies", "ends":
			return act.Text, nil
		case "fails":
			return "", fmt.Errorf("the secret reason")
		case "blames":
			return "", fmt.Errorf("secret: %w", &agent.Failure{Tell: act.Text, Err: errRefused})
		case "panics":
			panic("the secret panic")
		}
	}
}

// next waits for the next act.
func (s *script) next(ctx context.Context, turn *scripted) (transcript.Act, error) {
	s.mu.Lock()
	if s.over {
		turn.acts <- transcript.Act{Verb: "ends"}
	} else {
		turn.waits = true
	}
	s.mu.Unlock()
	select {
	case act := <-turn.acts:
		return act, nil
	case <-ctx.Done():
		return transcript.Act{}, ctx.Err()
	}
}

// scriptedFile and card panic on bad JSON: the turn then fails, and with it the transcript.
func scriptedFile(object string) *agent.File {
	var f struct {
		Kind, Mime, Name, Caption, URL string
		ReplyTo                        string `json:"reply_to"`
		Size                           int
	}
	if err := json.Unmarshal([]byte(object), &f); err != nil {
		panic(err)
	}
	return &agent.File{Kind: f.Kind, Mime: f.Mime, Name: f.Name, Caption: f.Caption, ReplyTo: f.ReplyTo, URL: f.URL, Size: f.Size,
		Open: func() (agent.Content, error) { return transcript.Content(f.Size), nil }}
}

func (s *script) card(turn *scripted, object string) *agent.Card {
	var c struct {
		Kind, Text, Command, Description, TTL string
		Choices                               []string
	}
	if err := json.Unmarshal([]byte(object), &c); err != nil {
		panic(err)
	}
	ttl, err := time.ParseDuration("0" + c.TTL)
	if err != nil {
		panic(err)
	}
	card := &agent.Card{Kind: c.Kind, Text: c.Text, Command: c.Command, Description: c.Description, Choices: c.Choices, TTL: ttl,
		Answers: make(chan agent.Answer, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	turn.cards = append(turn.cards, &scriptedCard{answers: card.Answers})
	return card
}

// act wakes the turn of the device, or is about its cards.
func (s *script) act(device string, act transcript.Act) ([]byte, error) {
	switch act.Verb {
	case transcript.Hears:
		return s.hears(device)
	case "confirms":
		return nil, s.confirm(device, act.Card, nil)
	case "refuses":
		return nil, s.confirm(device, act.Card, errRefused)
	case "outdates":
		return nil, s.confirm(device, act.Card, agent.ErrCardExpired)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := s.turn(device)
	if turn == nil || !turn.waits {
		return nil, fmt.Errorf("no turn of %s waits for the agent", device)
	}
	turn.waits = false
	turn.acts <- act
	return nil, nil
}

// turn needs s.mu.
func (s *script) turn(device string) *scripted {
	for t, turn := range s.turns {
		if t.Device == device {
			return turn
		}
	}
	return nil
}

// hears takes the next answer that came.
func (s *script) hears(device string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, turn := range s.turns {
		if device != "" && t.Device != device {
			continue
		}
		for i, c := range turn.cards {
			select {
			case c.last = <-c.answers:
				return json.Marshal(map[string]any{"card": i + 1, "option": c.last.Option, "text": c.last.Text, "expired": c.last.Expired})
			default:
			}
		}
	}
	return nil, nil
}

// confirm speaks of the answer to a card: the one with this number, or the only one that is not spoken of yet.
func (s *script) confirm(device string, card int, err error) error {
	s.mu.Lock()
	var say func(error)
	if turn := s.turn(device); turn != nil {
		for i, c := range turn.cards {
			if c.last.Confirm != nil && (card == 0 || card == i+1) {
				say, c.last = c.last.Confirm, agent.Answer{}
				break
			}
		}
	}
	s.mu.Unlock()
	if say == nil {
		return fmt.Errorf("the agent has no answer of %s to speak of", device)
	}
	say(err)
	return nil
}

// finish lets all turns end.
func (s *script) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, turn := range s.turns {
		if turn.waits {
			turn.waits = false
			turn.acts <- transcript.Act{Verb: "ends"}
		}
	}
}

// holds tells whether the turn waits to be told what to do.
func (s *script) holds(t *agent.Turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := s.turns[t]
	return turn != nil && turn.waits
}
