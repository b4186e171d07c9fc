package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// order is what a fleet is told to do; see the methods of crowd with these names.
type order struct {
	Do     string
	N      int           // devices, or turns of each device
	AtOnce int           // devices that may be on their way in at a time; 0: 128
	Hello  bool          // devices say hello and have no turn
	Rate   int           // turns a second over all devices
	For    time.Duration // how long
	Size   int           // bytes of each frame, or of an upload; 0: as it comes
	Narrow bool
	Kind   string // of misbehaviour, or of turn: empty for text, voice, upload
	To     string // the fleet whose devices get a delivery each
}

// result answers an order.
type result struct {
	Err           string
	Turns         int // that ended with a reply
	Ready         int // devices that were let in
	Refused       int // upgrades
	Bad           int // error frames, and turns that ended without a reply
	Online        int // devices that the gateway has not left
	Writes        int // data segments that the order brought to the devices, without those of idle avatars
	Segments      int // that came to the devices since they connected, all of them
	Messages      int // frames of text that came since the fleet began
	Closed        map[int]int
	Took          time.Duration
	P50, P99, Max time.Duration // from when a turn was due until its last frame was read
}

func (c *crowd) obey(o order) result {
	c.res, c.latency, c.idles, c.size, c.kind = result{Closed: c.res.Closed}, c.latency[:0], 0, o.Size, o.Kind
	began, segments := time.Now(), c.segments()
	var err error
	switch o.Do {
	case "connect":
		err = c.connect(o)
	case "turns":
		err = c.turns(o)
	case "paced":
		err = c.paced(o)
	case "misbehave":
		err = c.misbehave(o)
	case "deliver":
		err = c.deliver(o)
	case "hear":
		err = c.until(func() bool { return c.messages >= o.N })
	case "drop":
		c.drop()
	case "look":
	default:
		err = fmt.Errorf("unknown order %q", o.Do)
	}
	if err != nil {
		c.res.Err = err.Error()
	}
	c.res.Took, c.res.Online = time.Since(began), c.open
	c.res.Segments, c.res.Messages = c.segments(), c.messages
	c.res.Writes = c.res.Segments - segments - c.idles
	if n := len(c.latency); n > 0 {
		slices.Sort(c.latency)
		at := func(p float64) time.Duration { return c.latency[int(p*float64(n-1))] }
		c.res.P50, c.res.P99, c.res.Max = at(0.5), at(0.99), at(1)
	}
	return c.res
}

// segments counts the data segments that came in. On loopback, with TCP_NODELAY on the other side, each write that fits into
// a segment is one.
func (c *crowd) segments() (n int) {
	for _, d := range c.devices {
		if d.fd < 0 {
			continue
		}
		if info, err := unix.GetsockoptTCPInfo(d.fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n += int(info.Data_segs_in)
		}
	}
	return n
}

// deviceID has the 36 characters of a UUID.
func deviceID(fleet string, i int) string { return fmt.Sprintf("%8.8s-0000-4000-8000-%012d", fleet, i) }

// connect adds o.N devices, each with its hello and, usually, one turn done.
func (c *crowd) connect(o order) error {
	atOnce, turns := cmp.Or(o.AtOnce, 128), 1
	if o.Hello {
		turns = 0
	}
	first := len(c.devices)
	for i := range o.N {
		d := &device{id: deviceID(c.name, first+i), left: turns}
		if err := d.open(c.to, o.Narrow); err != nil {
			return err
		}
		c.devices = append(c.devices, d)
		c.socket[int32(d.fd)] = d
		c.open++
		c.underWay++
		if err := c.interest(unix.EPOLL_CTL_ADD, d.fd, unix.EPOLLIN|unix.EPOLLOUT); err != nil {
			return err
		}
		if err := c.until(func() bool { return c.underWay < atOnce }); err != nil {
			return err
		}
	}
	return c.until(func() bool { return c.underWay == 0 })
}

// deliver lets the first device deliver to o.N others, one frame after the other, and waits until it has heard of all.
func (c *crowd) deliver(o order) error {
	d, frames := c.devices[0], []byte(nil)
	d.said++
	for i := range o.N {
		frames = append(frames, clientFrame(opText, fmt.Appendf(nil, `{"t":"deliver","id":"delivery-%d","target":%q,"text":%q}`, d.said, deviceID(o.To, i), said))...)
	}
	c.outcomes = 0
	c.send(d, frames)
	return c.until(func() bool { return c.outcomes+c.res.Bad >= o.N || c.open == 0 })
}

