package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	require.NoError(t, os.WriteFile(bad, []byte(`{"no_such_thing":1}`), 0o600))
	for _, args := range [][]string{nil, {"echo"}, {"openai", "more"}, {"openai", "--port", "1"}, {"openai", "--script", bad}, {"hermes", "--script", bad},
		{"hermes", "--script", bad + "absent"}} {
		var out, errOut bytes.Buffer
		require.Equal(t, 2, run(t.Context(), args, &out, &errOut), args)
		require.NotEmpty(t, errOut.String(), args)
		require.Empty(t, out.String(), args)
	}
	var out, errOut bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"openai", "--addr", "256.0.0.1:1"}, &out, &errOut))
}

// serving runs a fake until the test ends, and returns its address.
func serving(t *testing.T, args ...string) string {
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append(args, "--addr", "127.0.0.1:0"), w, os.Stderr)
		w.Close()
	}()
	t.Cleanup(func() {
		stop()
		require.Zero(t, <-ended)
		http.DefaultClient.CloseIdleConnections()
	})
	line := make([]byte, 4096)
	n, err := r.Read(line)
	require.NoError(t, err)
	require.Contains(t, string(line[:n]), "MOBILE_AGENT="+args[0])
	go io.Copy(io.Discard, r)
	return regexp.MustCompile(`http://[0-9.:]+`).FindString(string(line[:n]))
}

func post(t *testing.T, url, key, body string) (int, string) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(b)
}

func TestOpenAI(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script.json")
	require.NoError(t, os.WriteFile(script, []byte(`{"steps":[{"status":429,"retry_after":"1"}]}`), 0o600))
	url := serving(t, "openai", "--script", script, "--key", "k") + "/v1/chat/completions"
	const body = `{"model":"m","messages":[{"role":"user","content":"hi there"}]}`
	status, _ := post(t, url, "wrong", body)
	require.Equal(t, http.StatusUnauthorized, status)
	status, _ = post(t, url, "k", body)
	require.Equal(t, http.StatusTooManyRequests, status)
	status, answer := post(t, url, "k", body)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, "turn 1: hi there")
}

func TestHermes(t *testing.T) {
	for _, args := range [][]string{{"hermes"}, {"hermes", "--script", "../../agent/hermes/hermestest/testdata/demo.json"}} {
		url := serving(t, args...)
		status, _ := post(t, url+"/v1/runs", "wrong", `{"input":"hi"}`)
		require.Equal(t, http.StatusUnauthorized, status)
		status, answer := post(t, url+"/v1/runs", "demo", `{"input":"hi"}`)
		require.Equal(t, http.StatusAccepted, status)
		require.Contains(t, answer, "run_id")
	}
}
