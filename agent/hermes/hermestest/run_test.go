package hermestest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestIdempotency(t *testing.T) {
	play(t, Config{Features: B}, func(c *client) {
		id := c.run("a", "Idempotency-Key", "k")
		res := c.ask("POST", "/v1/runs", `{ "input" : "a" }`, "Idempotency-Key", "k")
		res.Body.Close()
		require.Equal(t, http.StatusAccepted, res.StatusCode)
		require.Equal(t, "true", res.Header.Get("Idempotency-Replayed"))
		time.Sleep(time.Minute)
		all := c.object(http.StatusAccepted, "POST", "/v1/runs", `{"input":"a"}`, "Idempotency-Key", "k")
		require.Equal(t, map[string]any{"run_id": id, "status": "completed", "replayed": true}, all)
		for name, other := range map[string][]string{
			"body":    {`{"input":"b"}`, "Idempotency-Key", "k"},
			"session": {`{"input":"a"}`, "Idempotency-Key", "k", "X-Hermes-Session-Key", "s"},
		} {
			require.Equal(t, "idempotency_key_conflict", code(c.object(http.StatusConflict, "POST", "/v1/runs", other[0], other[1:]...)), name)
		}
		require.Equal(t, 2, c.Runs()[0].Replays)
		time.Sleep(keyTTL)
		require.NotEqual(t, id, c.run("a", "Idempotency-Key", "k"), "a key is kept for a day")
	})
	play(t, Config{Features: A}, func(c *client) {
		require.NotEqual(t, c.run("a", "Idempotency-Key", "k"), c.run("a", "Idempotency-Key", "k"))
		c.run("a", "Idempotency-Key", "not valid")
	})
}

func TestIdempotencyOfForgottenRun(t *testing.T) {
	play(t, Config{Features: B, Think: -1}, func(c *client) {
		id := c.run("a", "Idempotency-Key", "k")
		for range maxFinished + 2 {
			synctest.Wait()
			c.run("a")
		}
		c.object(http.StatusNotFound, "GET", "/v1/runs/"+id, "")
		all := c.object(http.StatusAccepted, "POST", "/v1/runs", `{"input":"a"}`, "Idempotency-Key", "k")
		require.Equal(t, map[string]any{"run_id": id, "status": "completed", "replayed": true}, all)
	})
}

func TestIdempotencyUnderLoad(t *testing.T) {
	play(t, Config{Features: B}, func(c *client) {
		var g sync.WaitGroup
		ids := make([]string, 20)
		for i := range ids {
			g.Go(func() { ids[i] = c.run("a", "Idempotency-Key", "k") })
		}
		g.Wait()
		for _, id := range ids {
			require.Equal(t, ids[0], id)
		}
		require.Len(t, c.Runs(), 1)
	})
}

func TestRestart(t *testing.T) {
	hang := []Rule{{Prefix: "hang", Steps: []Step{{Do: "delta", Text: "a"}, {Do: "wait"}}}}
	for name, features := range map[string]Features{"A": A, "B": B} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Features: features, Rules: hang}, func(c *client) {
				keyed, plain := c.run("hang", "Idempotency-Key", "k"), c.run("hang")
				finished := c.run("a", "Idempotency-Key", "f")
				f, g := c.open("/v1/runs/"+keyed+"/events"), c.open("/v1/runs/"+plain+"/events")
				time.Sleep(time.Second)
				c.Restart()
				for _, f := range []*frames{f, g} {
					blocks, err := f.rest()
					require.ErrorContains(t, err, "unexpected EOF")
					require.Len(t, blocks, 1)
				}
				c.object(http.StatusNotFound, "GET", "/v1/runs/"+plain, "")
				if !features.Idempotency {
					c.object(http.StatusNotFound, "GET", "/v1/runs/"+keyed, "")
					c.object(http.StatusNotFound, "GET", "/v1/runs/"+finished, "")
					require.Empty(t, c.Runs())
					return
				}
				all := c.object(http.StatusOK, "GET", "/v1/runs/"+keyed, "")
				require.Equal(t, "interrupted", all["status"])
				require.NotEmpty(t, all["error"])
				require.Equal(t, "completed", c.object(http.StatusOK, "GET", "/v1/runs/"+finished, "")["status"])
				require.Equal(t, keyed, c.run("hang", "Idempotency-Key", "k"), "a key survives")
				blocks, _ := c.open("/v1/runs/" + keyed + "/events").rest()
				require.Len(t, blocks, 2, "and so does the journal")
			})
		})
	}
}

