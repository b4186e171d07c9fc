package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// user answers the card of text at once; it returns the card, the reply, and what the answer was confirmed with.
func user(t *testing.T, text string, a Answer) (card *Card, reply string, confirmed []error) {
	t.Helper()
	if !a.Expired {
		a.Confirm = func(err error) { confirmed = append(confirmed, err) }
	}
	reply, err := Echo{}.Ask(t.Context(), &Turn{Text: text}, func(e Event) {
		require.Equal(t, ShowCard, e.Kind)
		require.Nil(t, card, "one card")
		card = e.Card
		card.Answers <- a // it has room for one
	})
	require.NoError(t, err)
	require.NotNil(t, card)
	card.Answers = nil
	return card, reply, confirmed
}

func TestEchoCards(t *testing.T) {
	approval := func(command string, ttl time.Duration) Card {
		return Card{Kind: ExecApproval, Text: "May this command run?", Command: command, Description: approve("x").Description, TTL: ttl}
	}
	for _, c := range []struct {
		text   string
		want   Card
		answer Answer
		reply  string
	}{
		{"/approve ls -la  /tmp", approval("ls -la  /tmp", 0), Answer{Option: "once"}, "exec_approval: once"},
		{"/approve rm \"<x>\" | tee \\ é😀\n", approval("rm \"<x>\" | tee \\ é😀\n", 0), Answer{Option: "deny"}, "exec_approval: deny"},
		{"/confirm reset it?", Card{Kind: SlashConfirm, Text: "reset it?"}, Answer{Option: "cancel"}, "slash_confirm: cancel"},
		{"/ask Which one? | red|  deep  green ", Card{Kind: Clarify, Text: "Which one?", Choices: []string{"red", "deep  green"}}, Answer{Option: "c1"}, "clarify: c1"},
		{"/ask Which one? | red", Card{Kind: Clarify, Text: "Which one?", Choices: []string{"red"}}, Answer{Option: "other", Text: "blue | c0"}, "clarify: other: blue | c0"},
		{"/ttl 2 /approve ls", approval("ls", 2*time.Second), Answer{Option: "always"}, "exec_approval: always"},
		{" /ttl\n86400\n/confirm\n/approve", Card{Kind: SlashConfirm, Text: "/approve", TTL: 24 * time.Hour}, Answer{Option: "once"}, "slash_confirm: once"},
		{"/ttl 01 /ask x | y", Card{Kind: Clarify, Text: "x", Choices: []string{"y"}, TTL: time.Second}, Answer{Option: "c0"}, "clarify: c0"},
	} {
		card, reply, confirmed := user(t, c.text, c.answer)
		require.Equal(t, c.want, *card, "%q", c.text)
		require.Equal(t, c.reply, reply)
		require.Equal(t, []error{nil}, confirmed)

		_, reply, confirmed = user(t, c.text, Answer{Option: c.answer.Option, Expired: true})
		require.Equal(t, c.want.Kind+": expired", reply)
		require.Empty(t, confirmed)
	}
}

func TestEchoWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		reply, err := Echo{}.Ask(t.Context(), &Turn{Text: "/approve ls"}, func(e Event) {
			time.AfterFunc(time.Minute, func() { e.Card.Answers <- Answer{Option: "once", Confirm: func(error) {}} })
		})
		require.NoError(t, err)
		require.Equal(t, "exec_approval: once", reply)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestEchoCardStops(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	var card *Card
	reply, err := Echo{}.Ask(ctx, &Turn{Text: "/confirm sure?"}, func(e Event) {
		card = e.Card
		stop(errors.New("stopped"))
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, reply)
	card.Answers <- Answer{Option: "once"} // an answer that comes too late blocks nobody
}
