package hermes

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/hermes/hermestest"
)

// dangerous asks whether command may run, and says what came of it.
func dangerous(command string) hermestest.Step {
	return hermestest.Step{Do: "approval", Command: command, Text: "It is dangerous.", On: map[string][]hermestest.Step{
		"once": {step("delta", command+" once.")}, "always": {step("delta", command+" always.")},
		"deny": {step("delta", command+" denied.")}, "timeout": {step("delta", command+" timed out.")},
	}}
}

const approvalRoute = "POST /v1/runs/{id}/approval"

func TestApproval(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			play(t, hermestest.Config{Features: features, Rules: rule(step("delta", "May I? "), dangerous("rm -rf /tmp/x"))}, Config{}, func(s *stage) {
				h, done := s.begin(s.Context(), turn("m-1", "go"))
				c := <-h.shown
				require.Equal(s, agent.ExecApproval, c.Kind)
				require.Equal(s, "rm -rf /tmp/x", c.Command)
				require.Equal(s, "It is dangerous.", c.Description)
				require.Equal(s, []string{"once", "session", "always", "deny"}, c.Choices)
				require.Equal(s, 295*time.Second, c.TTL)
				time.Sleep(200 * time.Second)
				require.NoError(s, press(c, "always"))
				<-done
				require.NoError(s, h.err)
				require.Equal(s, "May I? \nrm -rf /tmp/x always.", h.text())
				answers := s.hermes.Runs()[0].Answers
				require.Len(s, answers, 1)
				require.Equal(s, "always", answers[0].Choice)
				require.NotEmpty(s, answers[0].RequestID)
			})
		})
	}
}

// TestStreamGoesOnBelowACard: what the agent says while a card is open is shown, and the card still counts.
func TestStreamGoesOnBelowACard(t *testing.T) {
	ask := dangerous("ls")
	play(t, hermestest.Config{Features: hermestest.B, Rules: rule(hermestest.Step{Do: "event", Event: "approval.request", Fields: map[string]any{
		"command": "ls", "request_id": "0123", "choices": []string{"once", "deny"},
	}}, step("words", "meanwhile "), hermestest.Step{Do: "wait", For: time.Minute}, ask)}, Config{}, func(s *stage) {
		h, done := s.begin(s.Context(), turn("m-1", "go"))
		first := <-h.shown
		require.Equal(s, []string{"once", "deny"}, first.Choices)
		time.Sleep(time.Second)
		require.Equal(s, "meanwhile ", strings.TrimPrefix(h.text(), "\n"))
		require.Equal(s, agent.ErrCardExpired, press(first, "once"), "Hermes knows of no such question")
		require.NoError(s, press(<-h.shown, "once"))
		<-done
		require.NoError(s, h.err)
	})
}

func TestChoices(t *testing.T) {
	for _, c := range []struct {
		offered words
		want    []string
	}{
		{nil, []string{"once", "deny"}},
		{words{"deny", "once"}, []string{"once", "deny"}},
		{words{"once", "session", "deny"}, []string{"once", "session", "deny"}},
		{words{"always", "sudo"}, []string{"always", "deny"}},
		{words{"sudo"}, []string{"deny"}},
	} {
		require.Equal(t, c.want, choices(&frame{Choices: c.offered}), "%q", c.offered)
	}
	require.Equal(t, []string{"deny"}, choices(&frame{Command: text(strings.Repeat("x", maxCommand+1)), Choices: words{"once", "deny"}}))
}

func TestApprovalTooLongToBeShown(t *testing.T) {
	ask := dangerous(strings.Repeat("x", 100_000) + " rm")
	ask.Text = strings.Repeat("ü", 1<<20)
	play(t, hermestest.Config{Features: hermestest.B, Rules: rule(ask)}, Config{}, func(s *stage) {
		h, done := s.begin(s.Context(), turn("m-1", "go"))
		c := <-h.shown
		require.Less(s, len(c.Command), maxCommand+10)
		require.Less(s, len(c.Description), maxAbout+10)
		require.True(s, utf8.ValidString(c.Description))
		require.NoError(s, press(c, "deny"))
		<-done
		require.NoError(s, h.err)
	})
}

