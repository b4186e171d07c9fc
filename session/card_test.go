package session

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/internal/transcript"
)

// prompts takes the ids of the cards that were shown.
func (c *fakeConn) prompts() (ids []string) {
	for _, f := range c.texts() {
		if rest, is := strings.CutPrefix(f, `{"t":"prompt","id":"`); is {
			id, _, _ := strings.Cut(rest, `"`)
			ids = append(ids, id)
		}
	}
	return ids
}

// asker shows a card for 10 s, confirms the answer, and then waits whether there is another.
func asker(answers chan<- agent.Answer) askFunc {
	return func(ctx context.Context, _ *agent.Turn, emit func(agent.Event)) (string, error) {
		card := &agent.Card{Kind: agent.ExecApproval, TTL: 10 * time.Second, Answers: make(chan agent.Answer, 1)}
		emit(agent.Event{Kind: agent.ShowCard, Card: card})
		a := <-card.Answers
		answers <- a
		if a.Confirm != nil {
			a.Confirm(nil)
		}
		select {
		case a := <-card.Answers:
			answers <- a
		case <-ctx.Done():
		case <-time.After(time.Hour):
		}
		return "", nil
	}
}

// TestAnswerMeetsTimeOut: at the very moment at which a card's time is over, answers come from all sides. One of them takes
// effect, or the time-out does: the agent gets one answer, and the device hears the same.
func TestAnswerMeetsTimeOut(t *testing.T) {
	won := map[string]int{}
	for round := range 150 {
		bubble(t, func(t *testing.T) {
			answers := make(chan agent.Answer, 10)
			g := newStageFor(t, asker(answers), "slots=1")
			c := g.join("tel-1", "secret")
			c.text("1", "ask")
			require.NoError(t, g.Settle())
			id := c.prompts()[0]
			require.NoError(t, g.Advance(9*time.Second))
			require.Equal(t, 1, g.hub.slots.free, "a turn that waits for a card takes no slot")
			due := g.now().Add(time.Second + tick)
			var all sync.WaitGroup
			all.Go(func() {
				g.ns.Store(due.UnixNano())
				g.hub.Tick(due)
			})
			for range 3 {
				all.Go(func() {
					for range round % 50 {
						runtime.Gosched() // so that each of them wins some rounds
					}
					c.Say(fmt.Appendf(nil, `{"t":"prompt","prompt_id":%q,"option_id":"once"}`, id))
				})
			}
			all.Wait()
			require.NoError(t, g.Settle())
			require.Len(t, answers, 1)
			a := <-answers
			choices, expired := 0, 0
			for _, f := range c.texts() {
				choices += strings.Count(f, `"option_id":"once"`)
				expired += strings.Count(f, `"expired":true`)
			}
			if a.Expired {
				won["time-out"]++
				require.Equal(t, "deny", a.Option)
				require.Equal(t, []int{0, 4}, []int{choices, expired})
			} else {
				won["answer"]++
				require.Equal(t, "once", a.Option)
				require.Equal(t, []int{1, 2}, []int{choices, expired})
			}
			time.Sleep(2 * time.Hour) // of the bubble: the agent's turn ends
			require.NoError(t, g.Settle())
			g.close()
		})
	}
	require.Len(t, won, 2, "one side won every round: %v", won)
}

// TestSlotsComeBack: a turn gives its slot back while it waits for a card, takes it again when the card is answered, and ends
// at any of these moments; in the end every slot is free, and there was never one too many.
func TestSlotsComeBack(t *testing.T) {
	steps := map[string]func(st *slotState, l *slots){
		"give": func(st *slotState, l *slots) { st.give(l) },
		"take": func(st *slotState, l *slots) { st.retake(l) },
		"end": func(st *slotState, l *slots) {
			if st.end(l) {
				l.release()
			}
		},
	}
	for _, order := range [][]string{
		{"end"}, {"give", "end"}, {"give", "take", "end"}, {"give", "give", "take", "end"}, {"give", "take", "take", "end"},
		{"take", "give", "end"}, {"end", "give"}, {"end", "take"}, {"give", "end", "take"}, {"give", "take", "give", "end", "take", "give"},
	} {
		for _, atOnce := range []bool{false, true} {
			for range 20 {
				l := &slots{free: 2, most: 2}
				var st slotState
				require.True(t, l.take(nil))
				st.Store(slotHeld)
				var all sync.WaitGroup
				for _, what := range order {
					if atOnce {
						all.Go(func() { steps[what](&st, l) })
					} else {
						steps[what](&st, l)
					}
				}
				all.Wait()
				require.Equal(t, []int{2, 0, 0}, []int{l.free, l.running, l.parked}, "%v at once: %v", order, atOnce)
			}
		}
	}
}

