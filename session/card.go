package session

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mobilegate/agent"
	"mobilegate/codec"
)

// Bounds of one device's cards.
const (
	maxCards = 16 // open at a time
	maxLater = 32 // answers to one card that wait while the agent confirms the first
)

// card is a question to the user that is not settled (spec 8). It belongs to the device, not to a connection.
type card struct {
	id      string
	turn    *turn
	ask     *agent.Card
	options []codec.Option
	due     time.Duration // when it expires
	state   cardState
	shown   bool // on this connection

	// While the agent confirms an answer.
	answer agent.Answer
	was    cardState
	later  []choice // what else was answered meanwhile
}

type cardState uint8

const (
	cardOpen      cardState = iota
	cardAnswering           // the agent confirms; it does not expire
	cardListening           // closed with "other": the next text is the answer
)

// choice is what the user sent for a card.
type choice struct{ option, text string }

const other = "other"

// kinds of cards: the options in their order, and the one that counts where nothing valid was chosen.
var cardKinds = map[string]struct {
	options []codec.Option
	safe    string
}{
	agent.ExecApproval: {[]codec.Option{{ID: "once", Label: "Allow once", Style: "primary"}, {ID: "session", Label: "Allow for this session"},
		{ID: "always", Label: "Always allow"}, {ID: "deny", Label: "Deny", Style: "danger"}}, "deny"},
	agent.SlashConfirm: {[]codec.Option{{ID: "once", Label: "Yes, once", Style: "primary"}, {ID: "always", Label: "Yes, always"},
		{ID: "cancel", Label: "Cancel", Style: "danger"}}, "cancel"},
	agent.Clarify: {[]codec.Option{{ID: other, Label: "Other"}}, other},
}

func (c *card) safe() string { return cardKinds[c.ask.Kind].safe }

func cardOptions(ask *agent.Card) (options []codec.Option) {
	known := cardKinds[ask.Kind].options
	if ask.Kind == agent.Clarify {
		for i, label := range ask.Choices {
			options = append(options, codec.Option{ID: "c" + strconv.Itoa(i), Label: label})
		}
		return append(options, known...)
	}
	for _, o := range known {
		if ask.Choices == nil || slices.Contains(ask.Choices, o.ID) {
			options = append(options, o)
		}
	}
	return options
}

// cardOwners knows which session a card belongs to, for answers that come from another device.
type cardOwners struct {
	mu sync.Mutex
	of map[string]*Session
}

func (o *cardOwners) set(id string, s *Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[string]*Session{}
	}
	o.of[id] = s
}

func (o *cardOwners) drop(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.of, id); len(o.of) == 0 {
		o.of = nil
	}
}

func (o *cardOwners) known(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[id] != nil
}

// showCard opens a card. Its turn does not count as running while it waits.
func (s *Session) showCard(t *turn, ask *agent.Card, now time.Time) {
	w := s.work
	s.work.stream.finish(s, now)
	ttl := ask.TTL
	if ttl <= 0 {
		ttl = codec.DefaultPromptTTL
	}
	c := &card{id: s.hub.names.next(), turn: t, ask: ask, options: cardOptions(ask), due: s.hub.since(now) + ttl}
	if len(w.cards) >= maxCards || len(c.options) == 0 || !t.slot.give(&s.hub.slots) {
		c.tell(agent.Answer{Option: c.safe(), Expired: true})
		return
	}
	w.cards = append(w.cards, c)
	s.hub.cards.set(c.id, s)
	s.sendCard(c, now)
	w.arm(s, now)
}

func (s *Session) sendCard(c *card, now time.Time) {
	if start, ok := s.begin(); ok {
		left := (c.due - s.hub.since(now) + time.Second - 1) / time.Second // rounded up
		s.out.B = codec.AppendCard(s.out.B, &codec.Card{ID: c.id, Kind: c.ask.Kind, Text: c.ask.Text, Command: c.ask.Command, Description: c.ask.Description,
			Options: c.options, Session: "mobile:" + s.id, TimeoutSeconds: int(max(left, 1))})
		s.end(start)
		c.shown = true
	}
}

// showCards shows a new connection the cards that are open.
func (s *Session) showCards(now time.Time) {
	for _, c := range s.work.cards {
		if c.shown = false; c.state == cardOpen {
			s.sendCard(c, now)
		}
	}
}

// prompt is the user's answer to a card.
func (s *Session) prompt(in *codec.In, now time.Time) {
	c := s.card(in.PromptID)
	switch {
	case c == nil && s.hub.cards.known(in.PromptID):
		s.fault(errForeignCard, in.ID, now)
	case c == nil || c.state == cardListening:
		s.sendCardDone(&codec.CardDone{ID: in.PromptID, Expired: true})
	case c.state == cardAnswering && len(c.later) >= maxLater:
		s.limited(in.ID, time.Second, now)
	case c.state == cardAnswering:
		c.later = append(c.later, choice{strings.Clone(in.OptionID), strings.Clone(in.Text)})
	default:
		s.choose(c, choice{in.OptionID, in.Text}, now)
	}
}

