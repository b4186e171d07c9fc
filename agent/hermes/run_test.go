package hermes

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent/hermes/hermestest"
)

func TestStreamIsLost(t *testing.T) {
	answer := []hermestest.Step{
		step("words", "one two "), step("cut", "data: {\"ev"), {Do: "wait", For: 3 * time.Second}, step("words", "three "),
		{Do: "wait", For: 3 * time.Second}, step("delta", "four"),
	}
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			play(t, hermestest.Config{Features: features, Rules: rule(answer...)}, Config{}, func(s *stage) {
				h := s.says("m-1", "count", "one two three four")
				require.Empty(s, h.reply)
				if features.Journal {
					require.Zero(s, s.count("GET /v1/runs/{id}"), "the stream went on where it was")
					require.Equal(s, 2, s.count("GET /v1/runs/{id}/events"))
				} else {
					require.Equal(s, 1, s.count("GET /v1/runs/{id}/events"), "a second reader would hear nothing")
					require.InDelta(s, 4, s.count("GET /v1/runs/{id}"), 1)
				}
			})
		})
	}
}

// TestStreamIsRefusedAtFirst: who has heard nothing yet asks again, also an agent whose stream has one reader only.
func TestStreamIsRefusedAtFirst(t *testing.T) {
	for name, features := range generations {
		for _, code := range []int{429, 500, 503} {
			t.Run(name, func(t *testing.T) {
				faults := []hermestest.Fault{{Route: "GET /v1/runs/{id}/events", Status: code, Times: 2}}
				play(t, hermestest.Config{Features: features, Think: time.Minute, Faults: faults, Rules: rule(step("words", "one two"))}, Config{}, func(s *stage) {
					h := s.says("m-1", "count", "one two")
					require.Empty(s, h.reply, "it was streamed")
					require.Equal(s, 3, s.count("GET /v1/runs/{id}/events"))
				})
			})
		}
	}
}

func TestDuplicatesAreDropped(t *testing.T) {
	steps := rule(step("delta", "one "), step("duplicate", ""), step("delta", "two "), step("delta", "two "), step("duplicate", ""), step("cut", ""), step("delta", "three"))
	play(t, hermestest.Config{Features: hermestest.B, Rules: steps}, Config{}, func(s *stage) {
		s.says("m-1", "count", "one two two three")
	})
}

func TestJournalIsGone(t *testing.T) {
	play(t, hermestest.Config{
		Features: hermestest.B, Rules: rule(step("delta", "one "), step("cut", ""), hermestest.Step{Do: "wait", For: 5 * time.Minute}, step("delta", "two")),
		Faults: []hermestest.Fault{{Route: "GET /v1/runs/{id}/events", Skip: 1, Times: -1, Status: 500}},
	}, Config{}, func(s *stage) {
		s.says("m-1", "count", "one two")
		require.Equal(s, 1+reconnects, s.count("GET /v1/runs/{id}/events"), "then it is polled")
	})
}

func TestEndsWithoutATerminalEvent(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			play(t, hermestest.Config{Features: features, Rules: rule(step("delta", "all of "), hermestest.Step{Do: "complete", Text: "all of it", Silent: true})}, Config{}, func(s *stage) {
				s.says("m-1", "go", "all of it")
			})
			play(t, hermestest.Config{Features: features, Rules: rule(step("delta", "some"), hermestest.Step{Do: "fail", Text: "secret", Silent: true})}, Config{}, func(s *stage) {
				h := s.ask(turn("m-1", "go"))
				require.Equal(s, "The agent could not finish its answer. Please try again.", h.tell(s.T))
				require.Equal(s, "some", h.text())
				require.NotContains(s, h.err.Error()+s.log.String(), "secret")
			})
		})
	}
}

// TestLongSilence: a run may say nothing for hours as long as its stream lives, and is watched meanwhile.
func TestLongSilence(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			play(t, hermestest.Config{Features: features, Rules: rule(hermestest.Step{Do: "wait", For: 5 * time.Hour}, step("delta", "done"))}, Config{}, func(s *stage) {
				start := time.Now()
				s.says("m-1", "go", "done")
				require.GreaterOrEqual(s, time.Since(start), 5*time.Hour)
				require.Equal(s, 1, s.count("GET /v1/runs/{id}/events"))
			})
			play(t, hermestest.Config{Features: features, Rules: rule(step("delta", "do"), hermestest.Step{Do: "wait", For: 20 * time.Minute, Quiet: true}, step("delta", "ne"))}, Config{}, func(s *stage) {
				s.says("m-1", "go", "done")
				if features.Journal {
					require.Greater(s, s.count("GET /v1/runs/{id}/events"), 3, "it is opened anew")
				} else {
					require.Greater(s, s.count("GET /v1/runs/{id}"), 500, "it is given up")
				}
			})
		})
	}
}

