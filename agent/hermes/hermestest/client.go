package hermestest

import (
	"net/http"
	"sync"
	"time"

	"mobilegate/internal/pipenet"
)

// URL is where the client that Client gives finds the server.
const URL = "http://hermes.test"

// memory is a server without a network.
type memory struct {
	mu        sync.Mutex
	server    *http.Server
	transport *http.Transport
	listener  *pipenet.Listener
}

// Client gives a client whose every connection leads to s, over pipes in memory: inside of a testing/synctest bubble hours
// of idleness take no time, when s was made and closed in the same bubble. The client has no timeout of its own.
func (s *Server) Client() *http.Client {
	m := &s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil {
		m.listener = pipenet.Listen()
		m.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
		m.transport = &http.Transport{DialContext: m.listener.Dial}
		s.running.Go(func() { _ = m.server.Serve(m.listener) })
	}
	return &http.Client{Transport: m.transport}
}

func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server != nil {
		_ = m.server.Close()
		_ = m.listener.Close()
	}
}
