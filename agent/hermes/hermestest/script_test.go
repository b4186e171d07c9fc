package hermestest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDemoScript(t *testing.T) {
	cfg, err := Load("testdata/demo.json")
	require.NoError(t, err)
	require.Equal(t, B, cfg.Features)
	require.Equal(t, 40*time.Millisecond, cfg.Pace)
	play(t, cfg, func(c *client) {
		say := func(text string) (string, error) {
			blocks, err := c.open("/v1/runs/" + c.run(text) + "/events").rest()
			return strings.Join(blocks, "\n"), err
		}
		got, _ := say("hello there")
		require.Contains(t, got, `"output":"turn 1: hello there"`)
		got, _ = say("/think")
		require.Contains(t, got, `"output":"I thought about it."`)
		got, _ = say("/picture")
		require.Contains(t, got, pixel)
		got, _ = say("/file /tmp/a.png")
		require.Contains(t, got, `"output":"Saved. MEDIA:/tmp/a.png"`)
		got, _ = say("/fail")
		require.Contains(t, got, "run.failed")
		_, err := say("/cut")
		require.ErrorContains(t, err, "unexpected EOF")
		_, err = say("/restart")
		require.ErrorContains(t, err, "unexpected EOF")
		require.Equal(t, "rate_limit_exceeded", code(c.object(http.StatusTooManyRequests, "POST", "/v1/runs", `{"input":"/busy"}`)))
		got, _ = say("/busy")
		require.Contains(t, got, `"output":"Here I am."`)

		id := c.run("/sudo reboot")
		f := c.open("/v1/runs/" + id + "/events")
		for e := f.event(); e["event"] != "approval.request"; e = f.event() {
			require.Equal(t, "message.delta", e["event"])
		}
		c.object(http.StatusOK, "POST", "/v1/runs/"+id+"/approval", `{"choice":"once"}`)
		blocks, err := f.rest()
		require.ErrorIs(t, err, io.EOF)
		require.Contains(t, strings.Join(blocks, "\n"), `"preview":"reboot"`)

		id, other := c.run("/flaky"), c.run("/sudo ls")
		time.Sleep(time.Second)
		path := "/v1/runs/" + id + "/approval"
		c.object(http.StatusOK, "POST", "/v1/runs/"+other+"/approval", `{"choice":"deny"}`)
		c.object(http.StatusBadGateway, "POST", path, `{"choice":"once"}`)
		c.object(http.StatusOK, "POST", path, `{"choice":"once"}`)
	})
}

// The example of the documentation is a script.
func TestDocumentedScript(t *testing.T) {
	b, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var script strings.Builder
	for line := range strings.Lines(string(b)) {
		text, ok := strings.CutPrefix(line, "//\t")
		if ok && (script.Len() > 0 || text == "{\n") {
			script.WriteString(text)
			if text == "}\n" {
				break
			}
		}
	}
	cfg, err := Parse([]byte(script.String()))
	require.NoError(t, err)
	require.Len(t, cfg.Rules, 4)
	require.Len(t, cfg.Faults, 1)
	require.False(t, cfg.Features.RequestID)
	require.True(t, cfg.Features.Journal, "features change single ones of the generation")
	for _, s := range steps {
		require.Contains(t, string(b), "//\t"+s+" ", "every step is documented")
	}
}

func TestBadScripts(t *testing.T) {
	for script, want := range map[string]string{
		``:                                   "EOF",
		`{} {}`:                              "more after the end",
		`{"rulez":[]}`:                       `unknown field "rulez"`,
		`{"generation":"C"}`:                 "generation",
		`{"features":{"fast":true}}`:         `unknown field "fast"`,
		`{"think":"soon"}`:                   "think is no duration",
		`{"rules":[{"match":"("}]}`:          "rule 1: match",
		`{"rules":[{"steps":[{"do":"x"}]}]}`: `no such step: "x"`,
		`{"rules":[{"steps":[{"do":"delta","txt":""}]}]}`:                                 `unknown field "txt"`,
		`{"rules":[{"steps":[{"do":"wait","for":5}]}]}`:                                   "for is a duration in quotes",
		`{"rules":[{"steps":[{"do":"wait","for":"-5s"}]}]}`:                               "for is no duration",
		`{"rules":[{"steps":[{"do":"fault"}]}]}`:                                          "fault names no fault",
		`{"rules":[{"steps":[7]}]}`:                                                       "cannot unmarshal",
		`{"rules":[{"refuse":{"status":200}}]}`:                                           "refuse needs a status",
		`{"faults":[{"route":"POST /v1/run"}]}`:                                           `fault 1: no such route: "POST /v1/run"`,
		`{"rules":[{"steps":[{"do":"fault","fault":{"status":99}}]}]}`:                    "a status is from 200 to 599",
		`{"faults":[{"delay":"x"}]}`:                                                      "delay is no duration",
		`{"rules":[{},{"steps":[{"do":"approval","on":{"once":[{"do":"y"}]}}]}]}`:         `rule 2: step 1: on "once": step 1: no such step`,
		`{"rules":[{"steps":[{"do":"approval","more":[{"do":"wait"}]}]}]}`:                "more belongs to approvals",
		`{"rules":[{"steps":[{"do":"approval","more":[{"on":{"deny":[{"do":"z"}]}}]}]}]}`: `no such step: "z"`,
		`{"rules":[{"steps":[{"do":"wait","more":[{}]}]}]}`:                               "more belongs to approvals",
	} {
		t.Run(script, func(t *testing.T) {
			_, err := Parse([]byte(script))
			require.ErrorContains(t, err, want)
		})
	}
	_, err := Load("testdata/none.json")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Panics(t, func() { New(Config{Rules: []Rule{{Match: "("}}}) })
	require.Panics(t, func() {
		New(Config{Rules: []Rule{{Steps: []Step{{Do: "event", Fields: map[string]any{"f": func() {}}}}}}})
	})
}

