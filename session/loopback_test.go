package session

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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
	h.server = engine.New(engine.Config{Host: "127.0.0.1", MaxConnections: 100, Now: h.now, Log: slog.New(slog.DiscardHandler),
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, h)
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
	t.Cleanup(func() { // also when the case has failed
		for _, l := range g.links {
			l.Do(transcript.Break)
			l.conn.Close()
			<-l.done
		}
	})
	return g
}

func (g *lobby) Dial(from string) (transcript.Link, error) {
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(g.server.Port()))
	if err != nil {
		return nil, err
	}
	l := &wsLink{t: g.t, conn: c.(*net.TCPConn), pieces: g.pieces, done: make(chan struct{})}
	if from != "" {
		from = "X-Forwarded-For: " + from + "\r\n"
	}
	l.write([]byte("GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + from +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
	go l.read()
	g.links = append(g.links, l)
	return l, nil
}

func (g *lobby) Act(device string, act transcript.Act) ([]byte, error) {
	return g.agent.act(device, act)
}

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

// fence waits for a round trip on all connections that can make one, and until all is read that has arrived.
func (g *lobby) fence() error {
	for _, l := range g.links {
		if l.canPing() {
			l.ping()
		}
	}
	asked, wait := time.Now(), 5*time.Millisecond
	return g.until("a pong", func() bool {
		again := time.Since(asked) > wait // the engine leaves pongs out while something else waits
		if again {
			asked, wait = time.Now(), 2*wait
		}
		for _, l := range g.links {
			if l.canPing() && !l.ponged() || !l.idle() {
				if again && l.canPing() {
					l.ping()
				}
				return false
			}
		}
		return true
	})
}

// rest waits until the hub has nothing to do and both sides agree about who is connected.
func (g *lobby) rest() error {
	return g.until("rest", func() bool {
		ready, undecided, unsure := 0, 0, 0
		for _, l := range g.links {
			switch l.state() {
			case admitted:
				if l.isStopped() {
					unsure++ // it may have missed its end
				} else {
					ready++
				}
			case deciding:
				undecided++
			}
		}
		attached, suitors, resting := g.hub.resting(g.agent.holds, g.habits)
		return resting && ready <= attached && attached <= ready+unsure && suitors == undecided
	})
}

// habits tells whether the device takes nothing, and whether it answers no ping.
func (g *lobby) habits(device string) (stopped, asleep bool) {
	for _, l := range g.links { // the last is the device's
		if is, stops, sleeps := l.habits(device); is {
			stopped, asleep = stops, sleeps
		}
	}
	return stopped, asleep
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
	requireNothingHeld(g.t, g.hub)
}

// resting tells whether nothing happens in the hub by itself: it takes each session like a worker and looks at it. held are
// the turns of an agent that waits to be told what to do.
func (h *Hub) resting(held func(*agent.Turn) bool, habits func(device string) (stopped, asleep bool)) (attached, suitors int, resting bool) {
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
			if s.work != nil && s.work.suitor != nil {
				suitors++
			}
			stopped, asleep := habits(s.id)
			works := s.waitsForRoom() && !stopped || asleep && s.conn != nil && !arrived(s.conn)
			if s.work != nil && s.work.running != nil && s.work.running.slot.Load() == slotHeld {
				asked++
				works = works || !held(&s.work.running.Turn)
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

// waitsForRoom tells whether the engine will say Drained to s.
func (s *Session) waitsForRoom() bool {
	return s.conn != nil && (s.conn.Pending() > 0 || s.state != s.told || s.work != nil && len(s.work.said) > 0)
}

// arrived tells whether nothing that the server wrote is still on its way. Devices that answer pings are asked with one.
func arrived(c engine.Conn) bool {
	sock := reflect.ValueOf(c).Elem().FieldByName("sock") // the engine's own; a test may look at it
	fd := reflect.NewAt(sock.Type(), unsafe.Pointer(sock.UnsafeAddr())).Elem().Interface().(interface{ Fd() int }).Fd()
	n, err := unix.IoctlGetInt(fd, unix.TIOCOUTQ)
	return err != nil || n == 0
}
