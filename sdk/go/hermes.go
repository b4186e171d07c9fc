// Package hermes is a client of the Hermes Mobile protocol v1: one device, one WebSocket, JSON frames both ways.
//
// A [Client] is what applications use: it stays connected and has a method for whatever a device can say.
//
//	c, err := hermes.NewClient(hermes.Config{URL: "ws://127.0.0.1:8787/ws", Token: token, Device: hermes.Device{ID: "tel-1"}})
//	...
//	for ev, err := range c.Events(ctx) {
//		if err != nil {
//			return err // refused for good, or ctx ended
//		}
//		switch f := ev.Frame.(type) {
//		case *hermes.Ready:
//			c.SendText(ctx, "hi")
//		case *hermes.Message:
//			fmt.Println(f.Whole)
//		}
//	}
//
// Below it, for programs that want the frames as they come: a [Session] stays connected, too, and a [Conn], opened by
// [Dial], is one connection. Their reader loops are of the same form.
package hermes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	ProtocolVersion = 1                // hello.v and ready.v
	MaxFrameBytes   = 16 * 1024 * 1024 // one WebSocket message in either direction
	MaxMediaBytes   = 8 * 1024 * 1024  // one file in either direction

	maxBackoff = 15 * time.Second // default of Config.MaxBackoff
	bye        = time.Second      // how long the closing handshake may take once the context has ended
)

// Config says where to connect and as whom.
type Config struct {
	URL        string        // ws://host:8787/ws or wss://host/ws; a token in it is not looked at by any gateway
	Token      string        // a secret: it is sent in hello and shows up nowhere else
	Device     Device        // without an ID the gateway makes a new one for each connection
	User       User          // optional
	MaxBackoff time.Duration // the longest pause between two attempts; 0 means 15 s

	// ReconnectWhenReplaced connects again also when another instance took over as this device; the two then take turns.
	ReconnectWhenReplaced bool
}

// Device is the application as the gateway sees it. Strings are cut to 120 characters by the gateway.
type Device struct {
	ID         string `json:"id,omitempty"`
	Name       string `json:"name,omitempty"`
	Platform   string `json:"platform,omitempty"`
	AppVersion string `json:"app_version,omitempty"`
}

// User is the person at the device. Strings are cut to 120 characters by the gateway.
type User struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

func (c *Config) check() error {
	u, err := url.Parse(c.URL)
	if err != nil || (u.Scheme != "ws" && u.Scheme != "wss") || u.Host == "" {
		return errors.New("the address must look like ws://host:8787/ws or wss://host/ws")
	}
	if c.Token == "" {
		return errors.New("a token is needed")
	}
	return nil
}

// NewID makes an id for a message. Sending a frame again with the same id is safe: the gateway takes an id once.
func NewID() string { return rand.Text() }

// CloseError is how a gateway ended the connection.
type CloseError struct {
	Code   int    // WebSocket close code; 1006 when there was no close frame after a fatal error
	Reason string // for 1008 the code of the error: auth_failed, forbidden, bad_frame, too_big
	Fatal  *Error // the fatal error frame that came before, or nil
}

func (e *CloseError) Error() string {
	if e.Fatal != nil {
		return fmt.Sprintf("closed by the gateway (%d): %s: %s", e.Code, e.Fatal.Code, e.Fatal.Message)
	}
	return fmt.Sprintf("closed by the gateway (%d): %s", e.Code, e.Reason)
}

// Final reports whether connecting again is pointless: the gateway refused (1008), another instance took over as this
// device (4001), or a fatal error came and then the connection broke.
func (e *CloseError) Final() bool {
	return e.Code == int(websocket.StatusPolicyViolation) || e.Code == closedReplaced ||
		e.Code == int(websocket.StatusAbnormalClosure) && e.Fatal != nil
}

const closedReplaced = 4001 // the close code for a connection whose device has connected again

// ErrorCode is the protocol's code for why the gateway ended the connection, as the error frame or the close frame has it:
// auth_failed, say, or replaced.
func (e *CloseError) ErrorCode() string {
	if e.Fatal != nil {
		return e.Fatal.Code
	}
	return e.Reason
}

