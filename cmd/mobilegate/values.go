package main

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mobilegate/codec"
	"mobilegate/session"
)

// The values that a setting may have. Every reader's error says what the value may be, and never repeats it.

func text(to *string) func(string) error {
	return func(v string) error {
		*to = v
		return nil
	}
}

func host(to *string) func(string) error {
	return func(v string) error {
		v = strings.TrimSuffix(strings.TrimPrefix(v, "["), "]")
		if v == "*" {
			*to = ""
			return nil
		}
		if ips, err := net.LookupIP(v); err != nil || len(ips) == 0 {
			return errors.New("must be an address or the name of one, or * for all addresses")
		}
		*to = v
		return nil
	}
}

func device(to *string) func(string) error {
	return func(v string) error {
		*to = v
		return deviceIDs(v)
	}
}

// deviceIDs refuses what no device can be called.
func deviceIDs(ids ...string) error {
	for _, id := range ids {
		if utf8.RuneCountInString(id) > codec.MaxDeviceChars || strings.HasPrefix(id, "mobile:") || strings.TrimSpace(id) != id {
			return fmt.Errorf("must name device ids as the devices say them: at most %d characters, no blanks around, without mobile: in front", codec.MaxDeviceChars)
		}
	}
	return nil
}

func number(to *int, from, upTo int) func(string) error {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < from || n > upTo {
			return fmt.Errorf("must be a whole number from %d to %d", from, upTo)
		}
		*to = n
		return nil
	}
}

func duration(to *time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 || d > 0 && d < time.Second {
			return errors.New("must be a duration such as 50s, of at least a second, or 0 for never")
		}
		*to = d
		return nil
	}
}

func oneOf(to *string, allowed ...string) func(string) error {
	return func(v string) error {
		for _, a := range allowed {
			if v == a {
				*to = a
				return nil
			}
		}
		return fmt.Errorf("must be %s", strings.Join(allowed, " or "))
	}
}

// items splits a comma list; blanks around items and empty items do not count.
func items(list string) (all []string) {
	for _, item := range places(list) {
		all = append(all, item)
	}
	return all
}

// places yields the items of a comma list with the place of each, from 1. An empty item keeps its place.
func places(list string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		n := 0
		for item := range strings.SplitSeq(list, ",") {
			n++
			if item = strings.TrimSpace(item); item != "" && !yield(n, item) {
				return
			}
		}
	}
}

// address reads host:port.
func address(to *string) func(string) error {
	return func(v string) error {
		h, port, err := net.SplitHostPort(v)
		if n, e := strconv.Atoi(port); err != nil || e != nil || n < 0 || n > 65535 {
			return errors.New("must be an address with a port, such as 127.0.0.1:9787")
		}
		if h != "" {
			err = host(new(string))(h)
		}
		*to = v
		return err
	}
}

// size reads bytes: a whole number with KiB, MiB or GiB behind it, or nothing.
func size(to *int64) func(string) error {
	return func(v string) error {
		n, err := parseSize(v)
		if err != nil {
			return err
		}
		*to = n
		return nil
	}
}

func parseSize(v string) (int64, error) {
	unit := int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if digits, ok := strings.CutSuffix(v, suffix); ok {
			v, unit = digits, factor
			break
		}
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > 1<<50/unit {
		return 0, errors.New("must be a number of bytes such as 65536, 64KiB, 256MiB or 2GiB")
	}
	return n * unit, nil
}

// rate reads some or all of the four numbers of a rate; those that are not named stay as they are.
func rate(to *session.Rate) func(string) error {
	return func(v string) error {
		r := *to
		fields := map[string]*int{"frames": &r.FramesASecond, "bytes": &r.BytesASecond, "burst-frames": &r.BurstFrames, "burst-bytes": &r.BurstBytes}
		for _, item := range items(v) {
			name, value, _ := strings.Cut(item, "=")
			n, err := parseSize(value)
			if fields[name] == nil || err != nil {
				return errors.New("must be any of frames=N,bytes=SIZE,burst-frames=N,burst-bytes=SIZE, with sizes such as 2MiB")
			}
			*fields[name] = int(n)
		}
		*to = r
		return nil
	}
}
