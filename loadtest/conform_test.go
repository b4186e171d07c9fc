package loadtest_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/engine"
	"mobilegate/loadtest"
	"mobilegate/session"
	"mobilegate/session/testdata/transcripts"
)

// startStage is the gateway as the transcripts expect it.
func startStage(t testing.TB) (url string) {
	t.Helper()
	hub, err := session.New(session.Config{Agent: &agent.Echo{}, AvatarURL: "https://example.org/a.glb", Log: slog.New(slog.DiscardHandler),
		Access: session.Access{Tokens: []session.Token{{Secret: "secret"}, {Secret: "other"}, {Secret: "bound", Device: "tel-bound"}, {Secret: "cron", Deliver: true}}}})
	require.NoError(t, err)
	return serve(t, engine.Config{MaxConnections: 100}, hub)
}

// The gateway is as its own transcripts say, as far as they can be played from outside.
func TestConform(t *testing.T) {
	t.Parallel()
	url := startStage(t)
	var out bytes.Buffer
	found, err := loadtest.Conform{URL: url, Files: transcripts.Files, Wait: time.Second}.Run(context.Background(), &out)
	require.NoError(t, err)
	require.Zero(t, found.Wrong, out.String())
	require.GreaterOrEqual(t, found.Right, 70, out.String())
	require.Equal(t, loadtest.ExitOK, found.Exit())
}

// What differs is named, with its place; what cannot be played is left out, with the reason.
func TestConformDiffers(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"x.txt": {Data: []byte(strings.Join([]string{
		"case it is right", "    ignore avatar typing", "    joins", `    > {"t":"text","id":"1","text":"hi from tel-1"}`, `    < {"t":"message","text":"hi from tel-1"}`, "    < nothing",
		"case a second time, and nobody remembers", "    ignore avatar typing", "    joins", `    > {"t":"text","id":"1","text":"hi"}`, `    < {"t":"message","text":"hi"}`, "    leaves",
		"case another word", "    joins", `    > {"t":"ping","ts":1}`, `    < {"t":"pong","ts":2}`,
		"case too much", "    joins", `    > {"t":"ping","ts":1}`,
		"case too little", "    joins", `    > {"t":"ack"}`, `    < {"t":"pong"}`,
		"case an end", "    opens", `    > {"t":"text"}`, `    < {"t":"error","code":"bad_frame","fatal":true}`, "    x 1008 bad_frame",
		"case another end", "    opens", `    > {"t":"text"}`, `    < {"t":"error"}`, "    x 1000",
		"case time", "    joins", `    > {"t":"text","id":"1","text":"/sleep 1 x"}`, "    < ...", "    + 900ms", "    < nothing", "    + 400ms", `    < {"t":"message","text":"x"}`, "    < ...",
		"case an agent", "    joins", "    agent ends",
		"case a long time", "    joins", "    + 1h",
		"case a setting", "    with slots=1", "    joins",
		"case a proxy", "    opens from=10.0.0.1",
		"case a sleep", "    joins", "    sleeps", "    wakes",
	}, "\n"))}}
	var out bytes.Buffer
	found, err := loadtest.Conform{URL: startStage(t), Files: files, Quiet: 300 * time.Millisecond}.Run(context.Background(), &out)
	require.NoError(t, err)
	require.Equal(t, loadtest.Conformity{Right: 4, Wrong: 4, Left: 5}, found, out.String())
	require.Equal(t, loadtest.ExitWrong, found.Exit())
	for _, line := range []string{"differs   x.txt:13 another word", "want 2, got 1", "differs   x.txt:17 too much", "differs   x.txt:20 too little", "differs   x.txt:29 another end",
		"left out  x.txt:43 an agent: it needs an agent", "a long time: 1h0m0s would pass", "a setting: it needs a server", "a proxy: it needs a proxy", "a sleep: it is about the pings"} {
		require.Contains(t, out.String(), line)
	}
}

func TestConformUnreachable(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = loadtest.Conform{URL: "ws://" + l.Addr().String(), Files: transcripts.Files}.Run(context.Background(), new(bytes.Buffer))
	require.Equal(t, loadtest.ExitUnreachable, loadtest.ExitOf(err))
}
