package hermestest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRefusals(t *testing.T) {
	long := strings.Repeat("k", 257)
	for name, c := range map[string]struct {
		route, body string
		headers     []string
		status      int
		code        any
	}{
		"wrong key":         {"GET /v1/capabilities", "", []string{"Authorization", "Bearer x"}, 401, "gateway_auth_failed"},
		"no key":            {"POST /v1/runs", `{"input":"a"}`, []string{"Authorization", ""}, 401, "gateway_auth_failed"},
		"no such route":     {"GET /v1/nothing", "", nil, 404, nil},
		"no JSON":           {"POST /v1/runs", `{"input"`, nil, 400, nil},
		"no object":         {"POST /v1/runs", `[]`, nil, 400, nil},
		"no input":          {"POST /v1/runs", `{}`, nil, 400, nil},
		"empty input":       {"POST /v1/runs", `{"input":""}`, nil, 400, nil},
		"empty list":        {"POST /v1/runs", `{"input":[]}`, nil, 400, nil},
		"input of numbers":  {"POST /v1/runs", `{"input":[1]}`, nil, 400, nil},
		"long session id":   {"POST /v1/runs", `{"input":"a","session_id":"` + long + `"}`, nil, 400, "invalid_session_id"},
		"long session key":  {"POST /v1/runs", `{"input":"a"}`, []string{"X-Hermes-Session-Key", long}, 400, nil},
		"long id in header": {"POST /v1/runs", `{"input":"a"}`, []string{"X-Hermes-Session-Id", long}, 400, nil},
		"long key":          {"POST /v1/runs", `{"input":"a"}`, []string{"Idempotency-Key", long}, 400, "invalid_idempotency_key"},
		"key with a space":  {"POST /v1/runs", `{"input":"a"}`, []string{"Idempotency-Key", "a b"}, 400, "invalid_idempotency_key"},
		"too big":           {"POST /v1/runs", `{"input":"` + strings.Repeat("a", maxBody) + `"}`, nil, 413, "body_too_large"},
		"unknown run":       {"GET /v1/runs/run_0", "", nil, 404, "run_not_found"},
		"its events":        {"GET /v1/runs/run_0/events", "", nil, 404, "run_not_found"},
		"its approval":      {"POST /v1/runs/run_0/approval", `{"choice":"once"}`, nil, 404, "run_not_found"},
		"its stop":          {"POST /v1/runs/run_0/stop", "", nil, 404, "run_not_found"},
		"its steering":      {"POST /v1/runs/run_0/steer", `{"input":"a"}`, nil, 404, "run_not_found"},
		"session id":        {"POST /api/sessions", `{"id":"../a"}`, nil, 400, "invalid_session_id"},
		"session JSON":      {"POST /api/sessions", `{`, nil, 400, nil},
		"unknown session":   {"GET /api/sessions/no", "", nil, 404, "session_not_found"},
		"its messages":      {"GET /api/sessions/no/messages", "", nil, 404, "session_not_found"},
		"its stream":        {"POST /api/sessions/no/chat/stream", `{"message":"a"}`, nil, 404, "session_not_found"},
		"unknown profile":   {"GET /p/no/v1/capabilities", "", nil, 404, "profile_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Features: B}, func(cl *client) {
				method, path, _ := strings.Cut(c.route, " ")
				require.Equal(t, c.code, code(cl.object(c.status, method, path, c.body, c.headers...)))
				require.Empty(t, cl.Runs())
			})
		})
	}
}

func TestLargestBody(t *testing.T) {
	play(t, Config{}, func(c *client) {
		body := `{"input":"` + strings.Repeat("a", maxBody-len(`{"input":""}`)) + `"}`
		require.Len(t, body, maxBody)
		c.object(http.StatusAccepted, "POST", "/v1/runs", body)
		require.Len(t, c.Runs()[0].Text, maxText, "the rest of a text is cut off without a word")
	})
}

