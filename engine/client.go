package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"

	"github.com/gobwas/ws"
	"golang.org/x/sys/unix"
)

// Client is the other end of the wire: one event loop that holds very many outgoing connections, for a load generator. It
// reads with the server's own parser and keeps what a socket does not take in the server's own queue. It is no gnet loop:
// that one dials with a goroutine each, cannot leave bytes unread, and wakes at no given time.
//
// A Client, its Links and their Callers belong to the goroutine that calls Run; nothing here is for another one.
type Client struct {
	cfg     ClientConfig
	to      unix.Sockaddr
	from    []unix.Sockaddr
	family  int
	request []byte // as far as the key
	epoll   int
	timer   int       // a timerfd: epoll itself counts in milliseconds
	planned time.Time // when it goes off; zero: it is not set

	links  []*Link // by slot
	free   []uint32
	dials  uint32
	random *rand.Rand
	read   []byte
	waited time.Duration // in epoll, since the start
}

// ClientConfig says whom a Client calls. Zero values mean the default that stands behind each field.
type ClientConfig struct {
	To         netip.AddrPort // required
	Host       string         // the request's Host; To
	Target     string         // the request's path and query; /ws
	From       []netip.Addr   // own addresses, used in turn, since each has some 28 000 ports; the system chooses
	MaxMessage int            // bytes of one message; 16 MiB
	Seed       uint64         // of keys and masks
	Now        func() time.Time
}

// Caller is the owner of an outgoing connection. Its methods are called on the loop and must not block.
type Caller interface {
	// Connected says that TCP is there; the request is about to leave.
	Connected(l *Link, now time.Time)
	// Upgraded says that the server agreed to speak WebSocket.
	Upgraded(l *Link, now time.Time)
	// Message is a whole text or binary message. b is valid until Message returns.
	Message(l *Link, b []byte, now time.Time)
	// Closed is the last call for a connection that the other end ended, or that failed: see Link for the errors. It is nil
	// after Link.Close, and does not come after Link.Drop.
	Closed(l *Link, err error, now time.Time)
}

// CloseError is the close frame with which the other end ended a connection. The reason is untrusted text.
type CloseError struct {
	Code   int // 1005: it had none
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("closed by the other end with code %d", e.Code)
}

// StatusError is the HTTP status of an upgrade that was refused.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("the upgrade was refused with status %d", e.Status)
}

// ErrNoHTTP says that the answer to the request was none.
var ErrNoHTTP = errors.New("the other end does not answer as an HTTP server that speaks WebSocket")

// ErrFamily says that a ClientConfig mixes IPv4 and IPv6.
var ErrFamily = errors.New("own addresses must be of the family of the address that is called")

// NewClient makes a Client. Close ends it.
func NewClient(cfg ClientConfig) (*Client, error) {
	if cfg.Host == "" {
		cfg.Host = cfg.To.String()
	}
	if cfg.Target == "" {
		cfg.Target = "/ws"
	}
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = 16 << 20
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Client{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 0x6d6f62696c65)), read: make([]byte, 256<<10)}
	c.to, c.family = sockaddr(cfg.To)
	for _, a := range cfg.From {
		from, family := sockaddr(netip.AddrPortFrom(a, 0))
		if family != c.family {
			return nil, ErrFamily
		}
		c.from = append(c.from, from)
	}
	c.request = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ", cfg.Target, cfg.Host)
	var err error
	if c.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if c.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		unix.Close(c.epoll)
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	// Edge-triggered, as all here: nothing need be read from it.
	if err := unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, c.timer, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: -1}); err != nil {
		unix.Close(c.timer)
		unix.Close(c.epoll)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return c, nil
}

func sockaddr(a netip.AddrPort) (unix.Sockaddr, int) {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}, unix.AF_INET
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}, unix.AF_INET6
}

// Close drops all connections and ends the Client.
func (c *Client) Close() {
	for _, l := range c.links {
		if l != nil {
			l.Drop()
		}
	}
	unix.Close(c.timer)
	unix.Close(c.epoll)
}

