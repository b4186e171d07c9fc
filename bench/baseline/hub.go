package main

import (
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// hub knows which device is online on which connection.
type hub struct {
	token []byte
	ping  time.Duration

	mu     sync.Mutex
	online map[string]*client
}

var upgrader = websocket.Upgrader{
	ReadBufferSize:  1024,
	WriteBufferSize: 1024,
	CheckOrigin:     func(*http.Request) bool { return true },
}

// serveWS returns as soon as the two goroutines of the connection run, so that what net/http holds of the request is let go.
func (h *hub) serveWS(w http.ResponseWriter, r *http.Request) {
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	c := &client{hub: h, conn: conn, send: make(chan outgoing, sendQueue), done: make(chan struct{})}
	go c.writeLoop()
	go c.readLoop()
}

func (h *hub) knows(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), h.token) == 1
}

// join makes c the connection of its device; an older one is told that it was replaced.
func (h *hub) join(c *client) {
	h.mu.Lock()
	old := h.online[c.device]
	h.online[c.device] = c
	h.mu.Unlock()
	if old != nil {
		go old.close(closeReplaced, "replaced")
	}
}

func (h *hub) leave(c *client) {
	h.mu.Lock()
	if h.online[c.device] == c {
		delete(h.online, c.device)
	}
	h.mu.Unlock()
}

// closeAll says goodbye to everybody, and waits a little until it has left.
func (h *hub) closeAll(code int, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var told sync.WaitGroup
	for _, c := range h.online {
		told.Go(func() {
			c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(time.Second))
		})
	}
	told.Wait()
}