// TestDeafStream: a stream that lives and brings nothing does not keep an answer back.
func TestDeafStream(t *testing.T) {
	features := hermestest.A
	features.Idempotency, features.DeafReconnect = true, true
	play(t, hermestest.Config{Features: features, Rules: rule(hermestest.Step{Do: "wait", For: time.Minute}, step("delta", "done"))}, Config{}, func(s *stage) {
		ctx, stop := context.WithCancel(s.Context())
		_, done := s.begin(ctx, turn("m-1", "go"))
		time.Sleep(time.Second)
		stop()
		<-done
		start := time.Now()
		s.says("m-1", "go", "done")
		require.Len(s, s.hermes.Runs(), 1)
		require.Less(s, time.Since(start), time.Minute+checkEvery)
	})
}

func TestRunFails(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"fail", "The agent could not finish its answer. Please try again."},
		{"cancel", "The work on this message was stopped elsewhere."},
		{"restart", "The agent was restarted and did not finish this message. Please send it again."},
	} {
		for name, features := range generations {
			t.Run(c.name+name, func(t *testing.T) {
				play(t, hermestest.Config{Features: features, Rules: rule(step(c.name, "a text of the agent"))}, Config{}, func(s *stage) {
					h := s.ask(turn("m-1", "go"))
					require.Equal(s, c.want, h.tell(s.T))
					require.Empty(s, h.events)
					require.NotContains(s, h.err.Error()+s.log.String(), "a text of the agent")
				})
			})
		}
	}
}

func TestOutageWhilePolling(t *testing.T) {
	steps := rule(step("delta", "one "), step("cut", ""), hermestest.Step{Do: "wait", For: 90 * time.Second}, step("delta", "two"))
	for times, want := range map[int]string{10: "one two", -1: ""} {
		play(t, hermestest.Config{Rules: steps, Faults: []hermestest.Fault{{Route: "GET /v1/runs/{id}", Status: 502, Times: times}}}, Config{}, func(s *stage) {
			h := s.ask(turn("m-1", "count"))
			if want != "" {
				require.NoError(s, h.err)
				require.Equal(s, want, h.text())
				return
			}
			require.Equal(s, "The connection to the agent was lost before its answer was complete. Please send the message again.", h.tell(s.T))
			require.Equal(s, "one ", h.text())
		})
	}
}

func TestTooLong(t *testing.T) {
	play(t, hermestest.Config{Rules: rule(hermestest.Step{Do: "delta", Size: 100_000, Times: 20}, step("wait", ""))}, Config{}, func(s *stage) {
		h := s.ask(turn("m-1", "go"))
		require.Equal(s, "The answer is too long to be shown; the rest of it is left out.", h.tell(s.T))
		require.Equal(s, 1_000_000, len(h.text()))
		require.Equal(s, 1, s.hermes.Runs()[0].Stops)
	})
	play(t, hermestest.Config{Rules: rule(hermestest.Step{Do: "raw", Text: "data: " + strings.Repeat("x", maxEvent) + "\n\n"}, step("complete", "short"))}, Config{}, func(s *stage) {
		s.says("m-1", "go", "short")
	})
	play(t, hermestest.Config{Rules: rule(step("complete", strings.Repeat("x", maxText+1)))}, Config{}, func(s *stage) {
		s.ask(turn("m-1", "go")).tell(s.T)
	})
}

func TestTools(t *testing.T) {
	for _, c := range []struct {
		steps []hermestest.Step
		want  string
	}{
		{[]hermestest.Step{step("reasoning", "hm"), step("delta", "Let me look."), {Do: "tool", Tool: "terminal", Text: "ls", For: time.Second}, step("delta", "It is 4."), step("complete", "It is 4.")}, "Let me look.\n\nIt is 4."},
		{[]hermestest.Step{step("delta", "It "), {Do: "tool", Tool: "terminal"}, step("delta", "is 4.")}, "It is 4."},
		{[]hermestest.Step{step("delta", "Let me look."), {Do: "tool", Tool: "terminal", Error: true}, step("complete", "It is 4.")}, "Let me look.\nIt is 4."},
		{[]hermestest.Step{{Do: "tool", Tool: "terminal"}, {Do: "event", Event: "subagent.start", Fields: map[string]any{"goal": "x"}}, {Do: "event", Event: "of.tomorrow"}, step("complete", "It is 4.")}, "It is 4."},
	} {
		play(t, hermestest.Config{Rules: rule(c.steps...)}, Config{}, func(s *stage) { s.says("m-1", "go", c.want) })
	}
}
