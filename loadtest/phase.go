package loadtest

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mobilegate/codec"
)

// Phase is what the fleet does for a time. Zero values mean the default that stands behind each field.
type Phase struct {
	Name        string        // of a phase of a file, or of the file
	Scenario    string        // one of Scenarios, which sets defaults for the rest; idle
	Devices     int           // that are connected before it begins; as many as in the phase before, or 1
	ConnectRate float64       // connections begun a second; 1000
	Warmup      time.Duration // like what is measured, but not measured; none
	Duration    time.Duration // of what is measured; 10 s, and none in a file
	Rate        float64       // messages a second of all devices together; as the scenario says
	Rise        float64       // by how much the rate changes until the end, evenly; nothing
	Mix         Mix           // of kinds of message; texts
	MinSize     int           // bytes of a text; 32
	MaxSize     int           // 512, or MinSize
	MinFile     int           // bytes of a voice message or a file; 4 KiB
	MaxFile     int           // 64 KiB
	Part        int           // bytes of one part of a file; 64 KiB
	Churn       float64       // devices a second that leave and come back, or are taken over; as the scenario says
	Reconnect   Backoff       // of devices whose connection ended
	Bad         float64       // share of devices that go astray, where the scenario wants it; 0.1
	Gathers     bool          // set by fill: devices come before it begins, and all shards wait for each other's

	Fail []Threshold `json:"-"` // what must hold of this phase
}

func (p *Phase) defaults() {
	if p.Scenario == "" {
		p.Scenario = "idle"
	}
	if p.Devices == 0 {
		p.Devices = 1
	}
	if p.ConnectRate == 0 {
		p.ConnectRate = 1000
	}
	for _, s := range scenarios {
		if s.name == p.Scenario {
			s.preset(p)
		}
	}
	p.mix(Mix{Text: 1})
	p.files(4<<10, 64<<10)
	p.MaxFile = max(p.MaxFile, p.MinFile)
	if p.Part == 0 {
		p.Part = 64 << 10
	}
	if p.MinSize == 0 {
		p.MinSize = 32
	}
	if p.MaxSize == 0 {
		p.MaxSize = max(512, p.MinSize)
	}
}

// Bounds of a phase.
const (
	maxDevices   = 1 << 24
	maxRate      = 1e6
	longestPhase = 1000 * time.Hour
)

// check says what cannot be.
func (p *Phase) check() error {
	names, _ := Scenarios()
	switch {
	case !slices.Contains(names, p.Scenario):
		return usagef("the scenario must be one of %s", strings.Join(names, ", "))
	case p.Devices < 1 || p.Devices > maxDevices:
		return usagef("the number of devices must be from 1 to %d", maxDevices)
	case !(p.ConnectRate > 0 && p.ConnectRate <= maxRate) || !isRate(p.Rate) || !isRate(p.Rate+p.Rise) || !isRate(p.Churn):
		return usagef("rates must be over 0, and at most a million a second")
	case p.Duration < 0 || p.Duration > longestPhase || p.Warmup < 0 || p.Warmup > longestPhase:
		return usagef("durations must be over 0, and at most %s", longestPhase)
	case p.MinSize < minText || p.MaxSize < p.MinSize || p.MaxSize > codec.MaxTextChars:
		return usagef("sizes must be from %d to %d bytes, as 32..512", minText, codec.MaxTextChars)
	case p.MinFile < minText || p.MaxFile < p.MinFile || p.MaxFile > codec.MaxMediaBytes:
		return usagef("files must have from %d to %d bytes, as 4096..65536", minText, codec.MaxMediaBytes)
	case p.Part < codec.MinMediaChunkBytes || p.Part > codec.MediaChunkBytes:
		return usagef("a part of a file must have from %d to %d bytes", codec.MinMediaChunkBytes, codec.MediaChunkBytes)
	case !(p.Bad >= 0 && p.Bad <= 1):
		return usagef("the share of devices that go astray must be from 0 to 1")
	}
	return nil
}

// strays is how many devices go astray in the phase.
func (p *Phase) strays() int {
	if !p.goesAstray() {
		return 0
	}
	return int(math.Ceil(p.Bad * float64(p.Devices)))
}

// share is the part of p that shard i of so many has. What it has of more devices is never less.
func (p Phase) share(i, shards int) Phase {
	whole := p.Devices
	p.Devices = whole / shards
	if i < whole%shards {
		p.Devices++
	}
	part := float64(p.Devices) / float64(whole)
	p.ConnectRate *= part
	p.Rate *= part
	p.Rise *= part
	p.Churn *= part
	return p
}

func isRate(v float64) bool { return v >= 0 && v <= maxRate }

// ParseRate reads 200, or 10..500 for a rate that changes evenly.
func ParseRate(s string) (rate, rise float64, err error) {
	first, last, changes := strings.Cut(s, "..")
	if !changes {
		last = first
	}
	from, err1 := strconv.ParseFloat(first, 64)
	upTo, err2 := strconv.ParseFloat(last, 64)
	if err1 != nil || err2 != nil || !isRate(from) || !isRate(upTo) {
		return 0, 0, errors.New("must be messages a second, as 200, or 10..500 for a rate that changes")
	}
	return from, upTo - from, nil
}

// ParseSizes reads 32..512, or 100.
func ParseSizes(s string, least, most *int) error {
	first, last, isRange := strings.Cut(s, "..")
	if !isRange {
		last = first
	}
	var err1, err2 error
	*least, err1 = strconv.Atoi(first)
	*most, err2 = strconv.Atoi(last)
	if err1 != nil || err2 != nil || *least < 1 {
		return errors.New("must be bytes, as 32..512 or 100")
	}
	return nil
}
