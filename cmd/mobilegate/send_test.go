package main

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	hermes "mobilegate/sdk/go"

	"github.com/stretchr/testify/require"
)

// sender is a running send command.
type sender struct {
	t       *testing.T
	out     *screen
	errOut  *screen
	status  chan int
	tooLate context.CancelCauseFunc
}

// startSend runs send against g; its time is up when the test says so.
func startSend(t *testing.T, g *fakeGateway, args ...string) *sender {
	t.Helper()
	command, err := newSending(append([]string{"--url", g.url, "--to", "mobile:tel-2", "--id", "d-1"}, args...), testEnv)
	require.NoError(t, err)
	config := command.config
	config.MaxBackoff = time.Millisecond
	command.session, err = hermes.NewSession(config)
	require.NoError(t, err)
	ctx, tooLate := context.WithCancelCause(g.ctx)
	t.Cleanup(func() { tooLate(nil) })
	s := &sender{t: t, out: newScreen(), errOut: newScreen(), status: make(chan int, 1), tooLate: tooLate}
	go func() {
		status, reason := command.run(ctx)
		s.errOut.Write([]byte(reason))
		s.status <- status
	}()
	return s
}

func (s *sender) exits(status int, reason string) {
	s.t.Helper()
	c := client{t: s.t, out: s.out, errOut: s.errOut, status: s.status}
	c.exits(status)
	require.Equal(s.t, reason, s.errOut.String())
}

const delivered = `{"t":"delivered","id":"d-1","device":"tel-2"}`

func TestSendText(t *testing.T) {
	g := newFakeGateway(t)
	s := startSend(t, g, "--text", "good <morning> 🙂")
	l := g.accept()
	require.Equal(t, map[string]any{"t": "deliver", "id": "d-1", "target": "mobile:tel-2", "text": "good <morning> 🙂"}, l.hear())
	l.say(`{"t":"hologram"}`, `{"t":"error","code":"forbidden","message":"Not this one.","id":"d-2"}`,
		`{"t":"delivered","id":"d-2","device":"x"}`, delivered)
	_, err := l.read()
	require.ErrorContains(t, err, "StatusNormalClosure", "it says goodbye")
	close(l.over)
	s.exits(0, "")
}

func TestSendSaysHelloWithoutADeviceID(t *testing.T) {
	g := newFakeGateway(t)
	s := startSend(t, g, "--text", "hi")
	l := <-g.links
	require.Equal(t, map[string]any{"t": "hello", "v": 1.0, "token": chatToken, "user": map[string]any{},
		"device": map[string]any{"name": "mobilegate send", "platform": "terminal"}}, l.hear())
	l.say(`{"t":"ready","v":1,"session":"mobile:dev-1","device":{"id":"dev-1"}}`)
	l.hear()
	l.say(delivered)
	l.drain()
	s.exits(0, "")
}

func TestSendFiles(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		kind string
		size int
	}{
		{"photo.JPG", nil, "image", 1},
		{"a.gif", nil, "animation", 10},
		{"a.ogg", []string{"--text", " "}, "voice", 10},
		{"a.mp4", nil, "video", 10},
		{"report.pdf", []string{"--text", "see this"}, "document", 10},
		{"no extension", nil, "document", 10},
		{"b.mp4", []string{"--kind", "animation"}, "animation", 10},
		{"largest.bin", nil, "document", 8 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			content := []byte(strings.Repeat("x", c.size-1) + "\x00")
			file := filepath.Join(dir, c.name)
			require.NoError(t, os.WriteFile(file, content, 0o600))
			g := newFakeGateway(t)
			s := startSend(t, g, append(c.args, "--file", file)...)
			l := g.accept()
			f := l.hear()
			media := f["media"].(map[string]any)
			data, err := base64.StdEncoding.DecodeString(media["data"].(string))
			require.NoError(t, err)
			require.True(t, string(content) == string(data))
			delete(media, "data")
			require.Equal(t, map[string]any{"kind": c.kind, "filename": c.name}, media)
			if len(c.args) > 0 && c.args[0] == "--text" {
				require.Equal(t, c.args[1], f["text"])
			} else {
				require.NotContains(t, f, "text")
			}
			l.say(delivered)
			l.drain()
			s.exits(0, "")
		})
	}
}