// What no HTTP client sends, a handler may still be given.
func TestControlCharactersInSessionKey(t *testing.T) {
	s := New(Config{})
	defer s.Close()
	for _, bad := range []string{"a\rb", "a\nb", "a\x00b"} {
		r := httptest.NewRequest("POST", "/v1/runs", strings.NewReader(`{"input":"a"}`))
		r.Header["X-Hermes-Session-Key"] = []string{bad}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code)
	}
	r := httptest.NewRequest("POST", "/v1/runs", strings.NewReader(`{"input":"a"}`))
	r.Header.Set("X-Hermes-Session-Id", "a")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, http.StatusForbidden, w.Code, "the header needs a key, and there is none")
}

func TestOpenRoutes(t *testing.T) {
	play(t, Config{}, func(c *client) {
		for _, path := range []string{"/health", "/v1/health"} {
			require.Equal(t, "hermes-agent", c.object(http.StatusOK, "GET", path, "", "Authorization", "")["platform"])
		}
		require.Len(t, c.object(http.StatusOK, "GET", "/v1/models", "")["data"], 1)
	})
}

func TestCapabilities(t *testing.T) {
	for name, c := range map[string]struct {
		features   Features
		has, lacks []string
	}{
		"A": {A, []string{"run_submission", "run_events_sse", "run_stop", "run_approval_response", "approval_events"}, []string{"runs_idempotency", "run_approval"}},
		"B": {B, []string{"run_submission", "run_events_sse", "run_stop", "run_approval", "runs_idempotency"}, []string{"run_approval_response"}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Features: c.features}, func(cl *client) {
				all := cl.object(http.StatusOK, "GET", "/v1/capabilities", "")
				require.Equal(t, "hermes.api_server.capabilities", all["object"])
				require.Equal(t, map[string]any{"type": "bearer", "required": true}, all["auth"])
				require.Equal(t, map[string]any{"method": "POST", "path": "/v1/runs"}, all["endpoints"].(map[string]any)["runs"])
				for _, f := range c.has {
					require.Contains(t, all["features"], f)
				}
				for _, f := range c.lacks {
					require.NotContains(t, all["features"], f)
				}
			})
		})
	}
}

func TestProfiles(t *testing.T) {
	play(t, Config{Profiles: map[string]string{"office": "other"}, Features: B}, func(c *client) {
		other := []string{"Authorization", "Bearer other", "X-Hermes-Session-Key", "k", "Idempotency-Key", "i"}
		c.object(http.StatusUnauthorized, "POST", "/p/office/v1/runs", `{"input":"a"}`)
		id := c.object(http.StatusAccepted, "POST", "/p/office/v1/runs", `{"input":"a"}`, other...)["run_id"].(string)
		mine := c.run("a", "X-Hermes-Session-Key", "k", "Idempotency-Key", "i")
		require.NotEqual(t, id, mine, "a profile has its own keys")
		time.Sleep(time.Second)
		require.Equal(t, "turn 1: a", c.object(http.StatusOK, "GET", "/v1/runs/"+mine, "")["output"], "and its own conversations")
		require.Equal(t, "run_not_found", code(c.object(http.StatusNotFound, "GET", "/v1/runs/"+id, "")))
		c.object(http.StatusOK, "GET", "/p/office/v1/runs/"+id, "", other...)
		require.Equal(t, "office", c.Runs()[0].Profile)
	})
}

func TestConcurrentRuns(t *testing.T) {
	hang := []Rule{{Steps: []Step{{Do: "wait"}}}}
	for name, c := range map[string]struct{ limit, taken int }{
		"default": {0, 10}, "two": {2, 2}, "no limit": {-1, 50},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{MaxConcurrentRuns: c.limit, Rules: hang, Features: B}, func(cl *client) {
				var ids []string
				for i := range c.taken {
					ids = append(ids, cl.run("a", "Idempotency-Key", strconv.Itoa(i)))
				}
				if c.limit < 0 {
					return
				}
				res := cl.ask("POST", "/v1/runs", `{"input":"a"}`)
				res.Body.Close()
				require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
				require.Equal(t, "1", res.Header.Get("Retry-After"))
				cl.object(http.StatusAccepted, "POST", "/v1/runs", `{"input":"a"}`, "Idempotency-Key", "0")
				cl.object(http.StatusOK, "POST", "/v1/runs/"+ids[0]+"/stop", "")
				synctest.Wait()
				cl.run("a")
			})
		})
	}
}

