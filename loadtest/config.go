package loadtest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"mobilegate/codec"
	"mobilegate/engine"
)

// Config says who does what, and to whom. Zero values mean the default that stands behind each field.
type Config struct {
	URL         string        // required: ws://HOST[:PORT]/PATH
	Token       string        // required; it goes nowhere but into the hello of each device
	SourceAddrs []netip.Addr  // own addresses, used in turn
	Seed        uint64        // of texts and their sizes
	Prefix      string        // of the device ids; load-
	Start       int           // number of the first device
	Timeout     time.Duration // for a device to be ready, and for an answer; 30 s

	Phase          // what the fleet does, unless there are Phases
	Phases []Phase // what it does one after the other, as ReadPhases gives it

	Second func(Moment) `json:"-"` // called once a second, on the loop; it must not block
}

// Moment is how a run is going, once a second.
type Moment struct {
	Phase              string // of a file; else empty
	State              string // connecting, warming up, measuring, waiting for answers, leaving
	At                 time.Duration
	Connected          int     // devices that are ready
	Sent, Answered     int64   // in this second
	P50, P99           float64 // of the replies in this second, in microseconds
	Faults, Refused    int64   // since the start
	Lateness           time.Duration
	TotalSent, Pending int64
	RSS                int64   // of the server, in bytes; 0: it is not looked at
	Cores              float64 // processors that it uses
}

// usageError is what is wrong with a Config: a sentence for the operator.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// fill sets the defaults and says what cannot be, in so many processes.
func (c *Config) fill(processes int) error {
	c.defaults()
	switch {
	case c.Token == "":
		return usagef("a token is needed: MOBILE_TOKEN, or --token-file")
	case c.Timeout <= 0:
		return usagef("durations must be over 0")
	case c.Start < 0 || c.Start > 1<<30:
		return usagef("the first device must have a number from 0 to %d", 1<<30)
	case len(c.Prefix) > codec.MaxDeviceChars-10 || strings.ContainsFunc(c.Prefix, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }):
		return usagef("the prefix must have at most %d plain characters", codec.MaxDeviceChars-10)
	case len(c.Phases) > maxPhases:
		return usagef("there may be %d phases", maxPhases)
	}
	there := 0
	for i := range c.Phases {
		p := &c.Phases[i]
		if err := p.check(); err != nil {
			return err
		}
		if p.Devices < there {
			return usagef("devices can only become more from phase to phase")
		}
		p.Gathers = p.Gathers || p.Devices > there
		there = p.Devices
	}
	fit, err := engine.MaxConnections(1)
	if err != nil {
		return err
	}
	if (c.Devices-1)/processes+1 > fit {
		return usagef("%d devices are too many for the limit on open files of one process, which has room for %d: divide them by --shards", c.Devices, fit)
	}
	return nil
}

func (c *Config) defaults() {
	if c.Prefix == "" {
		c.Prefix = "load-"
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if len(c.Phases) == 0 {
		c.Phase.defaults()
		if c.Duration == 0 {
			c.Duration = 10 * time.Second
		}
		c.Phases = []Phase{c.Phase}
	}
	c.Phases = slices.Clone(c.Phases) // the caller has his own
	for i := range c.Phases {
		c.Phases[i].defaults()
		c.Devices = c.Phases[i].Devices
	}
}

// title is what the run is called.
func (c *Config) title() string {
	if c.Name != "" {
		return printable(c.Name)
	}
	return c.Scenario
}

// dial is the configuration of the loop's client: where the URL leads.
func (c *Config) dial() (to engine.ClientConfig, err error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return to, usagef("the address must be like ws://127.0.0.1:8787/ws")
	case u.Scheme == "wss":
		return to, usagef("wss:// is not spoken: aim behind the proxy that ends TLS, with ws://")
	case u.Scheme != "ws":
		return to, usagef("the address must begin with ws://")
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return to, unreachable{errors.New("the host of the address has no address")}
	}
	target := u.RequestURI()
	if u.Path == "" {
		target = "/ws"
	}
	a := addr.AddrPort()
	return engine.ClientConfig{To: netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), Host: u.Host, Target: target, From: c.SourceAddrs,
		MaxMessage: codec.MaxFrameBytes, Seed: c.Seed}, nil
}

// unreachable says that there is nobody to test.
type unreachable struct{ error }
