package hermestest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// chat opens a session stream.
func (c *client) chat(id, body string, headers ...string) *frames {
	c.t.Helper()
	res := c.ask("POST", "/api/sessions/"+id+"/chat/stream", body, headers...)
	require.Equal(c.t, http.StatusOK, res.StatusCode)
	return &frames{c.t, res, bufio.NewReader(res.Body)}
}

// session makes one.
func (c *client) session(id string) {
	c.t.Helper()
	all := c.object(http.StatusCreated, "POST", "/api/sessions", fmt.Sprintf(`{"id":%q,"title":"t"}`, id))
	require.Equal(c.t, "hermes.session", all["object"])
	require.Equal(c.t, id, all["session"].(map[string]any)["id"])
}

func TestSessions(t *testing.T) {
	play(t, Config{}, func(c *client) {
		c.session("one")
		require.Equal(t, "session_exists", code(c.object(http.StatusConflict, "POST", "/api/sessions", `{"session_id":"one"}`)))
		made := c.object(http.StatusCreated, "POST", "/api/sessions", "")["session"].(map[string]any)
		require.NotEmpty(t, made["id"])
		c.object(http.StatusOK, "GET", "/api/sessions/"+made["id"].(string), "")
		for i := range 3 {
			_, err := c.chat("one", fmt.Sprintf(`{"input":"m%d"}`, i)).rest()
			require.ErrorIs(t, err, io.EOF)
		}
		path := "/api/sessions/one/messages"
		texts := func(query string) (all []string) {
			for _, m := range c.object(http.StatusOK, "GET", path+query, "")["data"].([]any) {
				all = append(all, m.(map[string]any)["content"].(string))
			}
			return all
		}
		require.Equal(t, []string{"m0", "turn 1: m0", "m1", "turn 2: m1", "m2", "turn 3: m2"}, texts(""))
		require.Equal(t, []string{"m1", "turn 2: m1"}, texts("?offset=2&limit=2"))
		require.Equal(t, []string{"turn 3: m2", "m2"}, texts("?order=latest&limit=2"))
		require.Empty(t, texts("?offset=100"))
		for range keptMessages {
			_, _ = c.chat("one", `{"message":"more"}`).rest()
		}
		require.Len(t, texts(""), keptMessages, "the oldest are forgotten")
	})
}

func TestSessionStream(t *testing.T) {
	rules := []Rule{
		{Prefix: "all", Steps: []Step{
			{Do: "delta", Text: "a"}, {Do: "tool", Tool: "terminal", Text: "ls"}, {Do: "tool", Tool: "web", Error: true},
			{Do: "reasoning", Text: "hm"}, {Do: "approval", RequestID: "r"}, {Do: "complete", Text: "b"},
		}},
		{Prefix: "fail", Steps: []Step{{Do: "fail", Text: "why"}}},
	}
	play(t, Config{Features: B, Rules: rules}, func(c *client) {
		c.session("s")
		f := c.chat("s", `{"message":"all"}`)
		var id string
		for i, want := range []string{
			"run.started", "message.started", "assistant.delta", "tool.started", "tool.completed", "tool.started", "tool.failed",
			"tool.progress", "approval.request", "approval.responded", "assistant.completed", "run.completed", "done",
		} {
			block, err := f.next()
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(block, "event: "+want+"\ndata: "), block)
			require.Contains(t, block, fmt.Sprintf(`"seq":%d,"session_id":"s"`, i+1))
			if want == "approval.request" {
				id = c.Runs()[0].ID
				require.Contains(t, block, `"request_id":"r"`)
				require.Contains(t, block, id)
				require.Equal(t, "run_not_found", code(c.object(http.StatusNotFound, "GET", "/v1/runs/"+id+"/events", "")))
				c.object(http.StatusOK, "POST", "/v1/runs/"+id+"/approval", `{"choice":"once"}`)
			}
			if want == "assistant.completed" {
				require.Contains(t, block, `"content":"b"`)
			}
		}
		blocks, err := f.rest()
		require.ErrorIs(t, err, io.EOF)
		require.Empty(t, blocks)
		require.True(t, c.Runs()[0].Session)
		blocks, _ = c.chat("s", `{"message":"fail"}`).rest()
		require.Len(t, blocks, 4)
		require.Contains(t, blocks[2], `"error":"why"`)
	})
}

