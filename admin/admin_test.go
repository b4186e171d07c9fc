package admin

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"mobilegate/agent"
	"mobilegate/engine"
	"mobilegate/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

func listen(t *testing.T, c Config) *Listener {
	c.Addr, c.Log, c.Version = "127.0.0.1:0", slog.New(slog.DiscardHandler), "test"
	if c.Engine == nil {
		c.Engine = func() engine.Stats { return engine.Stats{} }
	}
	if c.Hub == nil {
		c.Hub = func() session.Stats { return session.Stats{} }
	}
	l, err := Listen(c)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func get(t *testing.T, url string) (status int, body string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
}

// series are the names with their labels, and the values behind them.
func series(body string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(body) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			all[name] = value
		}
	}
	return all
}

func TestEveryNumberIsServed(t *testing.T) {
	l := listen(t, Config{
		Engine: func() engine.Stats {
			return engine.Stats{Connections: 1, Accepted: 2, Refused: 3, Upgraded: 4, Panics: 5, Released: 600}
		},
		Hub: func() session.Stats {
			return session.Stats{Online: 7, Devices: 8, Frames: 9, Unknown: 10, Errors: 11, Refused: 12, Turns: 13, Failed: 14, Panics: 15, Released: 16}
		},
		Agent: func() agent.Health {
			return agent.Health{Down: true, Calls: 17, Failures: 18, Retries: 19, Refused: 20, InputTokens: 21, OutputTokens: 22}
		},
	})
	status, body := get(t, l.URL())
	require.Equal(t, 200, status)
	all := series(body)
	for name, value := range map[string]string{
		`mobilegate_info{version="test"}`: "1", "mobilegate_connections": "1", "mobilegate_connections_accepted_total": "2",
		`mobilegate_connections_refused_total{at="upgrade"}`: "3", "mobilegate_connections_upgraded_total": "4", `mobilegate_panics_total{in="engine"}`: "5",
		"mobilegate_memory_released_bytes_total": "616", "mobilegate_devices_online": "7", "mobilegate_devices_remembered": "8",
		"mobilegate_frames_total": "9", "mobilegate_frames_unknown_total": "10", "mobilegate_frame_errors_total": "11",
		`mobilegate_connections_refused_total{at="hello"}`: "12", "mobilegate_turns_total": "13", "mobilegate_turns_failed_total": "14",
		`mobilegate_panics_total{in="session"}`: "15", "mobilegate_agent_up": "0", "mobilegate_agent_calls_total": "17", "mobilegate_agent_failures_total": "18",
		"mobilegate_agent_retries_total": "19", "mobilegate_agent_refused_total": "20", `mobilegate_agent_tokens_total{direction="input"}`: "21",
		`mobilegate_agent_tokens_total{direction="output"}`: "22",
	} {
		require.Equal(t, value, all[name], name)
		delete(all, name)
	}
	for name := range all {
		require.NotContains(t, name, "mobilegate_", "this test does not know it")
	}
	require.NotEmpty(t, all["process_resident_memory_bytes"])
	require.NotEmpty(t, all["process_cpu_seconds_total"])
	require.NotEmpty(t, all["go_goroutines"])
	if counted, err := os.Stat("/proc/self/fd"); err == nil && counted.Size() > 0 {
		listed, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		told, err := strconv.Atoi(all["process_open_fds"])
		require.NoError(t, err)
		require.InDelta(t, len(listed), told, 8, "connections of this test come and go")
	}
}

func TestAnAgentWithoutAServiceHasNoNumbers(t *testing.T) {
	_, body := get(t, listen(t, Config{}).URL())
	require.NotContains(t, body, "mobilegate_agent")
}

func TestNothingElseIsServed(t *testing.T) {
	url := strings.TrimSuffix(listen(t, Config{}).URL(), "/metrics")
	for _, path := range []string{"/", "/ws", "/metrics/", "/debug/pprof/"} {
		status, _ := get(t, url+path)
		require.Equal(t, http.StatusNotFound, status, path)
	}
	r, err := http.Post(url+"/metrics", "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	r.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)
	http.DefaultClient.CloseIdleConnections()
}

func TestATakenPortIsSaid(t *testing.T) {
	l := listen(t, Config{})
	_, err := Listen(Config{Addr: l.socket.Addr().String(), Log: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "in use")
}