func TestDrain(t *testing.T) {
	play(t, Config{}, func(c *client) {
		id := c.run("a")
		c.Drain(true)
		res := c.ask("POST", "/v1/runs", `{"input":"a"}`)
		res.Body.Close()
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.Equal(t, "1", res.Header.Get("Retry-After"))
		c.object(http.StatusOK, "GET", "/v1/runs/"+id, "")
		c.Drain(false)
		c.run("a")
	})
}

func TestRecord(t *testing.T) {
	play(t, Config{RecordBody: 10}, func(c *client) {
		id := c.run("hello", "X-Hermes-Session-Key", "k", "Idempotency-Key", "i")
		c.object(http.StatusUnauthorized, "GET", "/v1/runs/"+id+"?a=b", "", "Authorization", "Bearer no")
		all := c.Requests()
		require.Len(t, all, 2)
		require.Equal(t, "POST /v1/runs", all[0].Route)
		require.Equal(t, `{"input":"`, string(all[0].Body))
		require.Equal(t, len(`{"input":"hello"}`), all[0].Size)
		require.Equal(t, "k", all[0].Header.Get("X-Hermes-Session-Key"))
		require.Equal(t, "i", all[0].Header.Get("Idempotency-Key"))
		require.NotContains(t, all[0].Header, "Authorization")
		require.True(t, all[0].Authorized)
		require.Equal(t, id, all[0].RunID)
		require.Equal(t, http.StatusAccepted, all[0].Status)
		require.Equal(t, "GET /v1/runs/{id}", all[1].Route)
		require.Equal(t, "a=b", all[1].Query)
		require.False(t, all[1].Authorized)
		require.Equal(t, http.StatusUnauthorized, all[1].Status)
		for range keptRequests + 5 {
			c.ask("GET", "/health", "").Body.Close()
		}
		require.Len(t, c.Requests(), keptRequests)
	})
}

func TestAwait(t *testing.T) {
	play(t, Config{}, func(c *client) {
		answered := func(r Request) bool { return r.Route == "GET /health" && r.Status == http.StatusOK }
		got := make(chan string, 3)
		var g sync.WaitGroup
		for range 3 {
			g.Go(func() {
				r, err := c.Await(c.t.Context(), answered)
				if err == nil {
					got <- r.Path
				}
			})
		}
		synctest.Wait()
		c.ask("GET", "/health", "").Body.Close()
		g.Wait()
		require.Len(t, got, 3)
		require.Equal(t, "/health", <-got)
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Hour)
		defer cancel()
		_, err := c.Await(ctx, func(r Request) bool { return r.Route == "POST /v1/runs" })
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Over a true network, and closed while runs hang and streams are open.
func TestCloseOverTCP(t *testing.T) {
	s := New(Config{Rules: []Rule{{Steps: []Step{{Do: "delta", Text: "a"}, {Do: "wait", Busy: true}}}}})
	server := httptest.NewServer(s)
	defer server.Close()
	c := &client{s, t, &http.Client{Transport: rewrite{server}}}
	f := c.open("/v1/runs/" + c.run("a") + "/events")
	require.Equal(t, "a", f.event()["delta"])
	s.Close()
	s.Close()
	_, err := f.rest()
	require.Error(t, err)
	require.Equal(t, "gateway_draining", code(c.object(http.StatusServiceUnavailable, "POST", "/v1/runs", `{"input":"a"}`)))
}

// rewrite sends requests to a server of httptest.
type rewrite struct{ *httptest.Server }

func (s rewrite) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Host = s.Listener.Addr().String()
	return s.Client().Transport.RoundTrip(r)
}
