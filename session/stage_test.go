package session

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/engine"
	"mobilegate/internal/transcript"
)

// stage is the lowest height: a Hub in a bubble of its own, with connections that stand in for the engine.
type stage struct {
	*clock
	t     *testing.T
	hub   *Hub
	agent *script
	conns []*fakeConn
}

var _ transcript.Gateway = (*stage)(nil)

// newStage needs a bubble of synctest.
func newStage(t *testing.T, with []string) *stage {
	agent := newScript()
	g := newStageFor(t, agent, with...)
	g.agent = agent
	t.Cleanup(g.agent.finish)
	return g
}

// newStageFor is a stage with an agent of the test's own.
func newStageFor(t *testing.T, a agent.Agent, with ...string) *stage {
	g := &stage{clock: newClock(), t: t}
	g.hub = newTestHub(t, with, a, g.now)
	t.Cleanup(g.hub.Close)
	return g
}

func (g *stage) Dial() (transcript.Link, error) { return g.dial(), nil }

func (g *stage) dial() *fakeConn {
	c := &fakeConn{stage: g, opened: g.now(), life: g.now()}
	g.conns = append(g.conns, c)
	return c
}

// Settle lets everything happen that is going to happen now.
func (g *stage) Settle() error {
	for moved := true; moved; {
		synctest.Wait()
		moved = false
		for _, c := range g.conns {
			moved = c.deliverHeld() || moved
		}
	}
	return nil
}

func (g *stage) Advance(d time.Duration) error {
	return g.pass(d, g.hub, func(now time.Time) {
		g.hub.Tick(now)
		for _, c := range g.conns {
			c.expire(now)
		}
	}, g.Settle)
}

func (g *stage) Act(device string, act transcript.Act) error { return g.agent.act(device, act) }

// close ends all connections and sees to it that nothing is left behind.
func (g *stage) close() {
	for _, c := range g.conns {
		c.Do(transcript.Leave)
	}
	require.NoError(g.t, g.Settle())
	if g.agent != nil {
		g.agent.finish()
	}
	require.NoError(g.t, g.Settle())
	require.NoError(g.t, g.Advance(20*time.Minute))
	require.Zero(g.t, g.hub.Stats().Devices, "sessions that nothing ends")
	require.Zero(g.t, g.hub.Stats().Online)
	require.Zero(g.t, g.hub.slots.running)
	require.Zero(g.t, g.hub.wheel.Len())
}

// The phases of a fakeConn, as in the engine.
const (
	stranger = iota
	deciding
	admitted
	ended
)

// fakeConn is a connection without a socket. It does what the engine promises to its Handler and Peer.
type fakeConn struct {
	stage  *stage
	opened time.Time

	mu       sync.Mutex
	pending  int  // what Pending answers
	counting bool // Send adds to it
	panics   bool // Pending does
	phase    int
	peer     engine.Peer
	held     [][]byte // messages that came while the hello was decided
	heard    []transcript.Heard
	life     time.Time // when the device last said something
	probed   time.Time // when the open ping was sent; zero: none is
	asleep   bool
	sends    int // calls of Send
}

var _ engine.Conn = (*fakeConn)(nil)

func (c *fakeConn) Admit(p engine.Peer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == ended {
		return false
	}
	c.phase, c.peer = admitted, p
	return true
}

func (c *fakeConn) Send(b *engine.Buffer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != ended {
		c.sends++
		c.record(b.B)
		if c.counting {
			c.pending += len(b.B)
		}
	}
	engine.PutBuffer(b)
}

func (c *fakeConn) Close(f *engine.Farewell) { c.end(f, nil) }

func (c *fakeConn) end(f *engine.Farewell, err error) {
	c.mu.Lock()
	was := c.phase
	if c.phase = ended; was != ended {
		if f != nil {
			// What a farewell says is the engine's own; a test may read it.
			c.record(reflect.ValueOf(f).Elem().FieldByName("wire").Bytes())
		} else {
			c.heard = append(c.heard, transcript.Heard{})
		}
	}
	c.mu.Unlock()
	if was == admitted {
		c.peer.Closed(c, err)
	}
}

func (c *fakeConn) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.panics {
		panic("the secret panic of a test")
	}
	return c.pending
}

// setPending lets so many bytes wait for the device, whatever is sent.
func (c *fakeConn) setPending(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending, c.counting = n, false
}

// countPending is a device that takes nothing from now on.
func (c *fakeConn) countPending(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending, c.counting = n, true
}

func (c *fakeConn) Silence(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Truncate(time.Second).Sub(c.life.Truncate(time.Second))
}

func (c *fakeConn) Local() bool { return false }

func (c *fakeConn) Origin() netip.Addr { return netip.Addr{} }

func (c *fakeConn) SendPart(b *engine.Buffer) { c.Send(b) }

func (c *fakeConn) Probe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, transcript.Heard{Ping: true})
	if c.asleep {
		c.probed = c.stage.now()
	} else {
		c.life = c.stage.now()
	}
}

