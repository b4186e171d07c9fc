package hermestest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// URL is where the client that Client gives finds the server.
const URL = "http://hermes.test"

// memory is a server without a network.
type memory struct {
	mu        sync.Mutex
	server    *http.Server
	transport *http.Transport
	listener  *listener
}

// Client gives a client whose every connection leads to s, over pipes in memory: inside of a testing/synctest bubble hours
// of idleness take no time, when s was made and closed in the same bubble. The client has no timeout of its own.
func (s *Server) Client() *http.Client {
	m := &s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil {
		m.listener = &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
		m.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
		m.transport = &http.Transport{DialContext: m.listener.dial}
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

// listener is where pipes come in.
type listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, errors.New("hermestest: the server is closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "hermes.test" }