// TestParkedTurnsAreBounded: where too many turns wait for cards already, a further card gets its safe value at once; a turn
// that is among them may show as many as any other.
func TestParkedTurnsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, []string{"slots=1"})
		first, second := g.join("tel-1", "secret"), g.join("tel-2", "secret")
		ask := `{"kind":"exec_approval","command":"ls","ttl":"10s"}`
		first.text("1", "/hold")
		require.NoError(t, g.Settle())
		g.tell(t, "tel-1", "asks", ask)
		g.tell(t, "tel-1", "asks", ask)
		require.Len(t, first.prompts(), 2)
		second.text("1", "/hold")
		require.NoError(t, g.Settle())
		g.tell(t, "tel-2", "asks", ask)
		require.Empty(t, second.prompts())
		answer, err := g.Act("tel-2", transcript.Act{Verb: transcript.Hears})
		require.NoError(t, err)
		require.JSONEq(t, `{"card":1,"option":"deny","text":"","expired":true}`, string(answer))
		require.NoError(t, g.Advance(11*time.Second))
		g.tell(t, "tel-1", "ends", "")
		g.tell(t, "tel-2", "asks", ask)
		require.Len(t, second.prompts(), 1, "there is room again")
		g.close()
	})
}

// TestAnswersThatWaitAreBounded: a device that answers a card without end, while the agent confirms the first answer, is told
// that this is too much.
func TestAnswersThatWaitAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		g.hub.cfg.QuotaOff = true
		c := g.join("tel-1", "secret")
		c.text("1", "/hold")
		require.NoError(t, g.Settle())
		g.tell(t, "tel-1", "asks", `{"kind":"exec_approval","command":"ls"}`)
		id := c.prompts()[0]
		const too = 7
		for range 1 + maxLater + too {
			c.Say(fmt.Appendf(nil, `{"t":"prompt","prompt_id":%q,"option_id":"once"}`, id))
		}
		require.NoError(t, g.Settle())
		require.Equal(t, too, strings.Count(strings.Join(c.texts(), ""), `"rate_limited"`))
		require.Len(t, g.hub.find("tel-1").work.cards[0].later, maxLater)
		_, err := g.Act("tel-1", transcript.Act{Verb: transcript.Hears})
		require.NoError(t, err)
		g.tell(t, "tel-1", "confirms", "")
		require.Equal(t, maxLater, strings.Count(strings.Join(c.texts(), ""), `"expired":true`))
		g.close()
	})
}

// TestCardOfAnAgentThatDoesNotListen: an agent that has no room for an answer, or never confirms one, or confirms it twice or
// when all is over, harms nobody.
func TestCardOfAnAgentThatDoesNotListen(t *testing.T) {
	for name, card := range map[string]func(card *agent.Card, emit func(agent.Event)) func(){
		"its channel is nil": func(card *agent.Card, emit func(agent.Event)) func() {
			card.Answers = nil
			emit(agent.Event{Kind: agent.ShowCard, Card: card})
			return nil
		},
		"its channel is full": func(card *agent.Card, emit func(agent.Event)) func() {
			card.Answers <- agent.Answer{}
			emit(agent.Event{Kind: agent.ShowCard, Card: card})
			return nil
		},
		"it is of no kind": func(card *agent.Card, emit func(agent.Event)) func() {
			card.Kind = "riddle"
			emit(agent.Event{Kind: agent.ShowCard, Card: card})
			return nil
		},
		"it confirms late and often": func(card *agent.Card, emit func(agent.Event)) func() {
			emit(agent.Event{Kind: agent.ShowCard, Card: card})
			a := <-card.Answers
			return func() {
				for _, err := range []error{errors.New("no"), nil, agent.ErrCardExpired} {
					if a.Confirm != nil {
						a.Confirm(err)
					}
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				release := make(chan struct{})
				var late func()
				g := newStageFor(t, askFunc(func(_ context.Context, _ *agent.Turn, emit func(agent.Event)) (string, error) {
					late = card(&agent.Card{Kind: agent.ExecApproval, Answers: make(chan agent.Answer, 1)}, emit)
					<-release
					return "done", nil
				}))
				c := g.join("tel-1", "secret")
				c.text("1", "ask")
				require.NoError(t, g.Settle())
				for _, id := range c.prompts() {
					c.Say(fmt.Appendf(nil, `{"t":"prompt","prompt_id":%q,"option_id":"once"}`, id))
				}
				require.NoError(t, g.Settle())
				require.NoError(t, g.Advance(10*time.Minute))
				close(release)
				require.NoError(t, g.Settle())
				require.Equal(t, []string{"done"}, c.replies())
				require.Nil(t, g.hub.cards.of)
				if late != nil {
					late()
					require.NoError(t, g.Settle())
					require.Empty(t, c.texts())
				}
				require.Zero(t, g.hub.Stats().Panics)
				g.close()
			})
		})
	}
}

// TestCardsOfACrowd: the cards of many devices end in any order, and none of them is known any more then.
func TestCardsOfACrowd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		const devices = 50
		var all sync.WaitGroup
		for i := range devices {
			name := fmt.Sprint("tel-", i)
			c := g.join(name, "secret")
			c.text("1", fmt.Sprintf("/ttl %d /approve ls", 1+i%5))
			require.NoError(t, g.Settle())
			id := c.prompts()[0]
			switch i % 3 {
			case 0:
				all.Go(func() { c.Say(fmt.Appendf(nil, `{"t":"prompt","prompt_id":%q,"option_id":"once"}`, id)) })
			case 1:
				all.Go(func() { c.Do(transcript.Break) })
			}
		}
		all.Wait()
		require.NoError(t, g.Advance(6*time.Second))
		require.Nil(t, g.hub.cards.of)
		require.Equal(t, g.hub.cfg.MaxTurns, g.hub.slots.free)
		g.close()
	})
}
