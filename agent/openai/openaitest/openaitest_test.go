package openaitest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLoad(t *testing.T) {
	s, err := Load(strings.NewReader(`{"key":"k","pace":"20ms","loop":true,"steps":[{"status":429,"retry_after":"2"},{"pace":"0s","then":"cut","after":3}]}`))
	require.NoError(t, err)
	none := Duration(0)
	require.Equal(t, Script{Key: "k", Pace: Duration(20 * time.Millisecond), Loop: true, Steps: []Step{
		{Status: 429, RetryAfter: "2"}, {Pace: &none, Then: Cut, After: 3},
	}}, s)
	data, err := json.Marshal(s)
	require.NoError(t, err)
	again, err := Load(strings.NewReader(string(data)))
	require.NoError(t, err)
	require.Equal(t, s, again)
	for _, bad := range []string{`{"step":[]}`, `{"pace":3}`, `{"pace":"soon"}`, `{"steps":[{"then":"explode"}]}`, ``} {
		_, err := Load(strings.NewReader(bad))
		require.ErrorContains(t, err, "the script", bad)
	}
}

// asks posts a body and returns the status and what came.
func asks(t *testing.T, c *http.Client, path, body string) (int, string) {
	res, err := c.Post("http://model.test"+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(data)
}

const question = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"a b"}]}`

func TestAPI(t *testing.T) {
	api := New(Script{Steps: []Step{{Status: 503}, {}}, Loop: true})
	c, end := api.Client()
	defer end()
	for range 2 {
		status, _ := asks(t, c, "/v1/chat/completions", question)
		require.Equal(t, 503, status)
		status, body := asks(t, c, "/v1/chat/completions", question)
		require.Equal(t, 200, status)
		require.Equal(t, 4+1+1+1, strings.Count(body, "data: "), "words, end, usage, mark: %s", body)
		require.Contains(t, body, `"content":"turn "`)
		require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"))
	}
	for path, body := range map[string]string{"/v1/chat/completions": `{"model":"m"}`, "/v1/audio/transcriptions": `{}`, "/v1/other": `{}`} {
		status, body := asks(t, c, path, body)
		require.Contains(t, []int{400, 404}, status)
		require.Contains(t, body, `"error"`)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	api := New(Script{})
	for i := range maxRequests + 10 {
		api.remember(Request{Bytes: i})
	}
	require.Len(t, api.Requests(), maxRequests)
	require.Equal(t, 10, api.Requests()[0].Bytes)
}