// Waited is how long Run had nothing to do, since the start: the rest of the time the loop was busy.
func (c *Client) Waited() time.Duration { return c.waited }

// Run hands out what happens until turn answers the zero time. turn is called before every wait; it does what is due, and
// says when it wants to be called again at the latest. One that is late is called at once, behind what has happened.
func (c *Client) Run(turn func(now time.Time) (next time.Time)) error {
	events := make([]unix.EpollEvent, 256)
	for {
		next := turn(c.cfg.Now())
		if next.IsZero() {
			return nil
		}
		n, err := c.wait(events, next)
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			if slot := uint32(e.Fd); slot < uint32(len(c.links)) {
				if l := c.links[slot]; l != nil && l.dial == uint32(e.Pad) {
					l.event(e.Events)
				}
			}
		}
	}
}

func (c *Client) wait(events []unix.EpollEvent, next time.Time) (n int, err error) {
	before := c.cfg.Now()
	timeout := 0
	if left := next.Sub(before); left > 0 {
		timeout = -1
		if !next.Equal(c.planned) {
			spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
			if err := unix.TimerfdSettime(c.timer, 0, &spec, nil); err != nil {
				return 0, os.NewSyscallError("timerfd_settime", err)
			}
			c.planned = next
		}
	}
	n, err = unix.EpollWait(c.epoll, events, timeout)
	c.waited += c.cfg.Now().Sub(before)
	if err != nil && err != unix.EINTR {
		return 0, os.NewSyscallError("epoll_wait", err)
	}
	return max(n, 0), nil
}

// Call begins a connection that is caller's. A receiveBuffer of some bytes is for a device that shall take little; 0 leaves
// it to the system. Of an error nothing remains: there is no descriptor, or no port, left.
func (c *Client) Call(caller Caller, receiveBuffer int) (*Link, error) {
	fd, err := unix.Socket(c.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	l := &Link{client: c, caller: caller, fd: int32(fd)}
	if err := l.connect(receiveBuffer); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return l, nil
}

func (l *Link) connect(receiveBuffer int) error {
	c, fd := l.client, int(l.fd)
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if receiveBuffer > 0 {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	c.dials++
	l.dial = c.dials
	if len(c.from) > 0 {
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) // a port for each pair of addresses, not for each own one
		if err := unix.Bind(fd, c.from[int(l.dial)%len(c.from)]); err != nil {
			return os.NewSyscallError("bind", err)
		}
	}
	if err := unix.Connect(fd, c.to); err != nil && err != unix.EINPROGRESS {
		return os.NewSyscallError("connect", err)
	}
	l.slot = uint32(len(c.links))
	if n := len(c.free); n > 0 {
		l.slot = c.free[n-1]
	}
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(l.slot), Pad: int32(l.dial)}
	if err := unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	if n := len(c.free); n > 0 {
		c.free = c.free[:n-1]
		c.links[l.slot] = l
	} else {
		c.links = append(c.links, l)
	}
	return nil
}

// BeginMasked is BeginFrame for a frame of a client, which EndMasked ends.
func BeginMasked(b *Buffer) (start int) {
	start = BeginFrame(b)
	b.B = append(b.B, 0, 0, 0, 0)
	return start
}

// EndMasked writes the header that BeginMasked reserved at start, and masks the payload with a fresh key.
func (c *Client) EndMasked(b *Buffer, start int) { c.endMasked(b, start, ws.OpText) }

func (c *Client) endMasked(b *Buffer, start int, op ws.OpCode) {
	var key [4]byte
	binary.LittleEndian.PutUint32(key[:], c.random.Uint32())
	payload := b.B[start+headroom+copy(b.B[start+headroom:], key[:]):]
	ws.Cipher(payload, key, 0)
	putLength(b, start, len(payload))
	b.B[start] = 0x80 | byte(op)
	b.B[start+1] |= 0x80
}
