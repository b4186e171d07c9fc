package hermes

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/hermes/hermestest"
)

// over asks an agent behind a real network.
func over(t *testing.T, url string) (*Agent, func(id string) *heard) {
	a, err := New(Config{URL: url, Key: key})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a, func(id string) *heard {
		h := new(heard)
		h.reply, h.err = a.Ask(t.Context(), turn(id, "hello"), func(e agent.Event) { h.events = append(h.events, e) })
		return h
	}
}

func TestOverANetwork(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			fake := hermestest.New(hermestest.Config{Features: features, Key: "default", Profiles: map[string]string{"phones": key}})
			server := httptest.NewServer(fake)
			defer server.Close()
			defer fake.Close()
			_, ask := over(t, server.URL+"/p/phones/")
			for i := range 3 {
				h := ask(fmt.Sprint(i))
				require.NoError(t, h.err)
				require.Equal(t, fmt.Sprintf("turn %d: hello", i+1), h.text())
			}
		})
	}
}

func TestNobodyIsThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	a, ask := over(t, "http://"+address)
	h := ask("m-1")
	require.Equal(t, "The agent cannot be reached at the moment. Please try again in a few minutes.", h.tell(t))
	require.Equal(t, "hermes: no connection", h.err.Error(), "no address")
	require.Positive(t, a.Health().Retries, "nothing was sent, so nothing can be done twice")
}

// TestTransportRepeatsNothing: a message is sent again by us alone, who know whether it could be done twice.
func TestTransportRepeatsNothing(t *testing.T) {
	var posts atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	_, ask := over(t, server.URL)
	ask("m-1").tell(t)
	require.EqualValues(t, 1, posts.Load())
}

// TestRedirection: the key stays here.
func TestRedirection(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was followed") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	_, ask := over(t, server.URL)
	require.Equal(t, "The agent does not offer what this gateway needs. Its operator has to look after that.", ask("m-1").tell(t))
}

// TestNonsense: whatever comes back, there is one clear sentence, and nothing of it is in the error.
func TestNonsense(t *testing.T) {
	for _, body := range []string{
		"", "secret", `{"run_id":"secret/../x"}`, `{"run_id":5}`, `[]`, `null`, `{"run_id":""}`, `{"run_id":"` + strings.Repeat("x", 300) + `"}`,
	} {
		for _, code := range []int{200, 202, 204, 302, 400, 409, 418} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					http.NotFound(w, r)
					return
				}
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
			}))
			_, ask := over(t, server.URL)
			h := ask("m-1")
			h.tell(t)
			require.NotContains(t, h.err.Error(), "secret")
			server.Close()
		}
	}
}

// TestStrangeEvents: events of any form do no harm.
func TestStrangeEvents(t *testing.T) {
	raw := strings.Join([]string{
		"data: 5\n\n", "data: {\n\n", "data\n\n", "data: []\n\n", ": comment\n\n", "event: x\n\n", "retry: 5\n\n", "nonsense\n\n", "data: null\n\n",
		`data: {"event":"message.delta","delta":{"a":1}}` + "\n\n", `data: {"event":5}` + "\n\n", `data: {"event":"run.steered","timestamp":"now"}` + "\n\n", `data: {"event":"run.steered","timestamp":1e300}` + "\n\n", `data: {"event":"message.delta"}` + "\n\n",
		`data: {"event":"approval.responded","request_id":5,"choice":[]}` + "\n\n", "data: {\"event\":\ndata: \"message.delta\",\"delta\":\"x\"}\r\n\r\n",
		"event: message.delta\ndata: {\"delta\":\"y\"}\n\n",
	}, "")
	for _, features := range generations {
		play(t, hermestest.Config{Features: features, Rules: rule(step("raw", raw), step("complete", "xy"))}, Config{}, func(s *stage) {
			s.says("m-1", "go", "xy")
		})
	}
}

func TestCapabilitiesCannotBeAsked(t *testing.T) {
	play(t, hermestest.Config{Faults: []hermestest.Fault{{Route: "GET /v1/capabilities", Status: 500, Times: -1}}}, Config{}, func(s *stage) {
		s.says("m-1", "hello", "turn 1: hello")
		s.says("m-2", "hello", "turn 2: hello")
		require.Equal(s, 1, s.count("GET /v1/capabilities"), "not with every turn")
		time.Sleep(askAgain)
		s.hermes.Heal()
		s.says("m-3", "hello", "turn 3: hello")
		s.says("m-4", "hello", "turn 4: hello")
		require.Equal(s, 2, s.count("GET /v1/capabilities"))
		require.True(s, s.agent.can.known.sessions)
	})
}

func TestIDsOfEventsAreForgotten(t *testing.T) {
	f := follower{seen: map[string]bool{}}
	for i := range 3 * maxSeen {
		f.remember(fmt.Sprint(i))
		f.remember(fmt.Sprint(i))
	}
	require.Len(t, f.seen, maxSeen)
	require.Len(t, f.order, maxSeen)
	require.Equal(t, fmt.Sprint(3*maxSeen-1), f.lastID)
}
