package hermes

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"mobilegate/agent"
	"mobilegate/internal/upstream"
)

const (
	maxApprovals = 16 // of one run that wait
	maxKnown     = 64
	maxCommand   = 16 << 10 // bytes of a command that may be allowed: what is longer cannot be read
	maxAbout     = 4 << 10  // bytes of its description
	askTries     = 3        // to pass an answer on
	askPause     = 500 * time.Millisecond
)

// approval is a command that waits for the user's word.
type approval struct {
	id     string
	frame  *frame
	due    time.Time // when the agent denies it by itself
	unsure bool      // an answer was sent that may have arrived
}

// approvals are those of one run. One of them is shown at a time, in the order in which they came: an agent that does not look
// at request_id gives every answer to the oldest. Ask's goroutine owns them.
type approvals struct {
	waiting []*approval
	card    *agent.Card // of the first one; nil: none is shown
	known   []string    // digests of the last ones
	clear   time.Time   // until then one may be open at the agent that nobody answers here
	own     int         // answers of ours without an id whose event has not come
}

// answers is where the answer to the open card comes from.
func (r *run) answers() chan agent.Answer {
	if r.cards.card == nil {
		return nil
	}
	return r.cards.card.Answers
}

// ask takes a request for an approval, from the stream or from the status, which may both bring it.
func (r *run) ask(fr *frame, heard time.Time) error {
	c := &r.cards
	p := &approval{id: string(fr.Request), frame: fr, due: heard.Add(r.a.cfg.ApprovalTimeout - r.clock.age(fr.Timestamp, heard))}
	key := digest(nil, p.id)
	if p.id == "" {
		key = digest(nil, strconv.FormatFloat(float64(fr.Timestamp), 'g', -1, 64), string(fr.Command))
	}
	if slices.Contains(c.known, key) {
		return nil
	}
	if c.known = append(c.known, key); len(c.known) > maxKnown {
		c.known = c.known[1:]
	}
	if len(c.waiting) >= maxApprovals {
		r.leaveOpen(p)
		return nil
	}
	c.waiting = append(c.waiting, p)
	return r.nextCard()
}

// leaveOpen lets the agent deny p by itself. If it does not look at ids, no other answer may be sent before that: it would
// reach p.
func (r *run) leaveOpen(p *approval) {
	if !(p.id != "" && r.a.exact.Load()) && p.due.After(r.cards.clear) {
		r.cards.clear = p.due
	}
}

// nextCard shows the oldest approval, if none is shown.
func (r *run) nextCard() error {
	c := &r.cards
	for c.card == nil && len(c.waiting) > 0 && !time.Now().Before(c.clear) {
		p := c.waiting[0]
		left := (time.Until(p.due) - r.a.cfg.ApprovalTimeout/60).Truncate(time.Second) // it ends here before it ends there
		if left < time.Second {
			c.waiting = c.waiting[1:]
			r.leaveOpen(p)
			continue
		}
		c.card = &agent.Card{
			Kind: agent.ExecApproval, Text: "May this command run?", Command: clip(p.frame.Command, maxCommand), Description: clip(p.frame.Description, maxAbout),
			Choices: choices(p.frame), TTL: left, Answers: make(chan agent.Answer, 1),
		}
		if len(p.frame.Command) > maxCommand {
			c.card.Text = "This command is too long to be shown, so it cannot be allowed here."
		}
		return r.speech.card(c.card)
	}
	return nil
}

// clip cuts what Hermes says to n bytes, between characters.
func clip(s text, n int) string {
	if len(s) <= n {
		return string(s)
	}
	return strings.ToValidUTF8(string(s[:n]), "") + " …"
}

