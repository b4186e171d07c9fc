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

// Config says what a run does. Zero values mean the default that stands behind each field.
type Config struct {
	URL         string        // required: ws://HOST[:PORT]/PATH
	Token       string        // required; it goes nowhere but into the hello of each device
	Scenario    string        // one of Scenarios, which sets defaults for the rest; idle
	Devices     int           // 1
	ConnectRate float64       // connections begun a second; 1000
	SourceAddrs []netip.Addr  // own addresses, used in turn
	Warmup      time.Duration // like what is measured, but not measured; none
	Duration    time.Duration // of what is measured; 10 s
	Rate        float64       // messages a second of all devices together; as the scenario says
	Mix         Mix           // of kinds of message; texts
	MinSize     int           // bytes of a text; 32
	MaxSize     int           // 512, or MinSize
	MinFile     int           // bytes of a voice message or a file; 4 KiB
	MaxFile     int           // 64 KiB
	Part        int           // bytes of one part of a file; 64 KiB
	Churn       float64       // devices a second that leave and come back, or are taken over; as the scenario says
	Reconnect   Backoff       // of devices whose connection ended
	Bad         float64       // share of devices that go astray, where the scenario wants it; 0.1
	Seed        uint64        // of texts and their sizes
	Prefix      string        // of the device ids; load-
	Start       int           // number of the first device
	Timeout     time.Duration // for a device to be ready, and for an answer; 30 s

	Second func(Moment) `json:"-"` // called once a second, on the loop; it must not block
}

// Moment is how a run is going, once a second.
type Moment struct {
	Phase              string // connecting, warming up, measuring, waiting for answers, leaving
	At                 time.Duration
	Connected          int     // devices that are ready
	Sent, Answered     int64   // in this second
	P50, P99           float64 // of the replies in this second, in microseconds
	Faults, Refused    int64   // since the start
	Lateness           time.Duration
	TotalSent, Pending int64
}

// usageError is what is wrong with a Config: a sentence for the operator.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// fill sets the defaults and says what cannot be.
func (c *Config) fill() error {
	names, _ := Scenarios()
	c.defaults()
	ids := c.Prefix
	switch {
	case c.Token == "":
		return usagef("a token is needed: MOBILE_TOKEN, or --token-file")
	case !slices.Contains(names, c.Scenario):
		return usagef("the scenario must be one of %s", strings.Join(names, ", "))
	case c.Devices < 1 || c.Devices > 1<<24:
		return usagef("the number of devices must be from 1 to %d", 1<<24)
	case c.ConnectRate <= 0 || c.Rate < 0 || c.Rate > 1e6 || c.Churn < 0 || c.Churn > 1e6:
		return usagef("rates must be over 0, and at most a million a second")
	case c.Duration <= 0 || c.Warmup < 0 || c.Timeout <= 0:
		return usagef("durations must be over 0")
	case c.MinSize < minText || c.MaxSize < c.MinSize || c.MaxSize > codec.MaxTextChars:
		return usagef("sizes must be from %d to %d bytes, as 32..512", minText, codec.MaxTextChars)
	case c.MinFile < minText || c.MaxFile < c.MinFile || c.MaxFile > codec.MaxMediaBytes:
		return usagef("files must have from %d to %d bytes, as 4096..65536", minText, codec.MaxMediaBytes)
	case c.Part < codec.MinMediaChunkBytes || c.Part > codec.MediaChunkBytes:
		return usagef("a part of a file must have from %d to %d bytes", codec.MinMediaChunkBytes, codec.MediaChunkBytes)
	case c.Bad < 0 || c.Bad > 1:
		return usagef("the share of devices that go astray must be from 0 to 1")
	case c.Start < 0 || c.Start > 1<<30:
		return usagef("the first device must have a number from 0 to %d", 1<<30)
	case len(ids) > codec.MaxDeviceChars-10 || strings.ContainsFunc(ids, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }):
		return usagef("the prefix must have at most %d plain characters", codec.MaxDeviceChars-10)
	}
	fit, err := engine.MaxConnections(1)
	if err != nil {
		return err
	}
	if c.Devices > fit {
		return usagef("%d devices are too many for the limit on open files of one process, which has room for %d: divide them by --shards", c.Devices, fit)
	}
	return nil
}

func (c *Config) defaults() {
	if c.Scenario == "" {
		c.Scenario = "idle"
	}
	if c.Devices == 0 {
		c.Devices = 1
	}
	if c.ConnectRate == 0 {
		c.ConnectRate = 1000
	}
	for _, s := range scenarios {
		if s.name == c.Scenario {
			s.preset(c)
		}
	}
	if c.Duration == 0 {
		c.Duration = 10 * time.Second
	}
	c.mix(Mix{Text: 1})
	c.files(4<<10, 64<<10)
	c.MaxFile = max(c.MaxFile, c.MinFile)
	if c.Part == 0 {
		c.Part = 64 << 10
	}
	if c.MinSize == 0 {
		c.MinSize = 32
	}
	if c.MaxSize == 0 {
		c.MaxSize = max(512, c.MinSize)
	}
	if c.Prefix == "" {
		c.Prefix = "load-"
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
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
