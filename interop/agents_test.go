package interop

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/agent/hermes/hermestest"
	"mobilegate/agent/openai/openaitest"
	"mobilegate/loadtest"
)

// openAI is a gateway in front of a service with that script.
func openAI(t *testing.T, script openaitest.Script, env ...string) (*gateway, *openaitest.API) {
	script.Key = "the-key"
	api := openaitest.New(script)
	service := httptest.NewServer(api)
	t.Cleanup(service.Close)
	return serve(t, append([]string{"MOBILE_AGENT=openai", "MOBILE_OPENAI_BASE_URL=" + service.URL + "/v1", "MOBILE_OPENAI_MODEL=m",
		"MOBILE_OPENAI_API_KEY=the-key", "MOBILE_ADMIN_ADDR=127.0.0.1:0"}, env...)...), api
}

// aHermes is a gateway in front of a Hermes agent.
func aHermes(t *testing.T, c hermestest.Config, env ...string) (*gateway, *hermestest.Server) {
	c.Key = "the-key"
	api := hermestest.New(c)
	service := httptest.NewServer(api)
	t.Cleanup(func() {
		api.Close()
		service.Close()
	})
	return serve(t, append([]string{"MOBILE_AGENT=hermes", "MOBILE_HERMES_URL=" + service.URL, "MOBILE_HERMES_KEY=the-key", "MOBILE_ADMIN_ADDR=127.0.0.1:0"}, env...)...), api
}

// turn says a text and returns what came of it until the turn was over: the text of its messages, as the device has it in
// the end, and the sentences of its errors.
func (d *device) turn(text string) (said []string, failed []frame) {
	d.t.Helper()
	d.text(text)
	shown, order := map[string]string{}, []string{}
	for {
		switch f := d.hear(); f.T {
		case "message":
			if _, known := shown[f.ID]; !known {
				order = append(order, f.ID)
			}
			shown[f.ID] = f.Text
			if f.Final {
				said = append(said, f.Text)
				delete(shown, f.ID)
			}
		case "error":
			failed = append(failed, f)
		case "typing":
			if f.Stop {
				require.Empty(d.t, shown, "a message is left open")
				return said, failed
			}
		}
	}
}

// TestConversation: an agent streams its answers and knows what was said before, also after a restart if it is told where to
// keep it.
func TestConversation(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "conversations")
	script := openaitest.Script{}
	g, _ := openAI(t, script, "MOBILE_OPENAI_HISTORY="+file, "MOBILE_OPENAI_SYSTEM=Be brief.")
	d := coderWebsocket(t).online(g.url, "a", "tel-1")
	for i, text := range []string{"my name is Ann", "who am I"} {
		said, failed := d.turn(text)
		require.Empty(t, failed)
		require.Equal(t, []string{[]string{"turn 1: my name is Ann", "turn 2: who am I"}[i]}, said)
	}
	require.NotEqual(t, "0", g.numbers()[`mobilegate_agent_tokens_total{direction="output"}`])
	require.Equal(t, "1", g.numbers()["mobilegate_agent_up"])
	g.signal(os.Kill)
	<-g.ended

	g, api := openAI(t, script, "MOBILE_OPENAI_HISTORY="+file)
	d = coderWebsocket(t).online(g.url, "b", "tel-1")
	said, _ := d.turn("and now")
	require.Equal(t, []string{"turn 3: and now"}, said)
	require.Equal(t, "my name is Ann", api.Requests()[0].Messages[0].Text)
	said, _ = d.turn("/new")
	require.Len(t, said, 1)
	said, _ = d.turn("who am I")
	require.Equal(t, []string{"turn 1: who am I"}, said)
	require.NotContains(t, g.log.String(), "the-key")
	g.stop()
}

// TestHermesTranscripts plays conversations with cards through the gateway, and then asks the agent what it was told.
func TestHermesTranscripts(t *testing.T) {
	t.Parallel()
	c, err := hermestest.Load("testdata/hermes/script.json")
	require.NoError(t, err)
	g, api := aHermes(t, c, "MOBILE_TOKEN=secret", "MOBILE_QUOTA=off")
	var report bytes.Buffer
	all, err := loadtest.Conform{URL: g.url, Files: os.DirFS("testdata/hermes")}.Run(t.Context(), &report)
	require.NoError(t, err)
	require.Zero(t, all.Wrong+all.Left, report.String())
	require.Positive(t, all.Right)

	answers := map[string][]string{}
	for _, r := range api.Runs() {
		for _, a := range r.Answers {
			answers[r.Text] = append(answers[r.Text], a.Choice)
		}
		if strings.HasPrefix(r.Text, "wait") {
			require.Equal(t, 1, r.Stops)
		}
	}
	require.Equal(t, map[string][]string{"remove a.txt": {"once"}, "remove b.txt": {"deny"}, "flaky d.txt": {"session"}}, answers, "each once and only once")
	g.stop()
}