func TestConversations(t *testing.T) {
	play(t, Config{}, func(c *client) {
		turn := func(text, body string, headers ...string) string {
			id := c.object(http.StatusAccepted, "POST", "/v1/runs", fmt.Sprintf(`{"input":%q%s}`, text, body), headers...)["run_id"].(string)
			time.Sleep(time.Second)
			return c.object(http.StatusOK, "GET", "/v1/runs/"+id, "")["output"].(string)
		}
		require.Equal(t, "turn 1: a", turn("a", "", "X-Hermes-Session-Key", "one"))
		require.Equal(t, "turn 2: b", turn("b", "", "X-Hermes-Session-Key", "one"))
		require.Equal(t, "turn 1: c", turn("c", "", "X-Hermes-Session-Key", "two"))
		require.Equal(t, "turn 1: d", turn("d", `,"session_id":"s"`))
		require.Equal(t, "turn 2: e", turn("e", `,"session_id":"s"`, "X-Hermes-Session-Key", "one"), "session_id comes first")
		require.Equal(t, "turn 1: f", turn("f", ""))
		require.Equal(t, "turn 1: g", turn("g", ""), "without a session every run has its own")
		c.Restart()
		require.Equal(t, "turn 3: h", turn("h", "", "X-Hermes-Session-Key", "one"), "a transcript survives")
		res := c.ask("POST", "/v1/runs", `{"input":"a"}`, "X-Hermes-Session-Key", "one")
		res.Body.Close()
		require.Equal(t, "one", res.Header.Get("X-Hermes-Session-Key"))
		time.Sleep(time.Second)
		run := c.object(http.StatusOK, "GET", "/v1/runs/"+c.Runs()[1].ID, "")
		require.Equal(t, map[string]any{"input_tokens": 4.0, "output_tokens": 12.0, "total_tokens": 16.0}, run["usage"], "of the whole conversation")
		c.Close()
	})
}

func TestInputOfParts(t *testing.T) {
	play(t, Config{Think: -1}, func(c *client) {
		url := "data:image/png;base64," + pixel
		c.object(http.StatusAccepted, "POST", "/v1/runs", `{"input":[{"role":"user","content":"old"},{"role":"user","content":[
			{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"`+url+`"}},{"type":"file","file":{}},
			{"type":"input_image","image_url":"https://a.test/b.png"},{"type":"image_url","image_url":{"url":"data:image/png;base64,?"}}]}]}`)
		synctest.Wait()
		run := c.Runs()[0]
		require.Equal(t, "look", run.Text)
		require.Len(t, run.Images, 3, "runs pass over what they do not know")
		require.Equal(t, "image/png", run.Images[0].Type)
		require.Equal(t, len(Pixel()), run.Images[0].Size)
		require.Equal(t, "https://a.test/b.png", run.Images[1].URL)
		require.Equal(t, -1, run.Images[2].Size)
		require.Equal(t, "turn 1: look (3 images)", c.object(http.StatusOK, "GET", "/v1/runs/"+run.ID, "")["output"])
	})
}

func TestStop(t *testing.T) {
	for name, c := range map[string]struct {
		steps []Step
		at    time.Duration // when it is stopped
		want  string
	}{
		"in a wait":       {[]Step{{Do: "wait"}}, time.Second, "cancelled"},
		"in an approval":  {[]Step{{Do: "approval"}}, time.Second, "cancelled"},
		"between words":   {[]Step{{Do: "words", Text: "a b c", For: time.Minute}}, time.Second, "cancelled"},
		"after a tool":    {[]Step{{Do: "tool", For: time.Minute, Busy: true}}, time.Second, "stopping"},
		"too late":        {[]Step{{Do: "wait", For: time.Minute, Busy: true}, {Do: "complete", Busy: true}}, time.Second, "stopping"},
		"before it began": {[]Step{{Do: "wait"}}, 0, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Features: B, Rules: []Rule{{Steps: c.steps}}}, func(cl *client) {
				id := cl.run("x")
				time.Sleep(c.at)
				all := cl.object(http.StatusOK, "POST", "/v1/runs/"+id+"/stop", "")
				require.Equal(t, map[string]any{"run_id": id, "status": "stopping"}, all)
				synctest.Wait()
				require.Equal(t, c.want, cl.object(http.StatusOK, "GET", "/v1/runs/"+id, "")["status"])
				time.Sleep(time.Hour / 2)
				want := "cancelled"
				if name == "too late" {
					want = "completed"
				}
				require.Equal(t, want, cl.object(http.StatusOK, "GET", "/v1/runs/"+id, "")["status"])
				require.Equal(t, 1, cl.Runs()[0].Stops)
			})
		})
	}
}

