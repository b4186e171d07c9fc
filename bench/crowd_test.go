package bench

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// crowd is the client side: many devices on one epoll descriptor and one goroutine, in a process of its own, because one
// process has too few descriptors for both ends and because its work must not count as the gateway's.
type crowd struct {
	to       *unix.SockaddrInet4
	token    string
	name     string
	epoll    int
	timer    int
	buf      []byte
	input    []byte
	devices  []*device
	socket   map[int32]*device
	next     time.Time // when alarm is due; zero: never
	alarm    func(now time.Time)
	open     int // devices that the gateway has not left
	underWay int // turns, or devices that have some
	messages int // frames of text that came
	outcomes int // deliveries that succeeded

	// Of the order that is obeyed.
	size    int // bytes of each frame, or of an upload
	kind    string
	idles   int
	latency []time.Duration
	res     result
}

// runCrowd is the life of a fleet's process: it ends when its input does, so it never outlives the test.
func runCrowd(address, token, name string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	c := &crowd{to: &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}, token: token, name: name, buf: make([]byte, 256<<10), socket: map[int32]*device{}}
	c.res.Closed = map[int]int{}
	if c.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if c.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return err
	}
	for _, fd := range []int{unix.Stdin, c.timer} {
		if err := c.interest(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := c.nextOrder()
		if err != nil || line == nil {
			return err
		}
		var o order
		if err := json.Unmarshal(line, &o); err != nil {
			return err
		}
		if err := answers.Encode(c.obey(o)); err != nil {
			return err
		}
	}
}

// nextOrder keeps the devices alive until an order comes; nil at the end of the input.
func (c *crowd) nextOrder() ([]byte, error) {
	for {
		if line, rest, found := bytes.Cut(c.input, []byte("\n")); found {
			c.input = rest
			return line, nil
		}
		if err := c.step(); errors.Is(err, errInputEnded) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
}

// until works until done says so.
func (c *crowd) until(done func() bool) error {
	for !done() {
		if err := c.step(); err != nil {
			return err
		}
	}
	return nil
}

var errInputEnded = errors.New("the input ended")

// step waits for something to happen, and deals with it.
func (c *crowd) step() error {
	if err := c.setTimer(); err != nil {
		return err
	}
	var events [256]unix.EpollEvent
	n, err := unix.EpollWait(c.epoll, events[:], -1)
	if err != nil && err != unix.EINTR {
		return err
	}
	for _, e := range events[:max(n, 0)] {
		switch e.Fd {
		case int32(unix.Stdin):
			n, err := unix.Read(unix.Stdin, c.buf)
			if n <= 0 {
				return errors.Join(errInputEnded, err)
			}
			c.input = append(c.input, c.buf[:n]...)
		case int32(c.timer):
			unix.Read(c.timer, c.buf[:8])
		default:
			if d := c.socket[e.Fd]; d != nil {
				c.event(d, e.Events)
			}
		}
	}
	if now := time.Now(); !c.next.IsZero() && !c.next.After(now) {
		c.alarm(now)
	}
	return nil
}

func (c *crowd) setTimer() error {
	var spec unix.ItimerSpec
	if !c.next.IsZero() {
		spec.Value = unix.NsecToTimespec(max(1, int64(time.Until(c.next))))
	}
	return unix.TimerfdSettime(c.timer, 0, &spec, nil)
}

func (c *crowd) interest(op, fd int, events uint32) error {
	return unix.EpollCtl(c.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (c *crowd) event(d *device, events uint32) {
	if events&unix.EPOLLOUT != 0 {
		out := d.out
		d.out = nil
		c.send(d, out)
		if len(d.out) == 0 && d.fd >= 0 {
			c.interest(unix.EPOLL_CTL_MOD, d.fd, unix.EPOLLIN)
		}
	}
	if events&(unix.EPOLLIN|unix.EPOLLERR|unix.EPOLLHUP) == 0 || d.fd < 0 {
		return
	}
	n, err := unix.Read(d.fd, c.buf)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
	case n <= 0:
		c.lose(d)
	default:
		c.read(d, c.buf[:n])
	}
}

// send writes b, or keeps what the socket does not take. It copies nothing that is written at once.
func (c *crowd) send(d *device, b []byte) {
	if d.fd < 0 {
		return
	}
	if len(d.out) > 0 {
		d.out = append(d.out, b...)
		return
	}
	n, err := unix.Write(d.fd, b)
	switch {
	case err == unix.EAGAIN || err == nil && n < len(b):
		d.out = append(d.out, b[max(n, 0):]...)
		if !d.silent {
			c.interest(unix.EPOLL_CTL_MOD, d.fd, unix.EPOLLIN|unix.EPOLLOUT)
		}
	case err != nil:
		c.lose(d)
	}
}

func (c *crowd) lose(d *device) {
	unix.Close(d.fd)
	delete(c.socket, int32(d.fd))
	d.fd = -1
	c.open--
	c.underWay -= len(d.due)
	if !d.ready {
		c.underWay--
	}
	d.due = nil
}

// read takes what came for a device.
func (c *crowd) read(d *device, b []byte) {
	if len(d.in) > 0 {
		d.in = append(d.in, b...)
		b = d.in
	}
	if !d.ready && bytes.HasPrefix(b, []byte("HTTP/")) {
		_, rest, found := bytes.Cut(b, []byte("\r\n\r\n"))
		switch {
		case !found:
			d.keep(b)
			return
		case !bytes.HasPrefix(b, []byte("HTTP/1.1 101 ")):
			c.res.Refused++
			c.lose(d)
			return
		default:
			c.send(d, d.hello(c.token))
		}
		b = rest
	}
	for len(b) > 0 && d.fd >= 0 {
		op, payload, rest, whole := serverFrame(b)
		if !whole {
			d.keep(b)
			return
		}
		c.frame(d, op, payload)
		b = rest
	}
	d.in = nil
}

func (c *crowd) frame(d *device, op byte, payload []byte) {
	switch op {
	case opPing:
		if !d.silent {
			c.send(d, clientFrame(opPong, payload))
		}
		return
	case opClose:
		if len(payload) >= 2 {
			c.res.Closed[int(binary.BigEndian.Uint16(payload))]++
		}
		return
	}
	if op == opMore {
		d.got += len(payload)
		return
	}
	switch classify(payload) {
	case ready:
		d.ready = true
		c.res.Ready++
		if d.left == 0 {
			c.underWay--
			return
		}
		c.ask(d, time.Now())
	case message:
		d.heard = true
		c.messages++
	case delivered:
		c.outcomes++
	case file:
		d.heard = true
		d.got += len(payload)
	case idle:
		c.idles++
	case refusal:
		c.res.Bad++
	case turnEnd:
		c.turnEnded(d)
	}
}

func (c *crowd) turnEnded(d *device) {
	if len(d.due) == 0 || !d.heard || d.got < d.want {
		c.res.Bad++
		return
	}
	c.latency = append(c.latency, time.Since(d.due[0]))
	c.res.Turns++
	d.due, d.heard, d.got, d.want = d.due[1:], false, 0, 0
	if d.left--; d.left > 0 {
		c.ask(d, time.Now())
		return
	}
	c.underWay--
}
