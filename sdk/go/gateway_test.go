package hermes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const secret = "s3cret-token"

const readyFrame = `{"t":"ready","v":1,"session":"mobile:tel-1","device":{"id":"tel-1","name":"Phone"},"capabilities":{"text":true,"max_text_chars":12000}}`

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err := goleak.Find(
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"), // gnet's, from import on
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
	); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// peer is the gateway's side of one connection.
type peer struct {
	ctx context.Context
	ws  *websocket.Conn
	n   int // 1 for the first connection
}

// hear returns the next frame, or nil when the connection is over.
func (p *peer) hear() map[string]any {
	_, b, err := p.ws.Read(p.ctx)
	if err != nil {
		return nil
	}
	var f map[string]any
	if json.Unmarshal(b, &f) != nil {
		return map[string]any{"broken": string(b)}
	}
	return f
}

func (p *peer) say(frames ...string) {
	for _, f := range frames {
		p.ws.Write(p.ctx, websocket.MessageText, []byte(f))
	}
}

func (p *peer) close(code int, reason string) { p.ws.Close(websocket.StatusCode(code), reason) }

// gateway serves each connection with serve, which plays the gateway's side; the connection ends with it.
func gateway(t *testing.T, serve func(p *peer)) Config {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		ws.SetReadLimit(MaxFrameBytes)
		serve(&peer{ctx: ctx, ws: ws, n: int(n.Add(1))})
	}))
	t.Cleanup(func() {
		cancel()
		srv.Close()
	})
	return Config{
		URL:        "ws" + strings.TrimPrefix(srv.URL, "http") + "/ws",
		Token:      secret,
		Device:     Device{ID: "tel-1", Name: "Phone", Platform: "test", AppVersion: "1.2"},
		User:       User{ID: "u-1"},
		MaxBackoff: time.Millisecond,
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, cfg Config) *Conn {
	t.Helper()
	c, err := Dial(within(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { c.ws.CloseNow() })
	return c
}

func session(t *testing.T, cfg Config) *Session {
	t.Helper()
	s, err := NewSession(cfg)
	require.NoError(t, err)
	return s
}

// pinged answers a hello with ready and reports every WebSocket ping.
func pinged(w http.ResponseWriter, r *http.Request, pings chan<- struct{}) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{OnPingReceived: func(context.Context, []byte) bool {
		pings <- struct{}{}
		return true
	}})
	if err != nil {
		return
	}
	defer ws.CloseNow()
	for ctx := context.Background(); ; {
		if _, _, err := ws.Read(ctx); err != nil {
			return
		}
		ws.Write(ctx, websocket.MessageText, []byte(readyFrame))
	}
}
