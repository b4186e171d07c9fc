package hermestest

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "s3cret"

// client asks a Server in memory.
type client struct {
	*Server
	t    *testing.T
	http *http.Client
}

// play runs f beside a Server, in a bubble with a time of its own.
func play(t *testing.T, cfg Config, f func(c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Key = secret
		s := New(cfg)
		defer s.Close()
		f(&client{s, t, s.Client()})
	})
}

// ask sends one request; headers are pairs.
func (c *client) ask(method, path, body string, headers ...string) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, URL+path, strings.NewReader(body))
	require.NoError(c.t, err)
	req.Header.Set("Authorization", "Bearer "+secret)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.http.Do(req)
	require.NoError(c.t, err)
	return res
}

// object sends one request, wants the status, and reads the answer.
func (c *client) object(status int, method, path, body string, headers ...string) map[string]any {
	c.t.Helper()
	res := c.ask(method, path, body, headers...)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(c.t, err)
	require.Equal(c.t, status, res.StatusCode, "%s", b)
	all := map[string]any{}
	require.NoError(c.t, json.Unmarshal(b, &all), "%s", b)
	return all
}

// code is the error code of an answer.
func code(all map[string]any) any { return all["error"].(map[string]any)["code"] }

// run starts a run and gives its id.
func (c *client) run(text string, headers ...string) string {
	c.t.Helper()
	b, err := json.Marshal(map[string]string{"input": text})
	require.NoError(c.t, err)
	return c.object(http.StatusAccepted, "POST", "/v1/runs", string(b), headers...)["run_id"].(string)
}

// frames are the lines of a stream, block by block.
type frames struct {
	t   *testing.T
	res *http.Response
	r   *bufio.Reader
}

func (c *client) open(path string, headers ...string) *frames {
	c.t.Helper()
	res := c.ask("GET", path, "", headers...)
	require.Equal(c.t, http.StatusOK, res.StatusCode)
	return &frames{c.t, res, bufio.NewReader(res.Body)}
}

func (f *frames) close() { f.res.Body.Close() }

// next is the next block, without its empty line.
func (f *frames) next() (string, error) {
	var block []string
	for {
		line, err := f.r.ReadString('\n')
		if err != nil {
			return strings.Join(append(block, line), "\n"), err
		}
		if line == "\n" {
			return strings.Join(block, "\n"), nil
		}
		block = append(block, strings.TrimSuffix(line, "\n"))
	}
}

// event is the data of the next block that has some.
func (f *frames) event() map[string]any {
	f.t.Helper()
	for {
		block, err := f.next()
		require.NoError(f.t, err)
		for line := range strings.Lines(block) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				all := map[string]any{}
				require.NoError(f.t, json.Unmarshal([]byte(data), &all))
				return all
			}
		}
	}
}

// rest is what comes until the end, and how it ended.
func (f *frames) rest() (blocks []string, err error) {
	for {
		block, err := f.next()
		if block != "" {
			blocks = append(blocks, block)
		}
		if err != nil {
			f.close()
			return blocks, err
		}
	}
}

func TestTurn(t *testing.T) {
	for name, features := range map[string]Features{"A": A, "B": B} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Features: features}, func(c *client) {
				id := c.run("hello", "X-Hermes-Session-Key", "agent:main:mobile:dm:a")
				blocks, err := c.open("/v1/runs/" + id + "/events").rest()
				require.ErrorIs(t, err, io.EOF)
				require.Len(t, blocks, 5)
				require.Equal(t, ": stream closed", blocks[4])
				run := c.object(http.StatusOK, "GET", "/v1/runs/"+id, "")
				require.Equal(t, "completed", run["status"])
				require.Equal(t, "turn 1: hello", run["output"])
			})
		})
	}
}
