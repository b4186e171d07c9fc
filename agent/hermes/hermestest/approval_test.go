package hermestest

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// two asks two questions at once.
var two = []Rule{{Steps: []Step{{
	Do: "approval", Fields: map[string]any{"smart_denied": true}, Command: "rm {rest}", Text: "gone", RequestID: "first",
	On: map[string][]Step{"once": {{Do: "delta", Text: "1"}}, "deny": {{Do: "delta", Text: "no1"}}},
	More: []Step{{
		Command: "ls", RequestID: "second", Choices: []string{"once", "deny"},
		On: map[string][]Step{"*": {{Do: "delta", Text: "2"}}},
	}},
}}}}

func TestApproval(t *testing.T) {
	for name, c := range map[string]struct {
		features Features
		body     string
		answered []Answer
	}{
		"A answers the oldest": {A, `{"choice":"once","request_id":"second"}`, []Answer{{"once", "first"}}},
		"A cares for no id":    {A, `{"choice":"Approve","request_id":7}`, []Answer{{"once", "first"}}},
		"B answers the named":  {B, `{"choice":"once","request_id":"second"}`, []Answer{{"once", "second"}}},
		"B without a name":     {B, `{"choice":"deny"}`, []Answer{{"deny", "first"}}},
		"all":                  {B, `{"choice":"session","all":true}`, []Answer{{"session", "first"}, {"session", "second"}}},
		"all, older":           {A, `{"choice":"always","resolve_all":true}`, []Answer{{"always", "first"}, {"always", "second"}}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Features: c.features, Rules: two}, func(cl *client) {
				id := cl.run("x")
				f := cl.open("/v1/runs/" + id + "/events")
				defer f.close()
				e := f.event()
				require.Equal(t, "approval.request", e["event"])
				require.Equal(t, "rm x", e["command"])
				require.Equal(t, true, e["smart_denied"])
				require.Equal(t, []any{"once", "session", "always", "deny"}, e["choices"])
				require.Equal(t, true, e["allow_permanent"])
				require.Equal(t, false, f.event()["allow_permanent"])
				run := cl.object(http.StatusOK, "GET", "/v1/runs/"+id, "")
				require.Equal(t, "waiting_for_approval", run["status"])
				if field, _ := run["approval"].(map[string]any); c.features.ApprovalField {
					require.Equal(t, "ls", field["command"], "the latest question")
				} else {
					require.Nil(t, field)
				}
				all := cl.object(http.StatusOK, "POST", "/v1/runs/"+id+"/approval", c.body)
				require.Equal(t, float64(len(c.answered)), all["resolved"])
				require.Equal(t, "approval.responded", f.event()["event"])
				require.Equal(t, c.answered, cl.Runs()[0].Answers)
			})
		})
	}
}

func TestApprovalRefusals(t *testing.T) {
	play(t, Config{Features: B, Rules: two}, func(c *client) {
		id := c.run("x")
		path := "/v1/runs/" + id + "/approval"
		require.Equal(t, "approval_not_pending", code(c.object(http.StatusConflict, "POST", path, `{"choice":"once"}`)))
		time.Sleep(time.Second)
		for body, want := range map[string]any{
			`{`:                                 nil,
			`{"choice":"yes"}`:                  "invalid_approval_choice",
			`{"choice":7}`:                      "invalid_approval_choice",
			`{"choice":"once","request_id":""}`: "invalid_approval_request",
			`{"choice":"once","request_id":[]}`: "invalid_approval_request",
			`{"choice":"once","request_id":"` + strings.Repeat("i", 257) + `"}`: "invalid_approval_request",
		} {
			require.Equal(t, want, code(c.object(http.StatusBadRequest, "POST", path, body)), body)
		}
		require.Equal(t, "approval_not_pending", code(c.object(http.StatusConflict, "POST", path, `{"choice":"once","request_id":"third"}`)))
		c.object(http.StatusOK, "POST", path, `{"choice":"once","all":true}`)
		time.Sleep(time.Second)
		require.Equal(t, "approval_not_active", code(c.object(http.StatusConflict, "POST", path, `{"choice":"once"}`)))
		require.Equal(t, "12", c.object(http.StatusOK, "GET", "/v1/runs/"+id, "")["output"])
	})
}

func TestApprovalTimesOut(t *testing.T) {
	for name, c := range map[string]struct {
		on   map[string][]Step
		want string
	}{
		"timeout": {map[string][]Step{"timeout": {{Do: "complete", Text: "late"}}, "deny": {{Do: "complete", Text: "denied"}}}, "late"},
		"deny":    {map[string][]Step{"deny": {{Do: "complete", Text: "denied"}}}, "denied"},
		"neither": {nil, "after"},
	} {
		t.Run(name, func(t *testing.T) {
			rules := []Rule{{Steps: []Step{{Do: "approval", On: c.on}, {Do: "complete", Text: "after"}}}}
			play(t, Config{Features: B, Rules: rules, Think: -1}, func(cl *client) {
				id := cl.run("x")
				time.Sleep(approvalTTL - time.Nanosecond)
				require.Equal(t, "waiting_for_approval", cl.object(http.StatusOK, "GET", "/v1/runs/"+id, "")["status"])
				time.Sleep(time.Second)
				run := cl.object(http.StatusOK, "GET", "/v1/runs/"+id, "")
				require.Equal(t, c.want, run["output"])
				require.NotContains(t, run, "approval")
				require.Empty(t, cl.Runs()[0].Answers)
			})
		})
	}
}

func TestApprovalComesTooLate(t *testing.T) {
	rules := []Rule{{Steps: []Step{{
		Do: "approval", For: time.Minute, On: map[string][]Step{"once": {{Do: "wait", For: time.Hour, Busy: true}}},
		More: []Step{{For: 2 * time.Minute}},
	}, {Do: "wait"}}}}
	play(t, Config{Features: B, Rules: rules}, func(c *client) {
		timed, stopped := "/v1/runs/"+c.run("x"), "/v1/runs/"+c.run("x")
		time.Sleep(time.Second)
		c.object(http.StatusOK, "POST", stopped+"/approval", `{"choice":"once"}`)
		c.object(http.StatusOK, "POST", stopped+"/stop", "")
		late := func(path string) any {
			return code(c.object(http.StatusConflict, "POST", path+"/approval", `{"choice":"once"}`))
		}
		require.Equal(t, "approval_not_pending", late(stopped), "stop has denied what was open")
		time.Sleep(10 * time.Minute)
		require.Equal(t, "approval_not_pending", late(timed))
		require.Equal(t, "running", c.object(http.StatusOK, "GET", timed, "")["status"])
	})
}

func TestApprovalTakesEffectOnce(t *testing.T) {
	play(t, Config{Features: B, Rules: []Rule{{Steps: []Step{{Do: "approval"}}}}}, func(c *client) {
		id := c.run("x")
		time.Sleep(time.Second)
		var g sync.WaitGroup
		var ok atomic.Int32
		for range 20 {
			g.Go(func() {
				res := c.ask("POST", "/v1/runs/"+id+"/approval", `{"choice":"once"}`)
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					ok.Add(1)
				}
			})
		}
		g.Wait()
		require.EqualValues(t, 1, ok.Load())
		require.Len(t, c.Runs()[0].Answers, 1)
	})
}
