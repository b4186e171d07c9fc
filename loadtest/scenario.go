package loadtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// scenario is what a fleet does, as the defaults that it gives a Config.
type scenario struct {
	name, about string
	preset      func(c *Config)
}

var scenarios = []scenario{
	{"idle", "devices connect and stay", func(c *Config) {}},
	{"chat", "each says a text every ten seconds", func(c *Config) { c.rate(10) }},
	{"voice", "each sends a voice message every ten seconds, which comes back", func(c *Config) {
		c.rate(10)
		c.mix(Mix{Audio: 1})
	}},
	{"upload", "each sends a file in parts every minute, which comes back", func(c *Config) {
		c.rate(60)
		c.mix(Mix{Media: 1})
		c.files(256<<10, 4<<20)
	}},
	{"storm", "all connections break at one moment, and all devices come back", func(c *Config) {}},
	{"takeover", "each device connects a second time every twenty seconds, and chats", func(c *Config) {
		c.rate(10)
		if c.Churn == 0 {
			c.Churn = float64(c.Devices) / 20
		}
	}},
	{"slow-consumer", "some ask for much and read nothing; the others chat", func(c *Config) {
		c.rate(10)
		c.astray(90 * time.Second)
	}},
	{"half-open", "some fall silent and answer no ping; the others chat", func(c *Config) {
		c.rate(10)
		c.astray(2 * time.Minute)
	}},
	{"soak", "texts, voice and files, with devices that come and go, for an hour", func(c *Config) {
		c.rate(10)
		c.mix(Mix{Text: 90, Audio: 5, Media: 5})
		if c.Churn == 0 {
			c.Churn = float64(c.Devices) / 1000
		}
		if !c.Reconnect.set {
			c.Reconnect = Backoff{Base: time.Second, Cap: time.Minute, set: true}
		}
		if c.Duration == 0 {
			c.Duration = time.Hour
		}
	}},
}

// Scenarios are the names of what a fleet can do, and what that is.
func Scenarios() (names, about []string) {
	for _, s := range scenarios {
		names, about = append(names, s.name), append(about, s.about)
	}
	return names, about
}

func (c *Config) rate(every float64) {
	if c.Rate == 0 {
		c.Rate = float64(c.Devices) / every
	}
}

func (c *Config) mix(m Mix) {
	if c.Mix == (Mix{}) {
		c.Mix = m
	}
}

func (c *Config) files(least, most int) {
	if c.MinFile == 0 {
		c.MinFile, c.MaxFile = least, most
	}
}

func (c *Config) astray(d time.Duration) {
	if c.Bad == 0 {
		c.Bad = 0.1
	}
	if c.Duration == 0 {
		c.Duration = d
	}
}

func (c *Config) takesOver() bool   { return c.Scenario == "takeover" }
func (c *Config) breaksOff() bool   { return c.Scenario == "storm" }
func (c *Config) asksForMuch() bool { return c.Scenario == "slow-consumer" }
func (c *Config) goesAstray() bool  { return c.asksForMuch() || c.Scenario == "half-open" }

// Mix is how the messages divide into kinds, by weight.
type Mix struct {
	Text  float64 `json:"text"`
	Audio float64 `json:"audio"`
	Media float64 `json:"media"`
}

// ParseMix reads text=90,audio=5,media=5; what is not named has no share.
func ParseMix(s string) (m Mix, err error) {
	shares := map[string]*float64{"text": &m.Text, "audio": &m.Audio, "media": &m.Media}
	for item := range strings.SplitSeq(s, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(item), "=")
		w, err := strconv.ParseFloat(weight, 64)
		if shares[name] == nil || err != nil || !(w >= 0 && w <= 1e6) {
			return m, errMix
		}
		*shares[name] = w
	}
	if m.Text+m.Audio+m.Media == 0 {
		return m, errMix
	}
	return m, nil
}

var errMix = errors.New("must be weights, as text=90,audio=5,media=5")

// Backoff is when a device whose connection ended connects again. The zero value is at once, for devices that left by
// themselves, and never for others.
type Backoff struct {
	Base, Cap time.Duration
	set       bool
}

// ParseBackoff reads full-jitter:1s..60s.
func ParseBackoff(s string) (b Backoff, err error) {
	bounds, ok := strings.CutPrefix(s, "full-jitter:")
	least, most, ok2 := strings.Cut(bounds, "..")
	if b.Base, err = time.ParseDuration(least); err == nil {
		b.Cap, err = time.ParseDuration(most)
	}
	if !ok || !ok2 || err != nil || b.Base <= 0 || b.Cap < b.Base {
		return b, errors.New("must be full-jitter:LEAST..MOST, as full-jitter:1s..60s")
	}
	b.set = true
	return b, nil
}

// delay draws from nothing to twice as much with every try, within the bounds.
func (b Backoff) delay(random *rand.Rand, tries int) time.Duration {
	if b.Base <= 0 {
		return 0
	}
	most := b.Cap
	if tries < 32 && b.Base<<tries > 0 {
		most = min(most, b.Base<<tries)
	}
	return time.Duration(random.Int64N(int64(most) + 1))
}

// MarshalText and UnmarshalText carry it to a shard.
func (b Backoff) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func (b *Backoff) UnmarshalText(text []byte) (err error) {
	if len(text) > 0 {
		*b, err = ParseBackoff(string(text))
	}
	return err
}

// String is what ParseBackoff reads.
func (b Backoff) String() string {
	if !b.set {
		return ""
	}
	return fmt.Sprintf("full-jitter:%s..%s", b.Base, b.Cap)
}