// TestAnswerTakesEffectOnce: the answer meets trouble; Hermes takes it once, and the card says so.
func TestAnswerTakesEffectOnce(t *testing.T) {
	for name, fault := range map[string]hermestest.Fault{
		"500": {Status: 500}, "500 for long": {Status: 500, Times: askTries}, "cut": {Cut: true}, "lost": {Lose: true}, "slow": {Delay: time.Minute}, "busy": {Status: 429},
	} {
		for generation, features := range generations {
			t.Run(name+generation, func(t *testing.T) {
				fault.Route, fault.Skip = approvalRoute, 1
				play(t, hermestest.Config{Features: features, Rules: rule(dangerous("cd"), dangerous("ls"), dangerous("rm")), Faults: []hermestest.Fault{fault}}, Config{}, func(s *stage) {
					h, done := s.begin(s.Context(), turn("m-1", "go"))
					require.NoError(s, press(<-h.shown, "once"))
					require.Equal(s, features.RequestID, s.agent.exact.Load())
					card := <-h.shown
					err := press(card, "once")
					for n := 0; err != nil; n++ {
						require.Less(s, n, askTries)
						require.NotErrorIs(s, err, agent.ErrCardExpired)
						require.False(s, features.RequestID && fault.Times == 0, "it is tried again at once")
						time.Sleep(3 * time.Second)
						err = press(card, "once")
					}
					next := <-h.shown
					require.Equal(s, "rm", next.Command)
					require.NoError(s, press(next, "deny"))
					<-done
					require.NoError(s, h.err)
					var took []string
					for _, a := range s.hermes.Runs()[0].Answers {
						took = append(took, a.Choice)
					}
					require.Equal(s, []string{"once", "once", "deny"}, took)
				})
			})
		}
	}
}

// TestAnswerIsRefusedForNow: the card stays open for another answer while Hermes says that it cannot take one, though nobody
// knows yet whether it looks at ids; so too while it cannot be asked whether an answer has arrived.
func TestAnswerIsRefusedForNow(t *testing.T) {
	for generation, features := range generations {
		t.Run(generation, func(t *testing.T) {
			faults := []hermestest.Fault{{Route: approvalRoute, Status: 500}, {Route: approvalRoute, Status: 503}, {Route: approvalRoute, Cut: true}, {Route: "GET /v1/runs/{id}", Status: 500}}
			play(t, hermestest.Config{Features: features, Rules: rule(dangerous("ls")), Faults: faults}, Config{}, func(s *stage) {
				h, done := s.begin(s.Context(), turn("m-1", "go"))
				card := <-h.shown
				for range faults {
					err := press(card, "once")
					require.Error(s, err)
					require.NotErrorIs(s, err, agent.ErrCardExpired)
				}
				require.NoError(s, press(card, "once"))
				<-done
				require.NoError(s, h.err)
				require.Equal(s, []hermestest.Answer{{Choice: "once", RequestID: s.hermes.Runs()[0].Answers[0].RequestID}}, s.hermes.Runs()[0].Answers)
			})
		})
	}
}

// TestAnyReceiptConfirms: a success is one, whatever its body is.
func TestAnyReceiptConfirms(t *testing.T) {
	for _, body := range []string{"", "ok", "[]", `{"choice":1}`} {
		play(t, hermestest.Config{Rules: rule(dangerous("ls")), Faults: []hermestest.Fault{{Route: approvalRoute, Status: 200, Body: body}}}, Config{}, func(s *stage) {
			ctx, stop := context.WithCancelCause(s.Context())
			h, done := s.begin(ctx, turn("m-1", "go"))
			require.NoError(s, press(<-h.shown, "once"))
			stop(agent.ErrStopped) // this one did not take it, in truth
			<-done
		})
	}
}

// TestUnsureAnswerIsNotRepeated: where the agent does not look at ids, and nobody knows whether an answer arrived, another
// one could reach another question. So none is sent until the agent has denied what may be open by itself.
func TestUnsureAnswerIsNotRepeated(t *testing.T) {
	features := hermestest.A
	features.ApprovalField = true
	for name, c := range map[string]struct {
		fault hermestest.Fault
		took  string
	}{
		"lost": {hermestest.Fault{Lose: true}, "ls once. rm timed out. cp once."},
		"cut":  {hermestest.Fault{Cut: true}, "ls timed out. rm once. cp once."},
	} {
		t.Run(name, func(t *testing.T) {
			c.fault.Route = approvalRoute
			steps := rule(step("cut", ""), dangerous("ls"), step("delta", " "), dangerous("rm"), step("delta", " "), dangerous("cp"))
			play(t, hermestest.Config{Features: features, Rules: steps, Faults: []hermestest.Fault{c.fault}}, Config{}, func(s *stage) {
				h, done := s.begin(s.Context(), turn("m-1", "go"))
				card := <-h.shown // from the status: there is no stream
				require.Equal(s, "ls", card.Command)
				require.Error(s, press(card, "once"))
				time.Sleep(time.Minute)
				require.Empty(s, h.shown)
				if c.fault.Lose {
					require.Equal(s, agent.ErrCardExpired, press(card, "once"), "it may be over, and another one is open")
				} else {
					time.Sleep(card.TTL - time.Minute)
					card.Answers <- agent.Answer{Option: "deny", Expired: true}
					require.NoError(s, press(<-h.shown, "once"))
				}
				card = <-h.shown
				require.Equal(s, "cp", card.Command)
				require.NoError(s, press(card, "once"))
				<-done
				require.NoError(s, h.err)
				require.Equal(s, c.took, h.text()[strings.LastIndex(h.text(), "\n")+1:])
			})
		})
	}
}

