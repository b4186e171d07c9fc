package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	hermes "mobilegate/sdk/go"

	"github.com/stretchr/testify/require"
)

func TestChatViewOnATerminal(t *testing.T) {
	var out strings.Builder
	v := &chatView{out: &out, term: true, prompt: true, columns: func() int { return 20 }}
	step := func(want string, do func()) {
		t.Helper()
		out.Reset()
		do()
		require.Equal(t, want, out.String())
	}
	msg := func(id, text string, final bool) func() {
		return func() { v.message(&hermes.Message{ID: id, Text: text, Edit: true, Final: final}) }
	}
	step("> ", v.rest)
	step("", v.rest)
	step(eraseLine+dim+"· typing"+plain+" > ", func() { v.state(true, true); v.rest() })
	step("", func() { v.state(true, true); v.rest() })
	step(eraseLine+"it", msg("1", "it", false))
	step(" grows", msg("1", "it grows", false))
	step("", func() { v.state(true, false); v.rest() })
	step(eraseLine+"it shrank", msg("1", "it shrank", false))
	step(" and is now longer than a row", msg("1", "it shrank and is now longer than a row", false))
	step("\nagain", msg("1", "again", false))
	step("\n"+dim+"note"+plain+"\n> ", func() { v.notice("note"); v.rest() })
	step(eraseLine+"again!", msg("1", "again!", false))
	step("", v.typed) // Enter has moved the cursor
	step("again!!", msg("1", "again!!", false))
	step("\nB\n", msg("2", "B", true))
	step("again!!!\n", msg("1", "again!!!", true))
	step("> ", v.rest)
	step("\n", v.leave)
}

func TestChatViewSaysAReasonOnce(t *testing.T) {
	var errOut strings.Builder
	v := &chatView{errOut: &errOut}
	v.disconnected(errors.New("refused"), true)
	v.disconnected(errors.New("refused"), false)
	v.disconnected(errors.New("no\nroute"), false)
	v.connected()
	v.disconnected(errors.New("no\nroute"), true)
	require.Equal(t, "not connected (refused); trying again\nstill not connected (no route)\nnot connected (no route); trying again\n", errOut.String())
}

func TestCleanLine(t *testing.T) {
	require.Equal(t, "a b c", cleanLine("a\nb\tc\x00"))
	require.Equal(t, strings.Repeat("ж", longestLine)+"…", cleanLine(strings.Repeat("ж", longestLine+1)))
}

func TestOneRow(t *testing.T) {
	require.True(t, oneRow("123456789", 10))
	require.False(t, oneRow("1234567890", 10))
	require.False(t, oneRow("漢漢漢漢漢", 10))
	require.False(t, oneRow("a\nb", 10))
	require.False(t, oneRow("a\tb", 10))
}

func TestChatTurnsAcrossAReconnect(t *testing.T) {
	now := time.Now()
	turns := func() *chatTurns {
		return &chatTurns{open: []*chatTurn{{id: "old", sent: now.Add(-resendWithin - 1)}, {id: "young", sent: now.Add(-resendWithin)}, {id: "new"}}}
	}
	x := turns()
	require.Equal(t, 1, x.reconnected(now))
	require.Len(t, x.open, 2)
	require.Equal(t, "young", x.open[0].id)
	require.Zero(t, x.open[0].sent, "to be sent again")

	x.running = true
	require.Zero(t, x.giveUp(), "a running turn may take its time")
	x.running = false
	require.Equal(t, 2, x.giveUp())
	require.True(t, x.none())
	require.Equal(t, 3, x.lost)

	x = turns()
	require.Zero(t, x.giveUp(), "without a reconnect nothing is lost")
}

func TestRawTurn(t *testing.T) {
	for frame, want := range map[string]string{
		`{"t":"text","id":"a"}`:                     "a",
		`{"t":"TEXT","id":"a"}`:                     "a",
		`{"t":"audio","id":"b"}`:                    "b",
		`{"t":"media","id":"c"}`:                    "c",
		`{"t":"media","id":"c","part":0,"parts":2}`: "",
		`{"t":"media","id":"c","part":1,"parts":2}`: "c",
		`{"t":"text"}`:                              "",
		`{"t":"prompt","id":"x"}`:                   "",
		`{"t":"text","id":7}`:                       "",
		`{`:                                         "",
	} {
		id, ok := rawTurn(frame)
		require.Equal(t, want != "", ok, frame)
		if ok {
			require.Equal(t, want, id)
		}
	}
}