// choices are those of the request that a card knows. Deny is always one, and where nothing is offered once is the other.
func choices(fr *frame) []string {
	if len(fr.Command) > maxCommand {
		return []string{"deny"}
	}
	if len(fr.Choices) == 0 {
		return []string{"once", "deny"}
	}
	var ids []string
	for _, id := range []string{"once", "session", "always", "deny"} {
		if id == "deny" || slices.Contains(fr.Choices, text(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// settle notes that an approval was given elsewhere, or was one of ours.
func (r *run) settle(fr *frame) error {
	c := &r.cards
	i := 0
	if id := string(fr.Request); id != "" {
		i = slices.IndexFunc(c.waiting, func(p *approval) bool { return p.id == id })
	} else if c.own > 0 {
		c.own--
		return nil
	}
	switch {
	case i < 0 || i >= len(c.waiting):
		return nil
	case i > 0 || c.card == nil:
		c.waiting = slices.Delete(c.waiting, i, i+1)
		return nil
	}
	// Nothing withdraws a card: it says so when it is answered, and the next one is shown below it.
	p, card := c.waiting[0], c.card
	choice, mine := string(fr.Choice), p.unsure
	r.stale.Go(func() {
		select {
		case ans := <-card.Answers:
			switch {
			case ans.Expired:
			case mine && ans.Option == choice:
				ans.Confirm(nil)
			default:
				ans.Confirm(agent.ErrCardExpired)
			}
		case <-r.over:
		}
	})
	return r.closeCard()
}

func (r *run) closeCard() error {
	r.cards.card, r.cards.waiting = nil, r.cards.waiting[1:]
	return r.nextCard()
}

// answer passes on what the user chose. It takes effect once: an answer that may have arrived is sent again only where the
// agent is known to tell by its id whether it is the same one; else the card stays open, and the status is asked before the
// next try. An answer that Hermes itself refuses for now (500, 503) has not arrived. When the card has expired here, deny is
// what the agent hears; its own clock runs a little longer.
func (r *run) answer(ctx context.Context, ans agent.Answer) error {
	p := r.cards.waiting[0]
	exact := p.id != "" && r.a.exact.Load()
	if ans.Expired {
		if exact || !p.unsure && time.Now().Before(p.due) {
			if r.post(ctx, p, "deny") == nil {
				return r.closeCard()
			}
		}
		r.leaveOpen(p)
		return r.closeCard()
	}
	if p.unsure && !exact {
		switch asks, err := r.stillAsks(ctx, p); {
		case err != nil:
			ans.Confirm(err)
			return nil
		case !asks:
			ans.Confirm(agent.ErrCardExpired)
			r.leaveOpen(p)
			return r.closeCard()
		}
	}
	lost := false
	for try := 1; ; try++ {
		err := r.post(ctx, p, ans.Option)
		over := status(err) == http.StatusNotFound || status(err) == http.StatusConflict // it is not pending, or the run is not active
		switch {
		case err == nil || over && lost: // lost, and it had arrived
			ans.Confirm(nil)
			return r.closeCard()
		case over:
			ans.Confirm(agent.ErrCardExpired)
			return r.closeCard()
		}
		lost = lost || sent(err) || status(err) >= http.StatusInternalServerError
		p.unsure = p.unsure || sent(err) || status(err) == http.StatusBadGateway || status(err) == http.StatusGatewayTimeout
		again := exact && upstream.Fault(err) || !sent(err) && status(err) == 0 || status(err) == http.StatusTooManyRequests
		if !again || try == askTries || !r.follower.wait(time.Duration(try)*askPause) {
			ans.Confirm(err)
			return nil
		}
	}
}

// post sends an answer, and learns from what comes back whether the agent looks at ids.
func (r *run) post(ctx context.Context, p *approval, choice string) error {
	type answer struct {
		Choice  text `json:"choice"`
		Request text `json:"request_id,omitempty"`
	}
	var back answer
	err := r.a.service.Once(ctx, func() error {
		err := r.a.call(ctx, http.MethodPost, "/v1/runs/"+r.id+"/approval", answer{text(choice), text(p.id)}, &back)
		if errors.Is(err, errAnswer) {
			return nil // it took it, whatever it says
		}
		return err
	})
	if err == nil {
		r.a.exact.Store(p.id != "" && string(back.Request) == p.id)
		if back.Request == "" {
			r.cards.own++
		}
	}
	return err
}

// stillAsks tells whether p is what an answer without an id would reach; after an error nobody knows.
func (r *run) stillAsks(ctx context.Context, p *approval) (bool, error) {
	var st runStatus
	err := r.a.service.Once(ctx, func() error { return r.a.call(ctx, http.MethodGet, "/v1/runs/"+r.id, nil, &st) })
	switch {
	case status(err) == http.StatusNotFound:
		return false, nil
	case err != nil:
		return false, err
	case st.Status != "waiting_for_approval", len(r.cards.waiting) > 1:
		return false, nil
	}
	a := st.approval()
	return a == nil || a.Request == p.frame.Request && a.Command == p.frame.Command && a.Timestamp == p.frame.Timestamp, nil
}