// record reads the frames of the server back. It needs c.mu.
func (c *fakeConn) record(wire []byte) {
	for len(wire) > 0 {
		op, payload, n, err := readServerFrame(wire)
		if err != nil || n == 0 {
			c.stage.t.Errorf("the server sends what is no frame: %v %.80q", err, wire)
			return
		}
		wire = wire[n:]
		c.heard = append(c.heard, heardOf(op, payload))
	}
}

// Say is the device: it sends one message.
func (c *fakeConn) Say(message []byte) {
	c.mu.Lock()
	c.life, c.probed = c.stage.now(), time.Time{}
	phase := c.phase
	if phase == deciding {
		c.held = append(c.held, message)
	}
	c.mu.Unlock()
	if phase == deciding || phase == ended {
		return
	}
	switch {
	case phase == stranger && len(message) > 64<<10 || len(message) > 16<<20:
		c.fail(engine.ErrTooBig)
	case !utf8.Valid(message):
		c.fail(engine.ErrNotUTF8)
	case phase == admitted:
		c.peer.Message(c, messageBuffer(message))
	default:
		c.stage.hub.Hello(c, messageBuffer(message))
		c.mu.Lock()
		if c.phase == stranger {
			c.phase = deciding
		}
		c.mu.Unlock()
	}
}

func messageBuffer(message []byte) *engine.Buffer {
	return &engine.Buffer{B: append([]byte(nil), message...)}
}

// deliverHeld hands over what came while the hello was decided.
func (c *fakeConn) deliverHeld() (moved bool) {
	c.mu.Lock()
	if c.phase != admitted || len(c.held) == 0 {
		c.mu.Unlock()
		return false
	}
	held := c.held
	c.held = nil
	c.mu.Unlock()
	for _, m := range held {
		c.Say(m)
	}
	return true
}

func (c *fakeConn) fail(err error) {
	c.mu.Lock()
	is := c.phase == admitted
	c.mu.Unlock()
	c.end(c.stage.hub.Farewell(err, is), err)
}

// expire does what the engine's timers do.
func (c *fakeConn) expire(now time.Time) {
	c.mu.Lock()
	late := c.phase == stranger && now.Sub(c.opened) >= 15*time.Second
	dead := c.phase != ended && !c.probed.IsZero() && now.Sub(c.probed) >= engine.ProbeTimeout
	c.mu.Unlock()
	switch {
	case late:
		c.fail(engine.ErrNoHello)
	case dead:
		c.end(nil, engine.ErrDead)
	}
}

func (c *fakeConn) Hear() (transcript.Heard, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heard) == 0 {
		return transcript.Heard{}, false
	}
	h := c.heard[0]
	c.heard = c.heard[1:]
	return h, true
}

func (c *fakeConn) Do(deed transcript.Deed) {
	switch deed {
	case transcript.Leave:
		c.end(nil, engine.ErrClosedByPeer)
	case transcript.Break:
		c.end(nil, engine.ErrLost)
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asleep = deed == transcript.Sleep; !c.asleep && !c.probed.IsZero() {
			c.life, c.probed = c.stage.now(), time.Time{}
		}
	}
}

// texts takes all frames that were heard; the last word of a closed connection is its close code.
func (c *fakeConn) texts() (frames []string) {
	for {
		h, ok := c.Hear()
		switch {
		case !ok:
			return frames
		case h.Frame != nil:
			frames = append(frames, string(h.Frame))
		default:
			frames = append(frames, h.String())
		}
	}
}

// readServerFrame reads one frame as a client does: 0 bytes when it is not whole yet.
func readServerFrame(b []byte) (op byte, payload []byte, n int, err error) {
	if len(b) < 2 {
		return 0, nil, 0, nil
	}
	if b[0]&0xF0 != 0x80 || b[1]&0x80 != 0 {
		return 0, nil, 0, fmt.Errorf("a fragment, a reserved bit or a mask: %x", b[:2])
	}
	size, at := uint64(b[1]), 2
	switch {
	case size == 126 && len(b) >= 4:
		size, at = uint64(binary.BigEndian.Uint16(b[2:])), 4
	case size == 127 && len(b) >= 10:
		size, at = binary.BigEndian.Uint64(b[2:]), 10
	case size >= 126:
		return 0, nil, 0, nil
	}
	if uint64(len(b)-at) < size {
		return 0, nil, 0, nil
	}
	n = at + int(size)
	return b[0] & 0x0F, b[at:n], n, nil
}

// heardOf copies the payload.
func heardOf(op byte, payload []byte) transcript.Heard {
	switch {
	case op == 8 && len(payload) >= 2:
		return transcript.Heard{Code: int(binary.BigEndian.Uint16(payload)), Reason: string(payload[2:])}
	case op == 8:
		return transcript.Heard{Code: 1005}
	case op == 9:
		return transcript.Heard{Ping: true}
	}
	return transcript.Heard{Frame: append([]byte{}, payload...)}
}
