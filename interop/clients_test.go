package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// patience is how long a client may take for all that it is told to do; a client that hangs is killed then.
const patience = 60 * time.Second

// command is what a test tells a client to do. Clients know nothing of the protocol: what to say and what to expect stands
// in Go, once for all of them.
type command struct {
	Do     string   `json:"do"` // dial, send, ping, close
	Conn   string   `json:"conn"`
	URL    string   `json:"url,omitempty"`
	Parts  []string `json:"parts,omitempty"` // of one message: each is a fragment
	Binary bool     `json:"binary"`
	Code   int      `json:"code,omitempty"`
	Text   string   `json:"text,omitempty"` // payload of the ping, reason of the close
}

// event is what happened on a connection, as the library reports it.
type event struct {
	Conn string `json:"conn"`
	What string `json:"what"` // open, refused, text, binary, pong, close, error
	Code int    `json:"code"` // of the close, or the HTTP status of a refusal
	Text string `json:"text"` // of the message, payload of the pong, reason of the close, the extensions agreed on
}

// client is one library that a test plays devices with.
type client struct {
	t       *testing.T
	ctx     context.Context // ends when patience does
	tell    func(command) error
	events  chan event
	waiting map[string][]event // by connection: came while another one was listened to
}

func newClient(t *testing.T) *client {
	ctx, cancel := context.WithTimeout(context.Background(), patience) // t.Context ends before a script is told to
	t.Cleanup(cancel)
	return &client{t: t, ctx: ctx, events: make(chan event, 1024), waiting: map[string][]event{}}
}

func (c *client) do(cmd command) {
	c.t.Helper()
	require.NoError(c.t, c.tell(cmd))
}

// next is what happens next on a connection.
func (c *client) next(conn string) event {
	c.t.Helper()
	for len(c.waiting[conn]) == 0 {
		select {
		case ev, ok := <-c.events:
			require.True(c.t, ok, "the client has ended")
			c.waiting[ev.Conn] = append(c.waiting[ev.Conn], ev)
		case <-c.ctx.Done():
			require.FailNow(c.t, "the client hangs", "nothing more on connection %q", conn)
		}
	}
	ev := c.waiting[conn][0]
	c.waiting[conn] = c.waiting[conn][1:]
	return ev
}

func (c *client) put(ev event) {
	select {
	case c.events <- ev:
	case <-c.ctx.Done():
	}
}

// npmWS is ws from npm, on Node.
func npmWS(t *testing.T) *client {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: apt-get install nodejs npm")
	}
	if _, err := os.Stat(filepath.FromSlash("testdata/node_modules/ws/package.json")); err != nil {
		t.Skip("the npm package ws is not installed: npm ci --prefix interop/testdata")
	}
	return script(t, node, "testdata/client.js")
}

// pythonWebsockets is the module websockets, in Debian's Python where that has it.
func pythonWebsockets(t *testing.T) *client {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import websockets").Run() == nil {
			return script(t, python, "testdata/client.py")
		}
	}
	t.Skip("the Python module websockets is not installed: apt-get install python3-websockets")
	return nil
}

// script runs a client as a process of its own, which takes commands and tells events as lines of JSON.
func script(t *testing.T, interpreter, file string) *client {
	c := newClient(t)
	cmd := exec.CommandContext(c.ctx, interpreter, filepath.FromSlash(file))
	complaints := newScreen()
	cmd.Stderr = complaints
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	commands := json.NewEncoder(in)
	c.tell = func(cmd command) error { return commands.Encode(cmd) }
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		defer close(c.events)
		for lines := json.NewDecoder(bufio.NewReader(out)); ; {
			var ev event
			if lines.Decode(&ev) != nil {
				io.Copy(io.Discard, out)
				return
			}
			c.put(ev)
		}
	}()
	t.Cleanup(func() {
		in.Close()
		<-heard
		if err := cmd.Wait(); !t.Failed() {
			require.NoError(t, err, complaints)
		}
		require.Empty(t, complaints.String())
	})
	return c
}