// Final reports whether err is or wraps a [CloseError] that is final.
func Final(err error) bool {
	var c *CloseError
	return errors.As(err, &c) && c.Final()
}

func replaced(err error) bool {
	var c *CloseError
	return errors.As(err, &c) && c.Code == closedReplaced
}

// Conn is one connection. Send and Close may be called from any goroutine.
type Conn struct {
	Ready *Ready // what the gateway said to the hello

	ws    *websocket.Conn
	fatal *Error                // owned by the reader
	cause atomic.Pointer[error] // why this side gave the connection up
}

// Dial connects, says hello and waits for ready, all within ctx. A refusal is a [CloseError].
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c, err := open(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	for c.Ready == nil {
		if _, err := c.next(ctx); err != nil {
			c.ws.CloseNow()
			return nil, err
		}
	}
	return c, nil
}

// The hello carries the token, so it goes to the host that was asked for and to no other.
var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// open upgrades and says hello; ready, or why there is none, is the first event.
func open(ctx context.Context, cfg *Config) (*Conn, error) {
	ws, resp, err := websocket.Dial(ctx, cfg.URL, &websocket.DialOptions{HTTPClient: noRedirects})
	if err != nil {
		var wrapped *url.Error // it repeats the address
		switch {
		case resp != nil:
			return nil, fmt.Errorf("no gateway at this address: HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		case errors.As(err, &wrapped):
			return nil, wrapped.Err
		}
		return nil, err
	}
	ws.SetReadLimit(MaxFrameBytes)
	c := &Conn{ws: ws}
	if err := c.Send(ctx, hello{Version: ProtocolVersion, Token: cfg.Token, Device: cfg.Device, User: cfg.User}); err != nil {
		ws.CloseNow()
		return nil, err
	}
	return c, nil
}

// Send writes one frame and returns once the system has taken it. When ctx ends in the middle of a write, the
// connection is closed. Why a connection broke is what Events ends with.
func (c *Conn) Send(ctx context.Context, f Outgoing) error {
	b, err := f.encode()
	if err != nil {
		return err
	}
	return c.ws.Write(ctx, websocket.MessageText, b)
}

// Events is the reader loop; one goroutine at a time may range over it. It must be read all the time: the gateway's
// pings are answered only while it waits for a frame. The last pair has a non-nil error: a [CloseError], an error of
// the network, or the cause of ctx, whose end closes the connection politely. Leaving the loop early closes nothing.
func (c *Conn) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		closed := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(closed)
			defer time.AfterFunc(bye, cancel).Stop()
			c.Close()
		})
		defer func() {
			if !stop() {
				<-closed
			}
		}()
		for {
			ev, err := c.next(reading)
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Close says goodbye (1000) and waits a few seconds at most for the answer.
func (c *Conn) Close() error { return c.ws.Close(websocket.StatusNormalClosure, "") }

// abort drops the connection because of err, which Events then ends with.
func (c *Conn) abort(err error) {
	c.cause.CompareAndSwap(nil, &err)
	c.ws.CloseNow()
}

// next reads one frame. When ctx ends, the connection is dropped.
func (c *Conn) next(ctx context.Context) (Event, error) {
	_, raw, err := c.ws.Read(ctx)
	if err != nil {
		return Event{}, c.why(err)
	}
	ev := Event{Raw: json.RawMessage(raw), Frame: decode(raw)}
	switch f := ev.Frame.(type) {
	case *Ready:
		c.Ready = f
	case *Error:
		if f.Fatal {
			c.fatal = f
		}
	}
	return ev, nil
}

// why turns what the reader ended with into what the caller should know.
func (c *Conn) why(err error) error {
	var ce websocket.CloseError
	var op *net.OpError
	switch cause := c.cause.Load(); {
	case cause != nil:
		return *cause
	case errors.As(err, &ce):
		return &CloseError{Code: int(ce.Code), Reason: ce.Reason, Fatal: c.fatal}
	case c.fatal != nil:
		return &CloseError{Code: int(websocket.StatusAbnormalClosure), Fatal: c.fatal}
	case errors.As(err, &op):
		err = op.Err // without the addresses
	case errors.Is(err, io.EOF):
		err = io.EOF // without the steps of the library
	}
	return fmt.Errorf("connection lost: %w", err)
}
