package loadtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// scenario is what a fleet does, as the defaults that it gives a Phase.
type scenario struct {
	name, about string
	preset      func(p *Phase)
}

var scenarios = []scenario{
	{"idle", "devices connect and stay", func(p *Phase) {}},
	{"chat", "each says a text every ten seconds", func(p *Phase) { p.every(10) }},
	{"voice", "each sends a voice message every ten seconds, which comes back", func(p *Phase) {
		p.every(10)
		p.mix(Mix{Audio: 1})
	}},
	{"upload", "each sends a file in parts every minute, which comes back", func(p *Phase) {
		p.every(60)
		p.mix(Mix{Media: 1})
		p.files(256<<10, 4<<20)
	}},
	{"storm", "all connections break at one moment, and all devices come back", func(p *Phase) {}},
	{"takeover", "each device connects a second time every twenty seconds, and chats", func(p *Phase) {
		p.every(10)
		if p.Churn == 0 {
			p.Churn = float64(p.Devices) / 20
		}
	}},
	{"slow-consumer", "some ask for much and read nothing; the others chat", func(p *Phase) {
		p.every(10)
		p.astray(90 * time.Second)
	}},
	{"half-open", "some fall silent and answer no ping; the others chat", func(p *Phase) {
		p.every(10)
		p.astray(2 * time.Minute)
	}},
	{"soak", "texts, voice and files, with devices that come and go, for an hour", func(p *Phase) {
		p.every(10)
		p.mix(Mix{Text: 90, Audio: 5, Media: 5})
		if p.Churn == 0 {
			p.Churn = float64(p.Devices) / 1000
		}
		if !p.Reconnect.set {
			p.Reconnect = Backoff{Base: time.Second, Cap: time.Minute, set: true}
		}
		if p.Duration == 0 {
			p.Duration = time.Hour
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

func (p *Phase) every(seconds float64) {
	if p.Rate == 0 && p.Rise == 0 {
		p.Rate = float64(p.Devices) / seconds
	}
}

func (p *Phase) mix(m Mix) {
	if p.Mix == (Mix{}) {
		p.Mix = m
	}
}

func (p *Phase) files(least, most int) {
	if p.MinFile == 0 {
		p.MinFile, p.MaxFile = least, most
	}
}

func (p *Phase) astray(d time.Duration) {
	if p.Bad == 0 {
		p.Bad = 0.1
	}
	if p.Duration == 0 {
		p.Duration = d
	}
}

func (p *Phase) takesOver() bool   { return p.Scenario == "takeover" }
func (p *Phase) breaksOff() bool   { return p.Scenario == "storm" }
func (p *Phase) asksForMuch() bool { return p.Scenario == "slow-consumer" }
func (p *Phase) goesAstray() bool  { return p.asksForMuch() || p.Scenario == "half-open" }

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