// TestCardOutlivesTheStream: the stream breaks off while the card is open, or before it could come.
func TestCardOutlivesTheStream(t *testing.T) {
	for name, features := range generations {
		features.ApprovalField = true
		ask := dangerous("ls")
		for what, steps := range map[string][]hermestest.Step{
			"before": {step("delta", "one "), step("cut", ""), {Do: "wait", For: time.Second}, ask},
			"while":  {step("delta", "one "), {Do: "fault", Fault: &hermestest.Fault{Route: "GET /v1/runs/{id}/events", Status: 500, Times: -1}}, ask},
		} {
			t.Run(name+what, func(t *testing.T) {
				play(t, hermestest.Config{Features: features, Rules: rule(steps...)}, Config{Idle: time.Minute}, func(s *stage) {
					h, done := s.begin(s.Context(), turn("m-1", "go"))
					card := <-h.shown
					time.Sleep(100 * time.Second)
					require.NoError(s, press(card, "once"))
					<-done
					require.NoError(s, h.err)
					require.Contains(s, h.text(), "ls once.")
					require.Empty(s, h.shown)
					require.Len(s, s.hermes.Runs()[0].Answers, 1)
				})
			})
		}
	}
}

// TestQuestionHeardLate: a card lives no longer than the question does, however late it comes and whatever the clocks say.
func TestQuestionHeardLate(t *testing.T) {
	features := hermestest.B
	features.ApprovalField = false // else the status brings it sooner
	play(t, hermestest.Config{
		Features: features, Rules: rule(step("delta", "one "), step("cut", ""), dangerous("ls")),
		Faults: []hermestest.Fault{{Route: "GET /v1/runs/{id}/events", Skip: 1, Status: 503, RetryAfter: "100"}},
	}, Config{}, func(s *stage) {
		start := time.Now()
		h, done := s.begin(s.Context(), turn("m-1", "go"))
		card := <-h.shown
		late := time.Since(start)
		require.Greater(s, late, 100*time.Second)
		require.InDelta(s, 295*time.Second-late, card.TTL, float64(2*time.Second))
		require.NoError(s, press(card, "once"))
		<-done
	})
	var c clock
	now := time.Unix(1_700_000_000, 0)
	require.Zero(t, c.age(0, now))
	require.Zero(t, c.age(1_700_000_500, now), "the clock of the agent is ahead, for all that one knows")
	require.Equal(t, 7*time.Second, c.age(1_700_000_503, now.Add(10*time.Second)))
	require.Zero(t, c.age(1_700_000_600, now.Add(10*time.Second)))
}

// TestTwoQuestionsAtOnce are shown one after the other, so that an answer cannot reach the wrong one.
func TestTwoQuestionsAtOnce(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			ask := dangerous("ls")
			ask.More = []hermestest.Step{dangerous("rm")}
			play(t, hermestest.Config{Features: features, Rules: rule(ask)}, Config{}, func(s *stage) {
				h, done := s.begin(s.Context(), turn("m-1", "go"))
				card := <-h.shown
				require.Equal(s, "ls", card.Command)
				time.Sleep(100 * time.Second)
				require.Empty(s, h.shown)
				require.NoError(s, press(card, "once"))
				card = <-h.shown
				require.Equal(s, "rm", card.Command)
				require.Equal(s, 195*time.Second, card.TTL, "it has waited")
				require.NoError(s, press(card, "deny"))
				<-done
				require.NoError(s, h.err)
				answers := s.hermes.Runs()[0].Answers
				require.Len(s, answers, 2)
				require.Equal(s, "once", answers[0].Choice)
				require.Equal(s, "deny", answers[1].Choice)
			})
		})
	}
}

func TestExpiredCardDenies(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			play(t, hermestest.Config{Features: features, Rules: rule(dangerous("ls"))}, Config{}, func(s *stage) {
				h, done := s.begin(s.Context(), turn("m-1", "go"))
				card := <-h.shown
				time.Sleep(card.TTL)
				card.Answers <- agent.Answer{Option: "deny", Expired: true}
				<-done
				require.NoError(s, h.err)
				require.Contains(s, h.text(), "ls denied.", "before Hermes' own time is over")
			})
		})
	}
}

