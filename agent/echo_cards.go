package agent

import (
	"context"
	"strconv"
	"strings"
	"time"
)

const maxTTL = 24 * time.Hour // of /ttl

// Each of these makes the card of a command from its arguments, or nil when they are bad.

func approve(args string) *Card {
	if args == "" {
		return nil
	}
	return &Card{
		Kind:        ExecApproval,
		Text:        "May this command run?",
		Command:     args,
		Description: "Nothing runs: the echo agent only tells what you chose.",
	}
}

func confirm(args string) *Card {
	if args == "" {
		return nil
	}
	return &Card{Kind: SlashConfirm, Text: args}
}

func clarify(args string) *Card {
	parts := strings.Split(args, "|")
	for i := range parts {
		if parts[i] = strings.TrimSpace(parts[i]); parts[i] == "" {
			return nil
		}
	}
	if len(parts) < 2 {
		return nil
	}
	return &Card{Kind: Clarify, Text: parts[0], Choices: parts[1:]}
}

// show makes the command of a card.
func show(card func(args string) *Card) func(context.Context, string, func(Event)) (string, error) {
	return func(ctx context.Context, args string, emit func(Event)) (string, error) {
		return choice(ctx, card(args), emit)
	}
}

func ttl(ctx context.Context, args string, emit func(Event)) (string, error) {
	number, rest := word(args)
	seconds, err := strconv.ParseUint(number, 10, 32)
	if err != nil || seconds < 1 || seconds > uint64(maxTTL/time.Second) {
		return "", errArguments // err holds what the device sent
	}
	var card *Card
	switch name, args := word(rest); name {
	case "/approve":
		card = approve(args)
	case "/confirm":
		card = confirm(args)
	case "/ask":
		card = clarify(args)
	}
	if card != nil {
		card.TTL = time.Duration(seconds) * time.Second
	}
	return choice(ctx, card, emit)
}

// choice shows c and replies with what became of it. Nothing hangs on the answer, so the first one takes effect.
func choice(ctx context.Context, c *Card, emit func(Event)) (string, error) {
	if c == nil {
		return "", errArguments
	}
	c.Answers = make(chan Answer, 1)
	emit(Event{Kind: ShowCard, Card: c})
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case a := <-c.Answers:
		if a.Expired {
			return c.Kind + ": expired", nil
		}
		a.Confirm(nil)
		reply := c.Kind + ": " + a.Option
		if a.Text != "" {
			reply += ": " + a.Text
		}
		return reply, nil
	}
}
