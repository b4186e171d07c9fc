package interop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/agent/hermes/hermestest"
	"mobilegate/agent/openai/openaitest"
)

// endsWell: whatever befell the service, the device has the whole answer, or what was said so far and one sentence that says
// why; nothing is left open, and its next message is answered.
func (d *device) endsWell(text, whole string) {
	d.t.Helper()
	said, failed := d.turn(text)
	if whole != "" {
		require.Empty(d.t, failed)
		require.Equal(d.t, whole, strings.Join(said, ""))
	} else {
		require.Len(d.t, failed, 1)
		var f struct{ Message string }
		require.NoError(d.t, json.Unmarshal([]byte(failed[0].raw), &f))
		require.Equal(d.t, "internal_error", failed[0].Code)
		require.Equal(d.t, fmt.Sprintf("%s-%d", d.conn, d.said), failed[0].ID)
		require.Regexp(d.t, `^[A-Z][^{}<>\n]+\.$`, f.Message)
		require.NotEqual(d.t, "The agent could not answer this message.", f.Message, "it does not say why")
		require.NotContains(d.t, f.Message, "secret")
	}
	said, failed = d.turn("once more")
	require.Empty(d.t, failed)
	require.Contains(d.t, strings.Join(said, ""), "once more")
}

func TestFaultsOfOpenAI(t *testing.T) {
	t.Parallel()
	times := func(n int, s openaitest.Step) (steps []openaitest.Step) {
		for range n {
			steps = append(steps, s)
		}
		return steps
	}
	const text, answer = "one two three", "turn 1: one two three"
	for name, c := range map[string]struct {
		script openaitest.Script
		whole  string
	}{
		"busy for a second":    {openaitest.Script{Steps: times(1, openaitest.Step{Status: 429, RetryAfter: "1"})}, answer},
		"broken once":          {openaitest.Script{Steps: times(1, openaitest.Step{Status: 502, Body: "secret"})}, answer},
		"broken":               {openaitest.Script{Steps: times(4, openaitest.Step{Status: 500, Body: `{"error":{"message":"secret"}}`})}, ""},
		"busy for long":        {openaitest.Script{Steps: times(1, openaitest.Step{Status: 429, RetryAfter: "3600"})}, ""},
		"the key is refused":   {openaitest.Script{Steps: times(1, openaitest.Step{Status: 401, Body: "secret"})}, ""},
		"the request is":       {openaitest.Script{Steps: times(2, openaitest.Step{Status: 400, Body: "secret"})}, ""},
		"cut off":              {openaitest.Script{Steps: times(1, openaitest.Step{After: 3, Then: openaitest.Cut})}, ""},
		"cut before a word":    {openaitest.Script{Steps: times(1, openaitest.Step{Then: openaitest.Cut})}, answer},
		"an error in between":  {openaitest.Script{Steps: times(1, openaitest.Step{After: 3, Then: openaitest.Error})}, ""},
		"garbage in between":   {openaitest.Script{Steps: times(1, openaitest.Step{Garbage: true})}, answer},
		"not streamed":         {openaitest.Script{Steps: times(1, openaitest.Step{Plain: true})}, answer},
		"no answer at all":     {openaitest.Script{Steps: times(4, openaitest.Step{Body: "<html>secret</html>"})}, ""},
		"no end":               {openaitest.Script{Steps: times(1, openaitest.Step{NoEnd: true})}, answer},
		"an older service":     {openaitest.Script{NoOptions: true}, answer},
		"thinks and says ping": {openaitest.Script{Steps: times(1, openaitest.Step{Reasoning: "secret", KeepAlive: 3, Role: true})}, answer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, _ := openAI(t, c.script)
			coderWebsocket(t).online(g.url, "d", "tel-1").endsWell(text, c.whole)
			require.NotContains(t, g.log.String(), "secret")
		})
	}
}

func TestFaultsOfHermes(t *testing.T) {
	t.Parallel()
	run := func(steps ...hermestest.Step) []hermestest.Rule {
		return []hermestest.Rule{{Prefix: "one", Steps: steps}}
	}
	words := func(text string) hermestest.Step { return hermestest.Step{Do: "words", Text: text} }
	const text, answer = "one two three", "turn 1: one two three"
	for name, c := range map[string]struct {
		config hermestest.Config
		whole  string
	}{
		"busy for a second":  {hermestest.Config{Faults: []hermestest.Fault{{Route: "POST /v1/runs", Status: 429, RetryAfter: "1"}}}, answer},
		"draining":           {hermestest.Config{Faults: []hermestest.Fault{{Route: "POST /v1/runs", Status: 503, Code: "gateway_draining", RetryAfter: "1", Times: 2}}}, answer},
		"no events yet":      {hermestest.Config{Faults: []hermestest.Fault{{Route: "GET /v1/runs/{id}/events", Status: 503, RetryAfter: "1"}}}, answer},
		"the answer is lost": {hermestest.Config{Faults: []hermestest.Fault{{Route: "POST /v1/runs", Lose: true}}}, answer},
		"no features":        {hermestest.Config{Faults: []hermestest.Fault{{Route: "GET /v1/capabilities", Status: 404, Times: -1}}}, answer},
		"the key is refused": {hermestest.Config{Faults: []hermestest.Fault{{Route: "POST /v1/runs", Status: 401, Body: "secret"}}}, ""},
		"broken":             {hermestest.Config{Faults: []hermestest.Fault{{Route: "POST /v1/runs", Status: 500, Body: "secret", Times: 4}}}, ""},
		"fails":              {hermestest.Config{Rules: run(words("Half of "), hermestest.Step{Do: "fail", Text: "secret"})}, ""},
		"is cancelled":       {hermestest.Config{Rules: run(words("Half of "), hermestest.Step{Do: "cancel"})}, ""},
		"cut":                {hermestest.Config{Rules: run(words("turn 1: one "), hermestest.Step{Do: "cut"}, words("two three"), hermestest.Step{Do: "complete"})}, answer},
		"cut within an event": {hermestest.Config{Rules: run(words("turn 1: one "), hermestest.Step{Do: "cut", Text: `data: {"event":"mess`}, words("two three"),
			hermestest.Step{Do: "complete"})}, answer},
		"ends without a word": {hermestest.Config{Rules: run(words(answer), hermestest.Step{Do: "complete", Silent: true})}, answer},
		"garbage":             {hermestest.Config{Rules: run(hermestest.Step{Do: "raw", Text: "data: secret\n\ndata: {}\n\nevent: x\n\n"}, words(answer), hermestest.Step{Do: "complete"})}, answer},
		"restarts":            {hermestest.Config{Rules: run(words("Half of "), hermestest.Step{Do: "restart"})}, ""},
	} {
		for generation, features := range map[string]hermestest.Features{"A": hermestest.A, "B": hermestest.B} {
			t.Run(name+" "+generation, func(t *testing.T) {
				t.Parallel()
				c.config.Features = features
				g, _ := aHermes(t, c.config)
				whole := c.whole
				if name == "the answer is lost" && !features.Idempotency {
					whole = "" // asked again, such an agent would do it twice
				}
				coderWebsocket(t).online(g.url, "d", "tel-1").endsWell(text, whole)
				require.NotContains(t, g.log.String(), "secret")
			})
		}
	}
}
