package session

import (
	"errors"
	"net/netip"
	"reflect"
	"sync"
	"time"
	"unicode/utf8"

	"mobilegate/engine"
	"mobilegate/internal/transcript"
)

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
	from   netip.Addr // the client's address, as a trusted proxy told it; else the device is on this host

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
	stopped  bool
	waits    []byte // what a device that has stopped does not take
	wire     assembly
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
		c.arrive(b.B)
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
			words := reflect.ValueOf(f).Elem()
			wire := words.FieldByName("wire").Bytes()
			if c.midway() {
				wire = wire[words.FieldByName("close").Int():] // as the engine does
			}
			c.arrive(wire)
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
	return c.pending + len(c.waits)
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

func (c *fakeConn) Local() bool { return !c.from.IsValid() }

func (c *fakeConn) Origin() netip.Addr { return c.from }

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

// arrive needs c.mu, as the next two do.
func (c *fakeConn) arrive(wire []byte) {
	if c.stopped {
		c.waits = append(c.waits, wire...)
	} else {
		c.record(wire)
	}
}

// midway tells whether what was sent ends within a message.
func (c *fakeConn) midway() bool {
	a, rest := c.wire, c.waits
	for len(rest) > 0 {
		f, n, _ := readServerFrame(rest)
		a.take(f)
		rest = rest[n:]
	}
	return a.begun
}

// record reads the frames of the server back.
func (c *fakeConn) record(wire []byte) {
	for len(wire) > 0 {
		f, n, err := readServerFrame(wire)
		if err == nil && n == 0 {
			err = errors.New("not whole")
		}
		var h transcript.Heard
		whole := false
		if err == nil {
			h, whole, err = c.wire.take(f)
		}
		if err != nil {
			c.stage.t.Errorf("the server sends what is no frame: %v %.80q", err, wire)
			return
		}
		wire = wire[n:]
		if whole {
			c.heard = append(c.heard, h)
		}
	}
}

// goOn takes what waits.
func (c *fakeConn) goOn() {
	c.mu.Lock()
	c.stopped = false
	c.record(c.waits)
	c.waits = nil
	alive := c.phase == admitted
	c.mu.Unlock()
	if alive {
		c.peer.Drained(c)
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
	case transcript.Goes:
		c.goOn()
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		if deed == transcript.Stop {
			c.stopped = true
			return
		}
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