func TestSendRefused(t *testing.T) {
	for code, status := range map[string]int{
		"device_offline": 3, "forbidden": 4, "bad_frame": 2, "too_big": 2, "unsupported_frame": 2, "internal_error": 1, "new_code": 1,
	} {
		for name, id := range map[string]string{"": `,"id":"d-1"`, " without an id": ""} {
			t.Run(code+name, func(t *testing.T) {
				g := newFakeGateway(t)
				s := startSend(t, g, "--text", "hi")
				l := g.accept()
				l.hear()
				l.say(`{"t":"error","code":"` + code + `","message":"No."` + id + `}`)
				l.drain()
				s.exits(status, code+": No.")
			})
		}
	}
}

func TestSendNotLetIn(t *testing.T) {
	for _, c := range []struct {
		say    []string
		code   int
		reason string
		status int
		want   string
	}{
		{[]string{`{"t":"error","code":"auth_failed","message":"The token is wrong.","fatal":true}`}, 1008, "auth_failed", 4, "auth_failed: The token is wrong."},
		{[]string{`{"t":"error","code":"forbidden","message":"Not yours.","fatal":true}`}, 1008, "forbidden", 4, "forbidden: Not yours."},
		{nil, 1008, "auth_failed", 4, "the gateway refused: auth_failed"},
		{nil, 1008, "bad_frame", 2, "the gateway refused: bad_frame"},
		{nil, 1013, "overloaded", 5, "cannot reach the gateway: closed by the gateway (1013): overloaded"},
	} {
		g := newFakeGateway(t)
		s := startSend(t, g, "--text", "hi")
		l := g.hello()
		l.say(c.say...)
		l.close(c.code, c.reason)
		s.exits(c.status, c.want)
	}
}

func TestSendAgainOnANewConnection(t *testing.T) {
	g := newFakeGateway(t)
	s := startSend(t, g, "--text", "hi")
	l := g.accept()
	first := l.hear()
	l.close(1001, "going away")
	l = g.hello()
	l.close(1013, "overloaded") // what was sent may have arrived, so this is not the end
	l = g.accept()
	require.Equal(t, first, l.hear(), "the same id")
	l.say(delivered)
	l.drain()
	s.exits(0, "")
}

func TestSendWaitsWhenAsked(t *testing.T) {
	g := newFakeGateway(t)
	s := startSend(t, g, "--text", "hi")
	l := g.accept()
	first := l.hear()
	l.say(`{"t":"error","code":"rate_limited","message":"Wait.","retry_after_ms":1,"id":"d-1"}`)
	require.Equal(t, first, l.hear())
	l.say(delivered)
	l.drain()
	s.exits(0, "")
}

func TestSendWithoutAnAnswer(t *testing.T) {
	g := newFakeGateway(t)
	s := startSend(t, g, "--text", "hi", "--timeout", "9m")
	l := g.accept()
	l.hear()
	s.tooLate(errLate)
	l.drain()
	s.exits(6, "no answer within 9m0s, so it may have been delivered; to try again and not deliver it twice: --id d-1")

	s = startSend(t, g, "--text", "hi")
	l = g.accept()
	l.hear()
	l.close(1001, "going away")
	l = g.hello() // no ready
	s.tooLate(errLate)
	l.drain()
	s.exits(6, "no answer within 30s, so it may have been delivered; to try again and not deliver it twice: --id d-1 (closed by the gateway (1001): going away)")

	s = startSend(t, g, "--text", "hi")
	l = g.hello()
	s.tooLate(errLate)
	l.drain()
	s.exits(5, "the gateway did not answer within 30s")

	s = startSend(t, g, "--text", "hi")
	l = g.accept()
	l.hear()
	s.tooLate(nil)
	l.drain()
	s.exits(1, "interrupted")
}

// command runs send as the shell does.
func command(t *testing.T, env map[string]string, args ...string) (status int, out, errOut string) {
	t.Helper()
	var o, e strings.Builder
	status = run(t.Context(), append([]string{"send"}, args...), func(name string) string { return env[name] }, strings.NewReader(""), &o, &e)
	require.NotContains(t, o.String()+e.String(), chatToken)
	return status, o.String(), e.String()
}

