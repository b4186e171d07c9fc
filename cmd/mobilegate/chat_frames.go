package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	hermes "mobilegate/sdk/go"
)

// event is one frame of the gateway, or a change of the connection.
func (c *chat) event(ctx context.Context, ev hermes.Event) {
	if c.isProbe(ev.Frame) {
		return
	}
	c.view.frame(ev.Raw)
	switch f := ev.Frame.(type) {
	case *hermes.Ready:
		c.ready(ctx, f)
	case *hermes.Lost:
		c.lost(f)
	case *hermes.Message:
		c.view.message(f)
	case *hermes.Media:
		c.view.file(f)
	case *hermes.Avatar:
		c.view.avatar = f.State
	case *hermes.Typing:
		c.turns.typing(f.Stop)
	case *hermes.Prompt:
		c.prompt(f)
	case *hermes.PromptDone:
		c.promptDone(f)
	case *hermes.Error:
		c.refusal(f)
	}
	c.view.state(c.online, c.turns.running)
}

// isProbe takes the pong of a probe. The first one of a run says whether a turn of an earlier run still goes on.
func (c *chat) isProbe(frame any) bool {
	pong, ok := frame.(*hermes.Pong)
	if !ok || c.probe == "" || string(pong.TS) != strconv.Quote(c.probe) {
		return false
	}
	if c.probes == 1 {
		c.turns.foreign = c.turns.running
	}
	c.probe = ""
	return true
}

func (c *chat) ready(ctx context.Context, r *hermes.Ready) {
	c.online = true
	c.cards = nil // those still open come again
	c.view.connected()
	switch {
	case c.met:
		c.view.notice("connected again")
	case !c.piped:
		c.view.notice("connected as " + r.Device.ID + "; Ctrl-D leaves")
	}
	c.met = true
	c.lose(c.turns.reconnected(time.Now()))
	c.flush(ctx)
	if c.piped {
		c.sendProbe(ctx)
	}
}

func (c *chat) lost(l *hermes.Lost) {
	first := c.online || !c.met
	c.online, c.probe = false, ""
	c.view.disconnected(l.Err, first)
}

func (c *chat) lose(lines int) {
	if lines > 0 {
		c.view.notice(fmt.Sprintf("%d lines may have lost their answers", lines))
	}
}

// refusal shows an error that the conversation survives; a fatal one is the reason that the session ends with.
func (c *chat) refusal(e *hermes.Error) {
	if e.Fatal {
		return
	}
	c.view.remark(e.Code + ": " + e.Message)
	c.turns.refused(e.ID)
	if card := c.find(e.ID); card != nil {
		card.answered = false
	}
}

// chatCard is an open card.
type chatCard struct {
	*hermes.Prompt
	answered bool // the answer is under way
	asked    bool // "other" was chosen: the next line is its text
}

// card is the one that a line answers, or nil.
func (c *chat) card() *chatCard {
	if len(c.cards) == 0 || c.cards[0].answered {
		return nil
	}
	return c.cards[0]
}

func (c *chat) find(id string) *chatCard {
	i := slices.IndexFunc(c.cards, func(card *chatCard) bool { return card.ID == id })
	if i < 0 {
		return nil
	}
	return c.cards[i]
}

func (c *chat) prompt(p *hermes.Prompt) {
	if c.find(p.ID) != nil {
		return
	}
	c.cards = append(c.cards, &chatCard{Prompt: p})
	if len(c.cards) == 1 {
		c.view.card(p)
	}
}

func (c *chat) promptDone(d *hermes.PromptDone) {
	i := slices.IndexFunc(c.cards, func(card *chatCard) bool { return card.ID == d.ID })
	if i < 0 {
		return
	}
	if d.Expired {
		c.view.remark("card expired")
	} else {
		c.view.remark("card answered: " + d.OptionID)
	}
	c.cards = slices.Delete(c.cards, i, i+1)
	if i == 0 && len(c.cards) > 0 {
		c.view.card(c.cards[0].Prompt)
	}
}

// line is one line of the input.
func (c *chat) line(ctx context.Context, s string) {
	c.view.typed()
	switch card := c.card(); {
	case strings.TrimSpace(s) == "":
	case c.raw && strings.HasPrefix(s, "{"):
		c.rawLine(ctx, s)
	case card != nil && (card.asked || !strings.HasPrefix(s, "/")):
		c.answer(ctx, card, s)
	default:
		id := hermes.NewID()
		c.turn(ctx, id, hermes.Text{ID: id, Text: s})
	}
}

func (c *chat) turn(ctx context.Context, id string, f hermes.Outgoing) {
	c.turns.open = append(c.turns.open, &chatTurn{id: id, frame: f})
	if !c.online {
		c.view.notice("not connected; this will be sent later")
		return
	}
	c.flush(ctx)
}

// rawLine sends a frame as it is. An id that this run sent before makes no turn: the gateway drops it (spec 5).
func (c *chat) rawLine(ctx context.Context, s string) {
	id, ok := rawTurn(s)
	if ok && !c.rawIDs[id] {
		if c.rawIDs == nil {
			c.rawIDs = map[string]bool{}
		}
		c.rawIDs[id] = true
		c.turn(ctx, id, hermes.Raw(s))
		return
	}
	if !c.online {
		c.view.notice("not connected; the frame was not sent")
		return
	}
	c.send(ctx, hermes.Raw(s))
}

// answer takes a line as the answer to a card. An answer is never a chat message, so what does not fit is not sent.
func (c *chat) answer(ctx context.Context, card *chatCard, s string) {
	a, ok := chatAnswer(card, strings.TrimSpace(s))
	switch {
	case !ok:
		c.view.notice("not an answer to the card; give a number or an option id")
	case !c.online:
		c.view.notice("not connected; the card will be shown again")
	case a.OptionID == "other" && a.Text == "" && card.Kind == "clarify":
		card.asked = true
		c.view.notice("your answer, in one line:")
	case c.send(ctx, a) == nil:
		card.answered = true
	}
}

// chatAnswer reads a number, an option id in any case, or for clarify a free text.
func chatAnswer(card *chatCard, s string) (a hermes.Answer, ok bool) {
	a = hermes.Answer{PromptID: card.ID}
	free := hermes.Answer{PromptID: card.ID, OptionID: "other", Text: s}
	if card.asked {
		return free, true
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 1 && n <= len(card.Options) {
		a.OptionID = card.Options[n-1].ID
		return a, true
	}
	for _, o := range card.Options {
		if strings.EqualFold(o.ID, s) {
			a.OptionID = o.ID
			return a, true
		}
	}
	return free, card.Kind == "clarify"
}
