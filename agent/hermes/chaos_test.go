package hermes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/hermes/hermestest"
)

// question asks whether a command may run, and perhaps at the same time whether others may.
func question(r *rand.Rand, command string, others int) hermestest.Step {
	q := func(command string) hermestest.Step {
		return hermestest.Step{Do: "approval", Command: command, For: hermesWaits, On: map[string][]hermestest.Step{
			"once": {step("delta", map[string]string{"good": "", "evil": "EVIL "}[command])}, "*": nil,
		}}
	}
	s := q(command)
	for range r.IntN(others + 1) {
		s.More = append(s.More, q([]string{"good", "evil"}[r.IntN(2)]))
	}
	return s
}

const hermesWaits = 20 * time.Second

// chance makes a Hermes of some version that meets some troubles.
func chance(r *rand.Rand) hermestest.Config {
	flip := func() bool { return r.IntN(2) == 0 }
	pause := func() hermestest.Step {
		return hermestest.Step{Do: "wait", For: time.Duration(r.Int64N(int64(5 * time.Second))), Quiet: flip()}
	}
	cfg := hermestest.Config{Features: hermestest.Features{
		Idempotency: flip(), Journal: flip(), ApprovalField: flip(), RequestID: flip(), StopFinished: flip(), Detach: flip(), DeafReconnect: flip(),
	}}
	others := 2
	if cfg.Features.ApprovalField && !cfg.Features.RequestID { // no such Hermes is known: its status would hide the oldest
		others = 0
	}
	var steps []hermestest.Step
	for _, word := range []string{"alpha ", "beta ", "gamma"} {
		for range r.IntN(3) {
			steps = append(steps, []hermestest.Step{
				pause(), step("cut", "data: {\"eve"), step("eof", ""), {Do: "tool", Tool: "x", For: time.Second}, step("reasoning", "hm"),
				question(r, "good", others), question(r, "evil", others),
			}[r.IntN(7)])
		}
		steps = append(steps, step("delta", word))
	}
	end := []hermestest.Step{{Do: "complete"}, {Do: "complete", Silent: true}, step("fail", "secret"), {Do: "fail", Silent: true}, step("cancel", ""), step("restart", "")}
	cfg.Rules = rule(append(steps, end[max(0, r.IntN(2*len(end))-len(end))])...)
	routes := []string{"POST /v1/runs", "GET /v1/runs/{id}", "GET /v1/runs/{id}/events", approvalRoute, "GET /v1/capabilities", "POST /api/sessions/{id}/chat/stream", ""}
	for range r.IntN(4) {
		f := hermestest.Fault{Route: routes[r.IntN(len(routes))], Skip: r.IntN(3), Times: 1 + r.IntN(6)}
		switch kind := r.IntN(5); {
		case kind == 0:
			f.Cut = true
		case kind == 1:
			f.Lose = true
		case kind == 2 && cfg.Features.RequestID: // else an answer on its way could outlive its question
			f.Delay = time.Duration(r.Int64N(int64(2 * time.Minute)))
		default:
			f.Status = []int{400, 401, 404, 409, 429, 500, 502, 503}[r.IntN(8)]
			if flip() {
				f.RetryAfter = "2"
			}
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	return cfg
}

// TestChaos: whatever happens, the user hears the whole answer, or what there was of it and one clear sentence; and no
// message is done twice, and no command runs that the user denied.
func TestChaos(t *testing.T) {
	outcomes := map[bool]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		cfg, picture := chance(r), r.IntN(4) == 0
		what := fmt.Sprintf("seed %d: %+v", seed, cfg)
		play(t, cfg, Config{ApprovalTimeout: hermesWaits}, func(s *stage) {
			ask := turn("m-1", "go")
			if picture {
				ask.File = fileOf("image", "x.png", "image/png", hermestest.Pixel())
			}
			h, done := s.begin(s.Context(), ask)
			for open := true; open; {
				select {
				case c := <-h.shown:
					go answerAtLast(c, time.Duration(r.Int64N(int64(hermesWaits))), done)
				case <-done:
					open = false
				}
			}
			var texts []string
			for _, e := range h.events {
				if e.Kind == agent.Delta || e.Kind == agent.Message {
					texts = append(texts, e.Text)
				}
			}
			text := strings.Join(strings.Fields(strings.Join(append(texts, h.reply), "")), " ")
			if h.err == nil {
				require.Equal(s, "alpha beta gamma", text, what)
			} else {
				h.tell(s.T)
				require.NotContains(s, h.err.Error(), "secret", what)
				require.Contains(s, "alpha beta gamma", text, what)
			}
			outcomes[h.err == nil]++
			runs := s.hermes.Runs()
			require.LessOrEqual(s, len(runs), 1, what)
			require.NotContains(s, text, "EVIL", what)
			for _, run := range runs {
				asked := map[string]int{}
				for _, a := range run.Answers {
					asked[a.RequestID]++
				}
				require.True(s, slices.IndexFunc(run.Answers, func(a hermestest.Answer) bool { return a.RequestID != "" && asked[a.RequestID] > 1 }) < 0, what)
			}
		})
	}
	require.Greater(t, outcomes[true], 100)
	require.Greater(t, outcomes[false], 20)
}

// answerAtLast presses a card after a while, again and again until that takes effect or the card expires.
func answerAtLast(c *agent.Card, after time.Duration, done chan struct{}) {
	option := map[string]string{"good": "once", "evil": "deny"}[c.Command]
	expires := time.Now().Add(c.TTL)
	for {
		select {
		case <-time.After(min(after, time.Until(expires))):
		case <-done:
			return
		}
		if !time.Now().Before(expires) {
			c.Answers <- agent.Answer{Option: "deny", Expired: true}
			return
		}
		confirmed := make(chan error, 1)
		c.Answers <- agent.Answer{Option: option, Confirm: func(err error) { confirmed <- err }}
		select {
		case err := <-confirmed:
			if err == nil || err == agent.ErrCardExpired {
				return
			}
		case <-done:
			return
		}
		after = time.Second
	}
}
