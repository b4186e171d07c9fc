package main

import (
	"crypto/rand"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	sendQueue     = 16 // frames; a turn has five
	helloTimeout  = 15 * time.Second
	writeTimeout  = 10 * time.Second
	lingerTimeout = 5 * time.Second
	idleAfter     = 3 * time.Second
	closeReplaced = 4001
)

// outgoing is a WebSocket message that waits for its turn.
type outgoing struct {
	kind int // websocket.TextMessage or websocket.CloseMessage
	data []byte
}

// client is one connection. readLoop owns it but for send, done and closing, which any goroutine may use.
type client struct {
	hub     *hub
	conn    *websocket.Conn
	send    chan outgoing
	done    chan struct{} // closed when readLoop ends
	closing atomic.Bool   // the last words are said: what still comes is not looked at

	device  string // empty before hello
	replies uint64
	idle    *time.Timer // avatar idle, some time after a turn
	uploads map[string]*upload
}

func (c *client) readLoop() {
	defer func() {
		close(c.done)
		if c.device != "" {
			c.hub.leave(c)
		}
		if c.idle != nil {
			c.idle.Stop()
		}
		c.conn.Close()
	}()
	c.conn.SetReadLimit(maxHello)
	c.conn.SetReadDeadline(time.Now().Add(helloTimeout))
	for {
		_, data, err := c.conn.ReadMessage()
		if err != nil {
			return
		}
		if c.closing.Load() {
			continue
		}
		var in incoming
		if err := json.Unmarshal(data, &in); err != nil {
			c.refuse(&in, "bad_frame", "The frame is not a JSON object with fields of the right types.", c.device == "")
			continue
		}
		if c.device == "" {
			c.hello(&in)
			continue
		}
		c.frame(&in)
	}
}

// writeLoop is the only writer of messages; pings and the answer to a close frame are control frames, which may be written
// at any time.
func (c *client) writeLoop() {
	ping := time.NewTicker(c.hub.ping)
	defer ping.Stop()
	for {
		select {
		case <-c.done:
			return
		case m := <-c.send:
			c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			if err := c.conn.WriteMessage(m.kind, m.data); err != nil {
				c.conn.Close()
				return
			}
			if m.kind == websocket.CloseMessage {
				c.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
				return
			}
		case <-ping.C:
			if err := c.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout)); err != nil {
				c.conn.Close()
				return
			}
		}
	}
}

// write queues a frame; it waits while the queue is full.
func (c *client) write(kind int, data []byte) {
	select {
	case c.send <- outgoing{kind, data}:
	case <-c.done:
	}
}

func (c *client) text(data []byte) { c.write(websocket.TextMessage, data) }

func (c *client) json(frame any) {
	if data, err := json.Marshal(frame); err == nil {
		c.text(data)
	}
}

// close says the last words. Any goroutine may call it.
func (c *client) close(code int, reason string) {
	if !c.closing.Swap(true) {
		c.write(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason))
	}
}

func (c *client) refuse(in *incoming, code, sentence string, fatal bool) {
	c.json(&failure{T: "error", Code: code, Message: sentence, Fatal: fatal, ID: in.ID})
	if fatal {
		c.close(websocket.ClosePolicyViolation, code)
	}
}

// hello decides whether the device is let in.
func (c *client) hello(in *incoming) {
	if in.kindOfFrame() != "hello" {
		c.refuse(in, "bad_frame", "The first frame must be hello.", true)
		return
	}
	if !c.hub.knows(in.Token) {
		c.refuse(in, "auth_failed", "The token is not known.", true)
		return
	}
	c.device = in.Device.ID
	if c.device == "" {
		c.device = "dev-" + rand.Text()[:12]
	}
	if in.Device.Name == "" {
		in.Device.Name = c.device
	}
	alive := func(string) error { return c.conn.SetReadDeadline(time.Now().Add(2 * c.hub.ping)) }
	c.conn.SetPongHandler(alive)
	alive("")
	c.conn.SetReadLimit(maxFrame)
	c.json(&ready{T: "ready", V: 1, Session: "mobile:" + c.device, Device: device{c.device, in.Device.Name}, Capabilities: allCapabilities})
	c.hub.join(c)
}