func TestSessionKeepAlive(t *testing.T) {
	play(t, Config{Rules: []Rule{{Steps: []Step{{Do: "wait", For: 25 * time.Second}}}}}, func(c *client) {
		c.session("s")
		blocks, err := c.chat("s", `{"message":"x"}`).rest()
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, []string{": keepalive", ": keepalive"}, blocks[2:4])
	})
}

// A conversation that runs have begun goes on with an image.
func TestSessionOfRuns(t *testing.T) {
	play(t, Config{}, func(c *client) {
		id := c.run("a", "X-Hermes-Session-Key", "agent:main:mobile:dm:a")
		time.Sleep(time.Second)
		session := c.object(http.StatusOK, "GET", "/v1/runs/"+id, "")["session_id"].(string)
		blocks, _ := c.chat(session, `{"message":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`+pixel+`"}}]}`).rest()
		require.Contains(t, blocks[len(blocks)-2], "turn 2: see (1 image)")
		require.Equal(t, len(Pixel()), c.Runs()[1].Images[0].Size)
		require.Len(t, c.Runs()[1].Images[0].SHA256, 64)
	})
}

func TestSessionParts(t *testing.T) {
	for part, want := range map[string]string{
		`{"type":"file","file":{}}`: "unsupported_content_type",
		`{"type":"input_file"}`:     "unsupported_content_type",
		`{"type":"video"}`:          "unsupported_content_type",
		`7`:                         "unsupported_content_type",
		`{"type":"image_url"}`:      "invalid_image_url",
		`{"type":"image_url","image_url":{"url":""}}`:                 "invalid_image_url",
		`{"type":"image_url","image_url":"ftp://a.test"}`:             "invalid_image_url",
		`{"type":"image_url","image_url":"data:image/png"}`:           "invalid_image_url",
		`{"type":"image_url","image_url":"data:text/plain;base64,a"}`: "unsupported_content_type",
		`{"type":"text","text":""}`:                                   "missing_message",
	} {
		t.Run(part, func(t *testing.T) {
			play(t, Config{}, func(c *client) {
				c.session("s")
				path := "/api/sessions/s/chat/stream"
				require.Equal(t, want, code(c.object(http.StatusBadRequest, "POST", path, `{"message":[`+part+`]}`)))
				require.Empty(t, c.Runs())
			})
		})
	}
	play(t, Config{}, func(c *client) {
		c.session("s")
		many := strings.Repeat(`{"type":"text","text":"a"},`, maxPart+10)
		_, err := c.chat("s", `{"message":[`+strings.TrimSuffix(many, ",")+`]}`).rest()
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, maxPart, strings.Count(c.Runs()[0].Text, "a"))
	})
}

func TestSessionRunsOneAtATime(t *testing.T) {
	rules := []Rule{{Prefix: "hang", Steps: []Step{{Do: "wait"}}}}
	play(t, Config{Features: B, Rules: rules}, func(c *client) {
		c.session("s")
		path := "/api/sessions/s/chat/stream"
		f := c.chat("s", `{"message":"hang"}`, "Idempotency-Key", "k")
		all := c.object(http.StatusConflict, "POST", path, `{"message":"more"}`)
		require.Equal(t, "run_already_active", code(all))
		id := c.Runs()[0].ID
		require.Equal(t, id, all["run_id"])
		all = c.object(http.StatusAccepted, "POST", path, `{"message":"hang"}`, "Idempotency-Key", "k")
		require.Equal(t, map[string]any{"run_id": id, "status": "running", "replayed": true, "session_stream": true}, all)
		c.object(http.StatusOK, "POST", "/v1/runs/"+id+"/stop", "")
		blocks, err := f.rest()
		require.ErrorIs(t, err, io.EOF)
		require.Contains(t, blocks[2], "event: run.cancelled")
		_, err = c.chat("s", `{"message":"more"}`).rest()
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestSessionReaderLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		features Features
		want     string
	}{"A interrupts": {A, "cancelled"}, "B goes on": {B, "completed"}} {
		t.Run(name, func(t *testing.T) {
			rules := []Rule{{Steps: []Step{{Do: "wait", For: time.Minute}}}}
			play(t, Config{Features: c.features, Rules: rules}, func(cl *client) {
				cl.session("s")
				f := cl.chat("s", `{"message":"x"}`)
				_, err := f.next()
				require.NoError(t, err)
				f.close()
				time.Sleep(time.Hour / 2)
				synctest.Wait()
				require.Equal(t, c.want, cl.Runs()[0].Status)
			})
		})
	}
}
