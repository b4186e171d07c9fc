package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	hermes "mobilegate/sdk/go"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	chatToken   = "s3cret-token"
	testTimeout = 20 * time.Second // only a failing test takes so long
)

// fakeGateway hands each connection to the test, which plays the gateway's side step by step.
type fakeGateway struct {
	t     *testing.T
	ctx   context.Context
	url   string
	links chan *link
}

func newFakeGateway(t *testing.T) *fakeGateway {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	g := &fakeGateway{t: t, ctx: ctx, links: make(chan *link, 16)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		ws.SetReadLimit(hermes.MaxFrameBytes)
		l := &link{t: t, ctx: ctx, ws: ws, over: make(chan struct{})}
		g.links <- l
		select {
		case <-l.over:
		case <-ctx.Done():
		}
	}))
	t.Cleanup(func() {
		cancel()
		srv.Close()
	})
	g.url = "ws" + strings.TrimPrefix(srv.URL, "http") + "/ws"
	return g
}

// hello takes the next connection and its hello.
func (g *fakeGateway) hello() *link {
	g.t.Helper()
	select {
	case l := <-g.links:
		f := l.hear()
		require.Equal(g.t, "hello", f["t"])
		require.Equal(g.t, chatToken, f["token"])
		return l
	case <-g.ctx.Done():
		require.FailNow(g.t, "nobody connected")
		return nil
	}
}

// accept is hello, answered with ready.
func (g *fakeGateway) accept() *link {
	g.t.Helper()
	l := g.hello()
	l.say(`{"t":"ready","v":1,"session":"mobile:tel-1","device":{"id":"tel-1","name":"tel-1"}}`)
	return l
}

// link is the gateway's side of one connection.
type link struct {
	t    *testing.T
	ctx  context.Context
	ws   *websocket.Conn
	over chan struct{}
}

// hear returns the next frame; it answers probes on the way.
func (l *link) hear() map[string]any {
	l.t.Helper()
	for {
		f, err := l.read()
		require.NoError(l.t, err, "the client went away")
		if !l.probe(f) {
			return f
		}
	}
}

func (l *link) read() (map[string]any, error) {
	_, b, err := l.ws.Read(l.ctx)
	if err != nil {
		return nil, err
	}
	var f map[string]any
	if json.Unmarshal(b, &f) != nil {
		f = map[string]any{"broken": string(b)}
	}
	return f, nil
}

func (l *link) probe(f map[string]any) bool {
	ts, _ := f["ts"].(string)
	if f["t"] != "ping" || !strings.HasPrefix(ts, "mobilegate-chat-") {
		return false
	}
	l.say(`{"t":"pong","ts":"` + ts + `"}`)
	return true
}

// text returns the next frame's id; it must be a text that says s.
func (l *link) text(s string) string {
	l.t.Helper()
	f := l.hear()
	require.Equal(l.t, "text", f["t"], f)
	require.Equal(l.t, s, f["text"])
	return f["id"].(string)
}

func (l *link) say(frames ...string) {
	l.t.Helper()
	for _, f := range frames {
		require.NoError(l.t, l.ws.Write(l.ctx, websocket.MessageText, []byte(f)))
	}
}

func (l *link) close(code int, reason string) {
	l.ws.Close(websocket.StatusCode(code), reason)
	close(l.over)
}

// drain goes on answering probes until the client leaves; it returns the frames that came, apart from probes.
func (l *link) drain() (rest []map[string]any) {
	defer close(l.over)
	for {
		f, err := l.read()
		if err != nil {
			return rest
		}
		if !l.probe(f) {
			rest = append(rest, f)
		}
	}
}

const (
	typing = `{"t":"typing"}`
	stop   = `{"t":"typing","stop":true}`
)

func message(id, text string, flags ...string) string {
	t, _ := json.Marshal(text)
	f := fmt.Sprintf(`{"t":"message","id":%q,"text":%s,"chunk":{"index":0,"total":1}`, id, t)
	for _, flag := range flags {
		f += fmt.Sprintf(`,%q:true`, flag)
	}
	return f + "}"
}

// turn is a whole turn with one reply.
func turn(id, text string) []string {
	return []string{`{"t":"avatar","state":"thinking"}`, typing, message(id, text, "final"), `{"t":"avatar","state":"speaking"}`, stop}
}

// screen collects what is written to it and lets a test wait for it.
type screen struct {
	mu   sync.Mutex
	text string
	more chan struct{} // closed and replaced on each write
}

func newScreen() *screen { return &screen{more: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(p)
	close(s.more)
	s.more = make(chan struct{})
	return len(p), nil
}

func (s *screen) now() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text, s.more
}

func (s *screen) String() string {
	text, _ := s.now()
	return text
}

// await waits until want stands on the screen.
func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	late := time.After(testTimeout)
	for {
		text, more := s.now()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-more:
		case <-late:
			require.Contains(t, text, want)
		}
	}
}

// client is a running chat command.
type client struct {
	t           *testing.T
	in          io.WriteCloser
	out, errOut *screen
	status      chan int
}

func testEnv(key string) string {
	return map[string]string{"MOBILE_TOKEN": chatToken, "TERM": "xterm"}[key]
}

// startPiped runs chat with in as its input, which is a pipe.
func startPiped(t *testing.T, ctx context.Context, in io.Reader, patience time.Duration, args ...string) *client {
	t.Helper()
	c := &client{t: t, out: newScreen(), errOut: newScreen(), status: make(chan int, 1)}
	command, err := newChat(args, testEnv, in, c.out, c.errOut)
	require.NoError(t, err)
	if patience > 0 {
		command.patience = patience
	}
	go func() { c.status <- command.run(ctx, in) }()
	t.Cleanup(c.noSecrets)
	return c
}

// startTerminal runs chat at a pseudo-terminal: what is written to in is typed, and out is what the person sees.
func startTerminal(t *testing.T, ctx context.Context, args ...string) *client {
	t.Helper()
	master, slave := openTerminal(t)
	c := &client{t: t, in: master, out: newScreen(), errOut: newScreen(), status: make(chan int, 1)}
	go io.Copy(c.out, master)
	go func() { c.status <- runChat(ctx, args, testEnv, slave, slave, c.errOut) }()
	t.Cleanup(c.noSecrets)
	return c
}

func (c *client) noSecrets() {
	require.NotContains(c.t, c.out.String(), chatToken)
	require.NotContains(c.t, c.errOut.String(), chatToken)
}

func (c *client) typeIn(s string) {
	c.t.Helper()
	_, err := io.WriteString(c.in, s)
	require.NoError(c.t, err)
}

func (c *client) exits(status int) {
	c.t.Helper()
	select {
	case got := <-c.status:
		require.Equal(c.t, status, got, "stdout %q stderr %q", c.out, c.errOut)
	case <-time.After(testTimeout):
		require.FailNow(c.t, "still running", "stdout %q stderr %q", c.out, c.errOut)
	}
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip("this machine has no pseudo-terminals: ", err)
	}
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	master = os.NewFile(uintptr(fd), "terminal")
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() {
		master.Close()
		slave.Close()
	})
	return master, slave
}
