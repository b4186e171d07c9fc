package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/engine"
	"mobilegate/internal/transcript"
)

// house is an engine on a loopback port. It serves one Hub after another, since the stop of an engine takes its time.
type house struct {
	*clock
	server *engine.Server
	pieces pieces
	hub    atomic.Pointer[Hub]
}

// Hello and Farewell implement engine.Handler.
func (h *house) Hello(c engine.Conn, b *engine.Buffer) { h.hub.Load().Hello(c, b) }
func (h *house) Farewell(err error, admitted bool) *engine.Farewell {
	return h.hub.Load().Farewell(err, admitted)
}

func openHouse(t *testing.T, p pieces) *house {
	h := &house{clock: newClock(), pieces: p}
	first := newTestHub(t, nil, agent.Echo{}, h.now) // an engine compiles its last words before the first case comes
	h.hub.Store(first)
	t.Cleanup(first.Close)
	h.server = engine.New(engine.Config{Host: "127.0.0.1", MaxConnections: 100, Now: h.now, Log: slog.New(slog.DiscardHandler)}, h)
	require.NoError(t, h.server.Start())
	t.Cleanup(func() { require.NoError(t, h.server.Stop(context.Background())) })
	return h
}

// lobby is the height of the real engine: a house with the Hub of one case.
type lobby struct {
	*house
	t     *testing.T
	hub   *Hub
	agent *script
	links []*wsLink
}

var _ transcript.Gateway = (*lobby)(nil)

func (h *house) stage(t *testing.T, with []string) *lobby {
	g := &lobby{house: h, t: t, agent: newScript()}
	g.hub = newTestHub(t, with, g.agent, h.now)
	h.hub.Store(g.hub)
	t.Cleanup(g.hub.Close)
	t.Cleanup(g.agent.finish)
	return g
}