var errForeignCard = &codec.Fault{Code: codec.Forbidden, Message: "This card was shown to another device."}

func (s *Session) card(id string) *card {
	if s.work != nil {
		for _, c := range s.work.cards {
			if c.id == id {
				return c
			}
		}
	}
	return nil
}

// listening is the card that takes the next text; the oldest, when there are two.
func (s *Session) listening() *card {
	if s.work != nil {
		for _, c := range s.work.cards {
			if c.state == cardListening {
				return c
			}
		}
	}
	return nil
}

// choose applies the table of spec 8: whatever the card does not offer becomes the safe value.
func (s *Session) choose(c *card, what choice, now time.Time) {
	i := slices.IndexFunc(c.options, func(o codec.Option) bool { return o.ID == strings.ToLower(what.option) })
	a := agent.Answer{Option: c.safe()}
	if i >= 0 {
		a.Option = c.options[i].ID
	}
	if a.Option == other {
		a.Text = strings.Clone(what.text)
		if strings.TrimSpace(a.Text) == "" {
			c.state = cardListening
			s.sendCardDone(&codec.CardDone{ID: c.id, OptionID: other})
			return
		}
	}
	s.settleCard(c, a, now)
}

// settleCard puts an answer to the agent, which confirms it.
func (s *Session) settleCard(c *card, a agent.Answer, now time.Time) {
	c.was, c.state, c.answer = c.state, cardAnswering, a
	c.turn.slot.retake(&s.hub.slots)
	var once sync.Once
	a.Confirm = func(err error) {
		once.Do(func() {
			e := newEvent(evConfirm)
			e.card, e.err = c, err
			s.post(e, here)
		})
	}
	if !c.tell(a) {
		s.closeCard(c, agent.ErrCardExpired)
	}
}

// tell gives the agent an answer; false when it takes none.
func (c *card) tell(a agent.Answer) bool {
	select {
	case c.ask.Answers <- a:
		return true
	default:
		return false
	}
}

// confirmed is the agent's word about an answer.
func (s *Session) confirmed(c *card, err error, now time.Time) {
	if s.card(c.id) != c || c.state != cardAnswering {
		return
	}
	if err == nil || errors.Is(err, agent.ErrCardExpired) {
		s.closeCard(c, err)
		return
	}
	// The agent could not take it: the card is open again.
	c.state = c.was
	c.turn.slot.give(&s.hub.slots) // where too many are parked it goes on to count as running
	later := c.later
	c.later = nil
	if c.state == cardOpen && !c.shown {
		s.sendCard(c, now)
	}
	if s.expireCards(now); s.card(c.id) != c {
		s.expired(c, len(later))
		return
	}
	for i, what := range later {
		if c.state != cardOpen {
			c.later = append(c.later, later[i:]...)
			break
		}
		s.choose(c, what, now)
	}
	s.work.arm(s, now)
}

// closeCard: the answer counts, or came too late for the agent.
func (s *Session) closeCard(c *card, err error) {
	s.removeCard(c)
	if c.was == cardOpen {
		done := &codec.CardDone{ID: c.id, Expired: err != nil}
		if err == nil {
			done.OptionID = c.answer.Option
		}
		s.sendCardDone(done)
	}
	s.expired(c, len(c.later))
}

// expired answers what came after the answer that counts.
func (s *Session) expired(c *card, answers int) {
	for range answers {
		s.sendCardDone(&codec.CardDone{ID: c.id, Expired: true})
	}
}

// expireCards ends the cards whose time is over. An answer that is being confirmed came first.
func (s *Session) expireCards(now time.Time) {
	at := s.hub.since(now)
	for _, c := range slices.Clone(s.work.cards) {
		if c.state == cardAnswering || c.due > at {
			continue
		}
		s.removeCard(c)
		if c.state == cardOpen {
			s.sendCardDone(&codec.CardDone{ID: c.id, Expired: true})
		}
		c.turn.slot.retake(&s.hub.slots)
		c.tell(agent.Answer{Option: c.safe(), Expired: true})
	}
}

// dropCards ends the cards of a turn that is over.
func (s *Session) dropCards(t *turn) {
	for _, c := range slices.Clone(s.work.cards) {
		if c.turn != t {
			continue
		}
		s.removeCard(c)
		if c.state == cardOpen || c.state == cardAnswering && c.was == cardOpen {
			s.sendCardDone(&codec.CardDone{ID: c.id, Expired: true})
		}
		s.expired(c, len(c.later))
		c.tell(agent.Answer{Option: c.safe(), Expired: true})
	}
}

func (s *Session) removeCard(c *card) {
	s.hub.cards.drop(c.id)
	i := slices.Index(s.work.cards, c)
	s.work.cards = slices.Delete(s.work.cards, i, i+1)
}