// drop ends all connections with a reset, as a network that breaks down. The next to connect have the same ids.
func (c *crowd) drop() {
	for _, d := range c.devices {
		if d.fd >= 0 {
			unix.Close(d.fd)
		}
	}
	c.devices, c.open, c.underWay = nil, 0, 0
	clear(c.socket)
}

// turns lets every device have o.N turns, one after the other, or as many as there is time for in o.For.
func (c *crowd) turns(o order) error {
	c.next, c.alarm = time.Time{}, nil
	if o.For > 0 {
		o.N = 1 << 30
		c.next = time.Now().Add(o.For)
		c.alarm = func(time.Time) {
			for _, d := range c.devices {
				d.left = 0
			}
			c.next = time.Time{}
		}
	}
	for _, d := range c.devices {
		if d.left = o.N; d.fd >= 0 {
			c.underWay++
			c.ask(d, time.Now())
		}
	}
	return c.until(func() bool { return c.underWay == 0 })
}

// paced lets the devices have a turn each in their order, o.Rate a second, for as long as o.For; nothing that is slow holds
// back what is due later.
func (c *crowd) paced(o order) error {
	interval, total := time.Second/time.Duration(o.Rate), int(o.For.Seconds()*float64(o.Rate))
	c.every(interval, total, func(d *device, due time.Time) {
		c.underWay++
		c.ask(d, due)
	})
	return c.until(func() bool { return c.next.IsZero() && c.underWay == 0 })
}

// misbehave makes every device one of a kind, for good. Those who cause work begin one after the other within o.For, so that
// it is their fault that is measured and not a rush.
func (c *crowd) misbehave(o order) error {
	for _, d := range c.devices {
		d.silent = true
		switch o.Kind {
		case "half": // stops in the middle of a frame
			c.send(d, append(frameHead(opText, 4096), make([]byte, 1024)...))
		case "hoard": // stops in the middle of a large one
			c.send(d, append(frameHead(opText, o.Size), make([]byte, o.Size/2)...))
			if err := c.interest(unix.EPOLL_CTL_MOD, d.fd, unix.EPOLLIN|unix.EPOLLOUT); err != nil {
				return err
			}
		case "drip": // sends a byte a second
			c.send(d, frameHead(opText, 64<<10))
		case "deaf": // asks for much and reads nothing
			if err := c.interest(unix.EPOLL_CTL_MOD, d.fd, 0); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown misbehaviour %q", o.Kind)
		}
	}
	switch o.Kind {
	case "deaf":
		c.every(o.For/time.Duration(len(c.devices)), len(c.devices), func(d *device, _ time.Time) { c.send(d, d.text("/long 200000", 0)) })
	case "hoard":
		return c.until(func() bool { return !slices.ContainsFunc(c.devices, func(d *device) bool { return len(d.out) > 0 }) })
	case "drip":
		c.every(time.Second/time.Duration(len(c.devices)), 1<<30, func(d *device, _ time.Time) { c.send(d, []byte{'x'}) })
	}
	return nil
}

// every calls do for one device after the other, total times.
func (c *crowd) every(interval time.Duration, total int, do func(d *device, due time.Time)) {
	began, n := time.Now(), 0
	c.next = began
	c.alarm = func(now time.Time) {
		for n < total && !c.next.After(now) {
			if d := c.devices[n%len(c.devices)]; d.fd >= 0 {
				do(d, c.next)
			}
			n++
			c.next = began.Add(time.Duration(n) * interval)
		}
		if n == total {
			c.next = time.Time{}
		}
	}
}

// said is what devices say, up to a length that changes from turn to turn.
const said = "What is the weather going to be in Lisbon today, and shall I take a coat with me when I go out in the evening? " +
	"I would rather not carry one all day, but the last time I went without it I was sorry by nine."

func (c *crowd) ask(d *device, due time.Time) {
	d.due = append(d.due, due)
	switch c.kind {
	case "voice":
		c.send(d, d.voice(c.size))
	case "upload":
		for part := range uploadParts {
			c.send(d, d.part(part, c.size/uploadParts))
		}
	default:
		c.send(d, d.text(said[:10+37*d.said%190], c.size))
	}
}