func TestTooLate(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			ask := dangerous("ls")
			ask.For = time.Minute // this Hermes waits for less than it is said to
			play(t, hermestest.Config{Features: features, Rules: rule(ask, hermestest.Step{Do: "wait", For: 5 * time.Minute})}, Config{}, func(s *stage) {
				h, done := s.begin(s.Context(), turn("m-1", "go"))
				card := <-h.shown
				time.Sleep(2 * time.Minute)
				require.Equal(s, agent.ErrCardExpired, press(card, "once"))
				<-done
				require.NoError(s, h.err)
				require.Empty(s, s.hermes.Runs()[0].Answers)
			})
		})
	}
	play(t, hermestest.Config{Rules: rule(dangerous("ls")), Faults: []hermestest.Fault{{Route: approvalRoute, Status: 409, Body: "too late"}}}, Config{}, func(s *stage) {
		ctx, stop := context.WithCancelCause(s.Context())
		h, done := s.begin(ctx, turn("m-1", "go"))
		require.Equal(s, agent.ErrCardExpired, press(<-h.shown, "once"), "in whatever words")
		stop(agent.ErrStopped)
		<-done
	})
	ask := dangerous("ls")
	ask.For = time.Minute
	play(t, hermestest.Config{Rules: rule(ask)}, Config{ApprovalTimeout: time.Minute}, func(s *stage) {
		h, done := s.begin(s.Context(), turn("m-1", "go"))
		require.Equal(s, 59*time.Second, (<-h.shown).TTL)
		<-done
	})
}

// TestAnsweredElsewhere: somebody else answers the question; the card says so when it is pressed, and the next one comes.
func TestAnsweredElsewhere(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			play(t, hermestest.Config{Features: features, Rules: rule(dangerous("ls"), dangerous("rm"))}, Config{}, func(s *stage) {
				h, done := s.begin(s.Context(), turn("m-1", "go"))
				card := <-h.shown
				run := s.hermes.Runs()[0].ID
				require.NoError(s, s.agent.call(s.Context(), "POST", "/v1/runs/"+run+"/approval", map[string]string{"choice": "session"}, nil))
				next := <-h.shown
				require.Equal(s, "rm", next.Command)
				require.Equal(s, agent.ErrCardExpired, press(card, "once"))
				require.NoError(s, press(next, "once"))
				<-done
				require.NoError(s, h.err)
				require.Len(s, s.hermes.Runs()[0].Answers, 2)
			})
		})
	}
}

func TestApprovalsAreBounded(t *testing.T) {
	var asks []hermestest.Step
	for i := range 2 * maxApprovals {
		asks = append(asks, hermestest.Step{Do: "event", Event: "approval.request", Fields: map[string]any{"command": strings.Repeat("x", i+1), "request_id": strings.Repeat("y", i+1)}})
	}
	for _, exact := range []bool{true, false} {
		play(t, hermestest.Config{Rules: rule(append(asks, hermestest.Step{Do: "wait", For: time.Minute})...)}, Config{}, func(s *stage) {
			s.agent.exact.Store(exact)
			h, done := s.begin(s.Context(), turn("m-1", "go"))
			synctest.Wait()
			shown := 1
			if exact {
				shown = maxApprovals
			}
			for range shown {
				require.Equal(s, agent.ErrCardExpired, press(<-h.shown, "once"), "Hermes asked nothing")
			}
			<-done
			require.Empty(s, h.shown, "else an answer could reach one that was left out")
		})
	}
}

func TestStopWhileACardIsOpen(t *testing.T) {
	play(t, hermestest.Config{Features: hermestest.B, Rules: rule(dangerous("ls"))}, Config{}, func(s *stage) {
		ctx, stop := context.WithCancelCause(s.Context())
		h, done := s.begin(ctx, turn("m-1", "go"))
		<-h.shown
		stop(agent.ErrStopped)
		<-done
		synctest.Wait()
		run := s.hermes.Runs()[0]
		require.Equal(s, "cancelled", run.Status)
		require.Equal(s, 1, run.Stops)
	})
}

// TestQuestionsWithoutIDs are told apart by what they ask and when; and not all that ever came are remembered.
func TestQuestionsWithoutIDs(t *testing.T) {
	a, err := New(Config{})
	require.NoError(t, err)
	defer a.Close()
	shown := 0
	r := &run{a: a, speech: newSpeech(&a.share, phone, func(e agent.Event) {
		if e.Kind == agent.ShowCard {
			shown++
		}
	})}
	now := time.Now()
	for i := range 10 * maxKnown {
		for range 2 { // from the stream, and from the status
			require.NoError(t, r.ask(&frame{Command: "ls", Timestamp: seconds(1_700_000_000 + i)}, now))
		}
		require.Equal(t, i+1, shown)
		require.NoError(t, r.closeCard())
		require.LessOrEqual(t, len(r.cards.known), maxKnown)
	}
	p := newSpeech(&a.share, phone, func(agent.Event) { require.Fail(t, "shown") })
	require.NoError(t, p.delta("![x](data:image/png;base64,"+strings.Repeat("A", maxRaw-30)))
	require.Equal(t, errLength, p.delta("AAAA"))
}
