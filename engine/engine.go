// Package engine moves bytes: it holds the connections on gnet's event loops, speaks HTTP as far as the upgrade needs it and
// RFC 6455 from then on, and hands whole messages to whoever sits above. It knows no word of the mobile protocol.
//
// The way in, all of it on the loop of the connection: Server.OnTraffic → conn.request (until the upgrade) → conn.frames →
// Handler.Hello for the first message, Peer.Message for every later one. The way out, on any goroutine: conn.Send → the
// socket; what the socket does not take waits in an outbound queue that drainer empties.
package engine

import (
	"errors"
	"log/slog"
	"net/netip"
	"time"
)

// Conn is one WebSocket connection as the floors above see it. All methods may be called from any goroutine, and after the
// connection has ended, when they do nothing.
type Conn interface {
	// Admit makes the connection p's: p gets every message from now on, and the limits for strangers no longer hold. It
	// answers false when the connection has ended already; p then never hears of it.
	Admit(p Peer) bool
	// Send writes b, which holds whole frames (BeginFrame, EndFrame), behind everything that was sent before. The engine
	// owns b from now on.
	Send(b *Buffer)
	// SendPart is Send for frames that end in the middle of a message, whose rest a later Send brings.
	SendPart(b *Buffer)
	// Close ends the connection behind everything that was sent before, with f as its last words. Only the first counts.
	Close(f *Farewell)
	// Pending is the number of sent bytes that the socket has not taken yet.
	Pending() int
	// Silence is how long ago the last byte came from the device (or was taken by it), in whole seconds.
	Silence(now time.Time) time.Duration
	// Local tells whether the connection comes from this host: a loopback peer whose request had none of the headers that
	// a proxy leaves, and whose socket belongs to the gateway's own user.
	Local() bool
	// Origin is the client's address, to count by: that of the peer, or what a trusted proxy said it is. It is not valid
	// when many clients may stand behind one address: a proxy that is not configured as trusted. It may be asked once.
	Origin() netip.Addr
	// Probe sends a WebSocket ping, and drops the connection as dead when nothing came for ProbeTimeout.
	Probe()
}

// Handler answers for connections that belong to nobody yet.
type Handler interface {
	// Hello gets the first message of a connection, on its loop, and must not block. It owns b from now on. Whoever
	// answers for the connection then calls Admit or Close, at once or later from any goroutine; until then the engine
	// reads no further message.
	Hello(c Conn, b *Buffer)
	// Farewell says with which words a connection ends because of err, one of the errors below. admitted tells whether
	// it belonged to a Peer. It never answers nil.
	Farewell(err error, admitted bool) *Farewell
}

// Peer is the owner of an admitted connection. It may own several one after another, so every call names the connection.
// A call that began before another goroutine ended the connection may still arrive behind Closed.
type Peer interface {
	// Message is called on the loop and must not block. The peer owns b from now on and gives it back with PutMessage.
	Message(c Conn, b *Buffer)
	// Drained says that everything that was sent has left, after some of it had to wait. Called from any goroutine.
	Drained(c Conn)
	// Closed says once that c is at its end, from any goroutine. err says why; nil after Close.
	Closed(c Conn, err error)
}

// The reasons for which the engine ends a connection. Handler.Farewell has the last words for those marked with *.
var (
	ErrTooBig       = errors.New("a message is over the limit")                      // *
	ErrNotUTF8      = errors.New("a text message is not UTF-8")                      // *
	ErrNoHello      = errors.New("no first message in time")                         // *
	ErrSlowSender   = errors.New("a message gains too little")                       // *
	ErrSlowConsumer = errors.New("the device does not take what was sent")           // *
	ErrOverloaded   = errors.New("more is sent, or waits, than there is memory for") // *
	ErrGoingAway    = errors.New("the server is stopping")                           // *
	ErrViolation    = errors.New("a violation of RFC 6455")                          // close 1002 or 1007
	ErrClosedByPeer = errors.New("closed by the device")                             // its own close code
	ErrDead         = errors.New("no sign of life")                                  // dropped
	ErrLost         = errors.New("the connection broke off")                         // end of TCP
	ErrPanic        = errors.New("a panic in the gateway, which is counted as such") // dropped
)

// Times that are the engine's own (spec 1).
const (
	RequestTimeout = 10 * time.Second // from accept to a complete request
	LingerTimeout  = 5 * time.Second  // reading on after the writing side was ended
	StallTimeout   = 30 * time.Second // a message must gain minGain in it, and a waiting queue must move
	ProbeTimeout   = 3 * time.Second  // answer to Probe
)

// Sizes that are the engine's own.
const (
	maxRequest = 8 << 10  // a header block
	minGain    = 16 << 10 // bytes that a message gains within StallTimeout
	minTaken   = 4 << 10  // bytes that a device takes within StallTimeout, or all that waits
	maxHeld    = 64 << 10 // bytes behind a hello that is not decided yet
	fairHalf   = 4 << 10  // bytes of a half message that is not refused yet when all together are too many
	fairShare  = 32 << 10 // bytes that wait for a device before it may be one of those that are too many
)

// Config is what a Server needs. Zero values mean the default that stands behind each field.
type Config struct {
	Host           string         // name or address; "" listens on all addresses, IPv4 and IPv6
	Port           int            // 0: the system chooses, see Server.Port
	Path           string         // of the upgrade; /ws
	Loops          int            // event loops; 1
	MaxConnections int            // what the limit on descriptors allows, see MaxConnections
	MaxMessage     int            // bytes of one message; 16 MiB
	MaxHello       int            // bytes of the first message; 64 KiB
	HelloTimeout   time.Duration  // from the upgrade to the first message; 15 s
	PingInterval   time.Duration  // silence before a ping, less a jitter of up to a tenth; 0 sends none
	MaxPending     int            // bytes that may wait for one device; 2 MiB
	MaxInbound     int64          // bytes of messages that are half received, and of all over 64 KiB, of all devices; 512 MiB
	MaxOutbound    int64          // bytes that wait for all devices; 256 MiB
	MaxStrangers   int64          // bytes of requests and first messages that are half received; 32 MiB
	TrustedProxies []netip.Prefix // peers whose X-Forwarded-For counts
	Log            *slog.Logger   // slog.Default
	Now            func() time.Time
}

func (c *Config) fill() {
	if c.Path == "" {
		c.Path = "/ws"
	}
	if c.Loops == 0 {
		c.Loops = 1
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = 16 << 20
	}
	if c.MaxHello == 0 {
		c.MaxHello = 64 << 10
	}
	if c.HelloTimeout == 0 {
		c.HelloTimeout = 15 * time.Second
	}
	if c.MaxPending == 0 {
		c.MaxPending = 2 << 20
	}
	if c.MaxInbound == 0 {
		c.MaxInbound = 512 << 20
	}
	if c.MaxOutbound == 0 {
		c.MaxOutbound = 256 << 20
	}
	if c.MaxStrangers == 0 {
		c.MaxStrangers = 32 << 20
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Stats are counters of a Server since its start; Connections is the number that is open now. Released is about how many
// bytes of memory were let go: by connections that ended, queues that emptied and large messages that were done with.
type Stats struct {
	Connections, Accepted, Refused, Upgraded, Panics, Released int64
}