func TestStopOfFinishedRun(t *testing.T) {
	for name, c := range map[string]struct {
		features Features
		status   int
	}{"A": {A, http.StatusNotFound}, "B": {B, http.StatusOK}} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Features: c.features}, func(cl *client) {
				id := cl.run("x")
				time.Sleep(time.Second)
				all := cl.object(c.status, "POST", "/v1/runs/"+id+"/stop", "")
				if c.status == http.StatusOK {
					require.Equal(t, "completed", all["status"])
				} else {
					require.Equal(t, "run_not_found", code(all))
				}
			})
		})
	}
}

func TestSteer(t *testing.T) {
	play(t, Config{Rules: []Rule{{Steps: []Step{{Do: "wait", For: time.Minute}}}}}, func(c *client) {
		path := "/v1/runs/" + c.run("x") + "/steer"
		require.Equal(t, "run_not_accepting_steer", code(c.object(http.StatusConflict, "POST", path, `{"input":"a"}`)))
		time.Sleep(time.Second)
		require.Equal(t, true, c.object(http.StatusOK, "POST", path, `{"message":" left "}`)["accepted"])
		require.Equal(t, "invalid_steer_input", code(c.object(http.StatusBadRequest, "POST", path, `{"text":" "}`)))
		for range keptMessages + 1 {
			c.object(http.StatusOK, "POST", path, `{"text":"right"}`)
		}
		steers := c.Runs()[0].Steers
		require.Len(t, steers, keptMessages)
		require.Equal(t, "right", steers[0])
	})
}

func TestFinishedRunsAreForgotten(t *testing.T) {
	play(t, Config{Features: B, Think: -1}, func(c *client) {
		plain, keyed := c.run("a"), c.run("a", "Idempotency-Key", "k")
		time.Sleep(statusTTL + time.Second)
		c.object(http.StatusNotFound, "GET", "/v1/runs/"+plain, "")
		c.run("a")
		c.object(http.StatusOK, "GET", "/v1/runs/"+keyed, "")
		time.Sleep(keyTTL)
		c.run("a")
		require.Len(t, c.Runs(), 1, "and their memory is given back")
		for range maxFinished + 10 {
			c.run("a")
			synctest.Wait()
		}
		require.LessOrEqual(t, len(c.Runs()), maxFinished+1)
	})
}

// Bounds that would take long to reach by asking.
func TestBounds(t *testing.T) {
	s := New(Config{Features: B})
	defer s.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range maxConversations + 10 {
		s.converse("", strconv.Itoa(i))
		s.keep(&receipt{key: strconv.Itoa(i), at: time.Now()})
	}
	s.sweep()
	require.Len(t, s.conversations, maxConversations)
	require.Len(t, s.keys, maxKeys)
	require.NotContains(t, s.keys, "9")
	require.Contains(t, s.keys, "10")
	text := strings.Repeat("a", 1<<20)
	old := s.converse("", "10")
	for i := range keptText>>20 + 5 {
		s.said(s.converse("", strconv.Itoa(100+i%2)), "user", text)
		s.said(old, "user", "")
	}
	require.LessOrEqual(t, s.textSize, keptText)
	require.NotContains(t, s.conversations, "\n10")
	before := s.textSize
	s.said(old, "user", text)
	require.Equal(t, before, s.textSize, "nobody counts what is forgotten")
	for i := range 10 {
		r := &run{id: strconv.Itoa(i), over: true, ended: time.Now(), kept: maxWeight / 5, size: 1, end: func(error) {}}
		s.order = append(s.order, r)
		s.runs[r.id] = r
	}
	s.runs["0"].key, s.runs["0"].status = "20", map[string]any{"status": "completed"}
	s.keys["20"].id = "0"
	s.sweep()
	require.Equal(t, "completed", s.keys["20"].last, "a key stays")
	require.Len(t, s.order, 4, "finished runs keep so many bytes together")
	require.Contains(t, s.runs, "9")
	require.Zero(t, s.admit())
	s.live = maxLive
	s.cfg.MaxConcurrentRuns = -1
	require.Equal(t, http.StatusTooManyRequests, s.admit())
}