func (g *lobby) Dial() (transcript.Link, error) {
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(g.server.Port()))
	if err != nil {
		return nil, err
	}
	l := &wsLink{t: g.t, conn: c, pieces: g.pieces, done: make(chan struct{})}
	l.write([]byte("GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
	go l.read()
	g.links = append(g.links, l)
	return l, nil
}

func (g *lobby) Act(device string, act transcript.Act) error { return g.agent.act(device, act) }

func (g *lobby) Advance(d time.Duration) error {
	err := g.pass(d, g.hub, func(now time.Time) {
		g.server.Tick(now)
		g.hub.Tick(now)
	}, g.rest)
	if err != nil {
		return err
	}
	return g.Settle()
}

// Settle: what the devices said has arrived, since a ping behind it was answered; the hub has done all there is to do; and
// what it said was read, since a second ping behind it was answered.
func (g *lobby) Settle() error {
	for _, l := range g.links {
		l.flush()
	}
	if err := g.fence(); err != nil {
		return err
	}
	if err := g.rest(); err != nil {
		return err
	}
	return g.fence()
}

// patience ends a test that waits for what never comes.
const patience = 10 * time.Second

// fence waits for a round trip on all connections that can make one.
func (g *lobby) fence() error {
	for _, l := range g.links {
		if l.canPing() {
			l.ping()
		}
	}
	return g.until("a pong", func() bool {
		for _, l := range g.links {
			if l.canPing() && !l.ponged() {
				return false
			}
		}
		return true
	})
}

// rest waits until the hub has nothing to do and both sides agree about who is connected.
func (g *lobby) rest() error {
	return g.until("rest", func() bool {
		ready, undecided := 0, 0
		for _, l := range g.links {
			switch l.state() {
			case admitted:
				ready++
			case deciding:
				undecided++
			}
		}
		attached, suitors, resting := g.hub.resting(g.agent.holds)
		return resting && attached == ready && suitors == undecided
	})
}

func (g *lobby) until(what string, ok func() bool) error {
	for start := time.Now(); !ok(); {
		if time.Since(start) > patience {
			return errors.New("waited in vain for " + what)
		}
		time.Sleep(20 * time.Microsecond) // whoever is waited for may need this core
	}
	return nil
}

func (g *lobby) close() {
	for _, l := range g.links {
		l.Do(transcript.Leave)
	}
	g.agent.finish()
	require.NoError(g.t, g.rest())
	for _, l := range g.links {
		<-l.done
	}
	require.NoError(g.t, g.Advance(20*time.Minute))
	require.NoError(g.t, g.until("the connections to end", func() bool { return g.server.Stats().Connections == 0 }))
	require.Zero(g.t, g.hub.Stats().Devices, "sessions that nothing ends")
	require.Zero(g.t, g.hub.Stats().Online)
}

// resting tells whether nothing happens in the hub by itself: it takes each session like a worker and looks at it. held are
// the turns of an agent that waits to be told what to do.
func (h *Hub) resting(held func(*agent.Turn) bool) (attached, suitors int, resting bool) {
	asked := 0
	for i := range h.shards {
		h.shards[i].mu.Lock()
		var all []*Session
		for _, s := range h.shards[i].devices {
			all = append(all, s)
		}
		h.shards[i].mu.Unlock()
		for _, s := range all {
			s.inbox.mu.Lock()
			if s.inbox.busy {
				s.inbox.mu.Unlock()
				return 0, 0, false
			}
			s.inbox.busy = true
			s.inbox.mu.Unlock()
			if s.conn != nil {
				attached++
			}
			if s.suitor != nil {
				suitors++
			}
			works := false
			if s.turns != nil && s.turns.running.ctx != nil {
				asked++
				works = !held(&s.turns.running.Turn)
			}
			s.run(elsewhere)
			if works {
				return 0, 0, false
			}
		}
	}
	h.slots.mu.Lock()
	defer h.slots.mu.Unlock()
	return attached, suitors, asked == h.slots.running
}

// pieces is how the bytes of a device are cut on their way.
type pieces int

const (
	wholeMessages pieces = iota
	singleBytes
	randomPieces
	corked // until somebody wants to hear the answer
)

// wsLink is a WebSocket client that frames by itself.
type wsLink struct {
	t      *testing.T
	conn   net.Conn
	pieces pieces
	done   chan struct{} // closed when the reader has ended

	out    sync.Mutex // guards the writing side
	cork   []byte
	random *rand.Rand

	mu            sync.Mutex
	heard         []transcript.Heard
	spoke, ready  bool // the hello was said; ready was heard
	asleep, ended bool
	owed          [][]byte // pings that came in its sleep
	pinged, pong  uint64   // numbers of the last ping of ours and of its answer
}

// state is the phase as far as the device knows it.
func (l *wsLink) state() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return ended
	case l.ready:
		return admitted
	case l.spoke:
		return deciding
	}
	return stranger
}

// canPing: a device that sleeps sends nothing, and while a hello is decided the engine reads nothing.
func (l *wsLink) canPing() bool {
	state := l.state()
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.asleep && state != ended && state != deciding
}

func (l *wsLink) ping() {
	l.mu.Lock()
	l.pinged++
	n := l.pinged
	l.mu.Unlock()
	l.write(clientFrame(9, binary.BigEndian.AppendUint64(nil, n)))
	l.flush()
}

func (l *wsLink) ponged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pong == l.pinged
}

func (l *wsLink) Say(message []byte) {
	l.mu.Lock()
	l.spoke = true
	l.mu.Unlock()
	l.write(clientFrame(1, message))
}

func (l *wsLink) Hear() (transcript.Heard, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.heard) == 0 {
		return transcript.Heard{}, false
	}
	h := l.heard[0]
	l.heard = l.heard[1:]
	return h, true
}