func TestRules(t *testing.T) {
	say := func(text string) []Step { return []Step{{Do: "complete", Text: text}} }
	rules := []Rule{
		{Run: 2, Steps: say("second {rest}")},
		{Prefix: "/a", Match: "(b)(c)", Steps: say("{0} {2} {rest} {input}")},
		{Prefix: "/a", Steps: say("a {rest}")},
		{Steps: say("else {turn}")},
	}
	play(t, Config{Rules: rules, Think: -1}, func(c *client) {
		for _, turn := range [][2]string{
			{"/a xbc", "bc c xbc /a xbc"}, {"/a xbc", "second /a xbc"}, {"/a 3", "a 3"}, {"bc", "else 4"},
		} {
			id := c.run(turn[0], "X-Hermes-Session-Key", "k")
			time.Sleep(time.Second)
			require.Equal(t, turn[1], c.object(http.StatusOK, "GET", "/v1/runs/"+id, "")["output"])
		}
	})
}

func TestFaults(t *testing.T) {
	play(t, Config{Features: B}, func(c *client) {
		get := func(path string) (int, http.Header) {
			res := c.ask("GET", path, "")
			res.Body.Close()
			return res.StatusCode, res.Header
		}
		c.Fault(Fault{Route: "GET /v1/models", Skip: 1, Times: 2, Status: 503, RetryAfter: "7", Code: "later"})
		for i, want := range []int{200, 503, 503, 200} {
			status, header := get("/v1/models")
			require.Equal(t, want, status, i)
			if want == 503 {
				require.Equal(t, "7", header.Get("Retry-After"))
			}
			status, _ = get("/health")
			require.Equal(t, 200, status)
		}
		c.Fault(Fault{Status: 500, Times: -1, Body: "<html>"})
		for range 5 {
			res := c.ask("GET", "/health", "")
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			require.NoError(t, err)
			require.Equal(t, "<html>", string(b))
		}
		c.Heal()
		start := time.Now()
		c.Fault(Fault{Route: "GET /health", Delay: time.Minute})
		status, _ := get("/health")
		require.Equal(t, 200, status)
		require.Equal(t, time.Minute, time.Since(start))
		require.Panics(t, func() { c.Fault(Fault{Route: "GET /never"}) })
		for range maxFaults + 5 {
			c.Fault(Fault{Route: "GET /v1/models", Skip: 1})
		}
		require.Len(t, c.faults, maxFaults)
	})
}

// The two ways in which a connection can break off: before the run was started, and after.
func TestLostRequests(t *testing.T) {
	for name, c := range map[string]struct {
		fault Fault
		runs  int
	}{"cut": {Fault{Cut: true}, 0}, "lost": {Fault{Lose: true}, 1}} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Features: B, Faults: []Fault{c.fault}}, func(cl *client) {
				req, err := http.NewRequestWithContext(cl.t.Context(), "POST", URL+"/v1/runs", strings.NewReader(`{"input":"a"}`))
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer "+secret)
				req.Header.Set("Idempotency-Key", "k")
				req.GetBody = nil // the transport would send it again by itself
				_, err = cl.http.Do(req)
				require.ErrorIs(t, err, io.EOF)
				require.Len(t, cl.Runs(), c.runs)
				cl.run("a", "Idempotency-Key", "k")
				require.Len(t, cl.Runs(), 1)
			})
		})
	}
}

func ExampleServer() {
	cfg, err := Parse([]byte(`{"rules": [{"prefix": "/shout ", "steps": [{"do": "complete", "text": "{rest}!"}]}], "think": "-1s"}`))
	if err != nil {
		panic(err)
	}
	s := New(cfg)
	defer s.Close()
	client := s.Client()
	res, err := client.Post(URL+"/v1/runs", "application/json", strings.NewReader(`{"input": "/shout hello"}`))
	if err != nil {
		panic(err)
	}
	res.Body.Close()
	res, err = client.Get(URL + "/v1/runs/" + s.Runs()[0].ID + "/events")
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	fmt.Println(strings.Contains(string(b), `"output":"hello!"`), err)
	// Output: true <nil>
}