func TestSendUnreachable(t *testing.T) {
	env := map[string]string{"MOBILE_TOKEN": chatToken}
	notFound := httptest.NewServer(http.NotFoundHandler())
	defer notFound.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	for want, args := range map[string][]string{
		"send: cannot reach the gateway: ":                                                 {"--url", "ws://127.0.0.1:1/ws"},
		"send: cannot reach the gateway: no gateway at this address: HTTP 404 Not Found\n": {"--url", "ws" + strings.TrimPrefix(notFound.URL, "http")},
		"send: the gateway did not answer within 50ms\n":                                   {"--url", "ws" + strings.TrimPrefix(silent.URL, "http"), "--timeout", "50ms"},
	} {
		status, out, errOut := command(t, env, append(args, "--to", "x", "--text", "hi")...)
		require.Equal(t, 5, status)
		require.Empty(t, out)
		require.True(t, strings.HasPrefix(errOut, want), errOut)
	}
}

func TestSendUsage(t *testing.T) {
	env := map[string]string{"MOBILE_TOKEN": chatToken}
	dir := t.TempDir()
	empty, large := filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.WriteFile(large, nil, 0o600))
	require.NoError(t, os.Truncate(large, 8<<20+1))
	with := func(args ...string) []string { return append([]string{"--to", "mobile:x", "--text", "hi"}, args...) }
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"nothing":          {env, nil, "--to must name a device"},
		"no device":        {env, []string{"--text", "hi"}, "--to must name a device"},
		"no device id":     {env, []string{"--to", "mobile:", "--text", "hi"}, "--to must name a device"},
		"nothing to send":  {env, []string{"--to", "x", "--text", " \n"}, "nothing to send"},
		"kind alone":       {env, with("--kind", "image"), "--kind goes with --file"},
		"odd kind":         {env, with("--file", large, "--kind", "hologram"), "--kind must be image, voice,"},
		"no such file":     {env, with("--file", empty+"x"), "no such file"},
		"a directory":      {env, with("--file", dir), "is a directory"},
		"empty file":       {env, with("--file", empty), "the file is empty"},
		"large file":       {env, with("--file", large), "the file is too big: at most 8 MiB (8388608 bytes) can be delivered"},
		"empty id":         {env, with("--id", ""), "--id must have 1 to 128 characters"},
		"long id":          {env, with("--id", strings.Repeat("ж", 129)), "--id must have 1 to 128 characters"},
		"broken id":        {env, with("--id", "\xff"), "--id must have 1 to 128 characters"},
		"no time":          {env, with("--timeout", "0"), "--timeout"},
		"odd time":         {env, with("--timeout", "x"), "-timeout"},
		"no token":         {nil, with(), "no token: put it into the environment as MOBILE_DELIVER_TOKEN or MOBILE_TOKEN, or"},
		"no token file":    {env, with("--token-file", empty+"x"), "no such file"},
		"empty token file": {env, with("--token-file", empty), "no token"},
		"token as a flag":  {env, with("--token=" + chatToken), "not defined: -token"},
		"argument":         {env, with(chatToken), "unexpected argument"},
		"odd address":      {env, with("--url", "http://h/?token="+chatToken), "ws://host"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errOut := command(t, c.env, c.args...)
			require.Equal(t, 2, status)
			require.Contains(t, errOut, c.want)
			require.Empty(t, out)
		})
	}
	status, out, errOut := command(t, nil, "--help")
	require.Equal(t, 0, status)
	require.Equal(t, sendUsage, out)
	require.Empty(t, errOut)
}

func TestSendToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(" of-the-file\n"), 0o600))
	for _, c := range []struct {
		args []string
		env  map[string]string
		want string
	}{
		{nil, map[string]string{"MOBILE_TOKEN": "ordinary"}, "ordinary"},
		{nil, map[string]string{"MOBILE_TOKEN": "ordinary", "MOBILE_DELIVER_TOKEN": " deliver "}, "deliver"},
		{nil, map[string]string{"MOBILE_TOKEN": "ordinary", "MOBILE_DELIVER_TOKEN": " "}, "ordinary"},
		{[]string{"--token-file", file}, map[string]string{"MOBILE_DELIVER_TOKEN": "deliver"}, "of-the-file"},
	} {
		s, err := newSending(append(c.args, "--to", "x", "--text", "hi"), func(name string) string { return c.env[name] })
		require.NoError(t, err)
		require.Equal(t, c.want, s.config.Token)
		require.Equal(t, 30*time.Second, s.timeout)
		require.NotEmpty(t, s.frame.ID)
	}
}