func (l *wsLink) Do(deed transcript.Deed) {
	l.flush()
	l.mu.Lock()
	was := l.ended
	l.ended = was || deed == transcript.Leave || deed == transcript.Break
	l.asleep = deed == transcript.Sleep
	owed := l.owed
	if deed == transcript.Wake {
		l.owed = nil
	}
	l.mu.Unlock()
	switch {
	case was:
	case deed == transcript.Leave:
		l.write(clientFrame(8, []byte{0x03, 0xE8}))
		l.flush()
	case deed == transcript.Break:
		l.conn.Close()
	case deed == transcript.Wake:
		for _, payload := range owed {
			l.write(clientFrame(10, payload))
			l.flush()
		}
	}
}

// clientFrame is a whole masked frame.
func clientFrame(op byte, payload []byte) []byte {
	b := []byte{0x80 | op}
	switch n := len(payload); {
	case n <= 125:
		b = append(b, 0x80|byte(n))
	case n <= 65535:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := [4]byte{0x37, 0xFA, 0x21, 0x3D}
	b = append(b, mask[:]...)
	for i, c := range payload {
		b = append(b, c^mask[i%4])
	}
	return b
}

// write sends b in pieces. That the server has ended the connection meanwhile is no error.
func (l *wsLink) write(b []byte) {
	l.out.Lock()
	defer l.out.Unlock()
	switch l.pieces {
	case corked:
		l.cork = append(l.cork, b...)
	case wholeMessages:
		l.conn.Write(b)
	default:
		for len(b) > 0 {
			n := 1
			if l.pieces == randomPieces {
				if l.random == nil {
					l.random = rand.New(rand.NewPCG(uint64(len(b)), 1))
				}
				n = min(len(b), 1+l.random.IntN(1+l.random.IntN(40)))
			}
			if _, err := l.conn.Write(b[:n]); err != nil {
				return
			}
			b = b[n:]
			runtime.Gosched() // the loop shall meet the piece alone
		}
	}
}

func (l *wsLink) flush() {
	l.out.Lock()
	defer l.out.Unlock()
	if len(l.cork) > 0 {
		l.conn.Write(l.cork)
		l.cork = nil
	}
}

// read takes what the server sends until the end.
func (l *wsLink) read() {
	defer close(l.done)
	defer l.conn.Close()
	var in []byte
	upgraded, farewell := false, false
	chunk := make([]byte, 16<<10)
	for {
		n, err := l.conn.Read(chunk)
		in = append(in, chunk[:n]...)
		if !upgraded {
			head, rest, whole := bytes.Cut(in, []byte("\r\n\r\n"))
			if whole && !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
				l.t.Errorf("no upgrade: %.80q", head)
				return
			}
			if upgraded = whole; whole {
				in = rest
			}
		}
		for upgraded {
			op, payload, size, err := readServerFrame(in)
			if err != nil {
				l.t.Errorf("the server sends what is no frame: %v", err)
				return
			}
			if size == 0 {
				break
			}
			farewell = l.take(op, payload) || farewell
			in = in[size:]
		}
		if err != nil {
			l.end(err, farewell)
			return
		}
	}
}

// take notes what came.
func (l *wsLink) take(op byte, payload []byte) (farewell bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch op {
	case 10:
		l.pong = binary.BigEndian.Uint64(payload)
		return false
	case 9:
		if p := append([]byte{}, payload...); l.asleep {
			l.owed = append(l.owed, p)
		} else {
			defer func() { // the writing side may wait for a reader
				go func() { l.write(clientFrame(10, p)); l.flush() }()
			}()
		}
	case 8:
		l.ended = true
	default:
		l.ready = l.ready || bytes.HasPrefix(payload, []byte(`{"t":"ready"`))
	}
	l.heard = append(l.heard, heardOf(op, payload))
	return op == 8
}

// end notes the end of TCP. After a close frame it must be an orderly one.
func (l *wsLink) end(err error, farewell bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if farewell && err != io.EOF && !errors.Is(err, net.ErrClosed) {
		l.t.Errorf("the last words may be lost: %v", err)
	}
	if !farewell && !l.ended {
		l.heard = append(l.heard, transcript.Heard{Reason: fmt.Sprint(err)})
	}
	l.ended = true
}