// coderWebsocket is github.com/coder/websocket, in this process.
func coderWebsocket(t *testing.T) *client { return coderVia(t, nil) }

// coderFrom is coderWebsocket whose connections come from an address of this host and have these headers in their request.
func coderFrom(t *testing.T, source string, headers ...string) *client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	return coderVia(t, dialer.DialContext, headers...)
}

// dialContext is how a net.Dialer opens a connection.
type dialContext func(ctx context.Context, network, address string) (net.Conn, error)

// coderVia is coderWebsocket with connections that dial opens.
func coderVia(t *testing.T, dial dialContext, headers ...string) *client {
	c := newClient(t)
	options := websocket.DialOptions{CompressionMode: websocket.CompressionContextTakeover, HTTPHeader: http.Header{}}
	if dial != nil {
		options.HTTPClient = &http.Client{Transport: &http.Transport{DialContext: dial}}
	}
	for i := 0; i < len(headers); i += 2 {
		options.HTTPHeader.Add(headers[i], headers[i+1])
	}
	conns := map[string]*websocket.Conn{}
	t.Cleanup(func() {
		for _, ws := range conns {
			ws.CloseNow()
		}
	})
	c.tell = func(cmd command) error {
		ws := conns[cmd.Conn]
		switch cmd.Do {
		case "dial":
			ws, answer, err := websocket.Dial(c.ctx, cmd.URL, &options)
			if err != nil {
				if answer == nil {
					return err
				}
				c.put(event{Conn: cmd.Conn, What: "refused", Code: answer.StatusCode})
				return nil
			}
			conns[cmd.Conn] = ws
			c.put(event{Conn: cmd.Conn, What: "open", Text: answer.Header.Get("Sec-WebSocket-Extensions")})
			go c.read(cmd.Conn, ws)
		case "send":
			return c.send(ws, cmd)
		case "ping":
			if err := ws.Ping(c.ctx); err != nil { // the library chooses the payload, and compares it
				return err
			}
			c.put(event{Conn: cmd.Conn, What: "pong", Text: cmd.Text})
		case "close":
			if err := ws.Close(websocket.StatusCode(cmd.Code), cmd.Text); err != nil { // nil: the answer has the same code
				return err
			}
			c.put(event{Conn: cmd.Conn, What: "close", Code: cmd.Code})
		}
		return nil
	}
	return c
}

func (c *client) send(ws *websocket.Conn, cmd command) error {
	kind := websocket.MessageText
	if cmd.Binary {
		kind = websocket.MessageBinary
	}
	if len(cmd.Parts) == 1 {
		return ws.Write(c.ctx, kind, []byte(cmd.Parts[0]))
	}
	w, err := ws.Writer(c.ctx, kind)
	if err != nil {
		return err
	}
	for _, part := range cmd.Parts {
		if _, err := io.WriteString(w, part); err != nil { // a fragment
			return err
		}
	}
	return w.Close()
}

// read tells what comes. The library's own limit of 32 KiB a message stays on: no frame without a file is larger.
func (c *client) read(conn string, ws *websocket.Conn) {
	for {
		kind, b, err := ws.Read(c.ctx)
		var closed websocket.CloseError
		switch {
		case errors.As(err, &closed):
			c.put(event{Conn: conn, What: "close", Code: int(closed.Code), Text: closed.Reason})
			return
		case errors.Is(err, net.ErrClosed):
			return // Close took the answer before this loop could, and tells it
		case err != nil:
			c.put(event{Conn: conn, What: "close", Code: 1006})
			return
		case kind == websocket.MessageBinary:
			c.put(event{Conn: conn, What: "binary", Text: string(b)})
		default:
			c.put(event{Conn: conn, What: "text", Text: string(b)})
		}
	}
}
