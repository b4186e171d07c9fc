package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rule is one rule of RFC 6455, as a device that keeps or breaks it sees it. Every stream is sent by a device that was
// admitted, to an owner that echoes.
type rule struct {
	name   string
	frames [][]byte
	want   string // what the device hears, separated by "|"
}

func frames(f ...[]byte) [][]byte { return f }

const (
	more       = 0x00 // a frame that is not the last
	contOp     = 0x0
	textOp     = 0x1
	dataOp     = 0x2
	byeOp      = 0x8
	pingOp     = 0x9
	pongOp     = 0xA
	protocol   = "close 1002 protocol error"
	tooBig     = "text a message is over the limit, admitted true|close 1008 too_big"
	notUTF8    = "text a text message is not UTF-8, admitted true|close 1007 bad_frame"
	noUTF8Bye  = "close 1007 close reason is not UTF-8"
	maxMessage = 200_000 // of the servers in this file
)

// unmasked is a frame without a mask.
func unmasked(first byte, payload string) []byte {
	return append([]byte{first, byte(len(payload))}, payload...)
}

var longText, longData = strings.Repeat("ж", 40_000), strings.Repeat("0123456789", 7_000)

// rules is our own table of RFC 6455, 5 to 8, and of what spec 1 adds to it. It is long because it is one table.
func rules() []rule {
	table := []rule{
		{"the example of the RFC", frames([]byte{0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58}), "text Hello"},
		{"text", frames(text("hi")), "text hi"},
		{"empty text", frames(text("")), "text "},
		{"binary", frames(data("hi")), "text hi"},
		{"empty binary", frames(data("")), "text "},
		{"binary need not be UTF-8", frames(data("\xFF\xFE")), "text \xFF\xFE"},
		{"two in a row", frames(text("a"), text("b")), "text a|text b"},
		{"125 bytes", frames(text(longData[:125])), "text " + longData[:125]},
		{"126 bytes", frames(text(longData[:126])), "text " + longData[:126]},
		{"65535 bytes", frames(text(longData[:65535])), "text " + longData[:65535]},
		{"65536 bytes", frames(text(longData[:65536])), "text " + longData[:65536]},
		{"a long text of two-byte characters", frames(text(longText)), "text " + longText},
		{"a zero mask", frames([]byte{fin | textOp, 0x82, 0, 0, 0, 0, 'h', 'i'}), "text hi"},

		{"126 in two bytes is needed", frames(announce(fin|textOp, 2, 125, longData[:125])), protocol},
		{"0 in two bytes", frames(announce(fin|textOp, 2, 0, "")), protocol},
		{"65535 in eight bytes", frames(announce(fin|textOp, 8, 65535, longData[:65535])), protocol},
		{"1 in eight bytes", frames(announce(fin|dataOp, 8, 1, "x")), protocol},
		{"the top bit", frames(announce(fin|textOp, 8, 1<<63, "x")), protocol},
		{"the top bit and all others", frames(announce(fin|textOp, 8, 1<<64-1, "x")), protocol},
		{"2^63-1 is over the limit only", frames(announce(fin|textOp, 8, 1<<63-1, "x")), tooBig},
		{"at the limit", frames(wire(more|textOp, longData), wire(more|contOp, longData), wire(fin|contOp, longData[:60_000])), "text " + longData + longData + longData[:60_000]},
		{"over the limit", frames(announce(fin|textOp, 8, maxMessage+1, "x")), tooBig},
		{"the sum of fragments is over the limit", frames(wire(more|textOp, longData), wire(more|contOp, longData), announce(fin|contOp, 2, 60_001, "x")), tooBig},

		{"unmasked text", frames(unmasked(fin|textOp, "hi")), protocol},
		{"unmasked ping", frames(unmasked(fin|pingOp, "hi")), protocol},
		{"unmasked close", frames(unmasked(fin|byeOp, "\x03\xE8")), protocol},
		{"unmasked continuation", frames(wire(more|textOp, "a"), unmasked(fin|contOp, "b")), protocol},

		{"ping", frames(ping("hi")), "pong hi"},
		{"empty ping", frames(ping("")), "pong "},
		{"ping of bytes", frames(ping("\x00\xFF\xFE")), "pong \x00\xFF\xFE"},
		{"ping of 125 bytes", frames(ping(longData[:125])), "pong " + longData[:125]},
		{"ping of 126 bytes", frames(ping(longData[:126])), protocol},
		{"ping that says 127 in eight bytes", frames(announce(fin|pingOp, 8, 65536, "x")), protocol},
		{"ten pings", frames(bytes.Repeat(ping("x"), 10)), strings.TrimSuffix(strings.Repeat("pong x|", 10), "|")},
		{"ping that is no last frame", frames(wire(more|pingOp, "a"), wire(fin|contOp, "b")), protocol},
		{"pong that nobody asked for", frames(wire(fin|pongOp, "hi"), text("a")), "text a"},
		{"pong of 126 bytes", frames(wire(fin|pongOp, longData[:126])), protocol},
		{"pong that is no last frame", frames(wire(more|pongOp, "a")), protocol},
		{"ping before close", frames(ping("a"), goodbye(1000, "")), "pong a|close 1000"},
		{"ping before a violation", frames(ping("a"), unmasked(fin|textOp, "b")), "pong a|" + protocol},
		{"ping before what is too big", frames(ping("a"), announce(fin|textOp, 8, maxMessage+1, "x")), "pong a|" + tooBig},

		{"fragments", frames(wire(more|textOp, "a"), wire(more|contOp, "b"), wire(fin|contOp, "c")), "text abc"},
		{"binary fragments", frames(wire(more|dataOp, "\xFF"), wire(fin|contOp, "b")), "text \xFFb"},
		{"empty fragments", frames(wire(more|textOp, ""), wire(more|contOp, ""), wire(fin|contOp, "")), "text "},
		{"empty first and last", frames(wire(more|textOp, ""), wire(more|contOp, "b"), wire(fin|contOp, "")), "text b"},
		{"many fragments", frames(wire(more|textOp, ""), bytes.Repeat(wire(more|contOp, "é"), 500), wire(fin|contOp, "!")), "text " + strings.Repeat("é", 500) + "!"},
		{"ping between fragments", frames(wire(more|textOp, "a"), ping("p"), wire(fin|contOp, "b")), "pong p|text ab"},
		{"pong between fragments", frames(wire(more|textOp, "a"), wire(fin|pongOp, "p"), wire(fin|contOp, "b")), "text ab"},
		{"close between fragments", frames(wire(more|textOp, "a"), goodbye(1000, "")), "close 1000"},
		{"a message after fragments", frames(wire(more|textOp, "a"), wire(fin|contOp, "b"), text("c")), "text ab|text c"},
		{"continuation of nothing", frames(wire(fin|contOp, "a")), protocol},
		{"continuation of nothing, not the last", frames(wire(more|contOp, "a")), protocol},
		{"continuation of a whole message", frames(text("a"), wire(fin|contOp, "b")), "text a|" + protocol},
		{"text within fragments", frames(wire(more|textOp, "a"), text("b")), protocol},
		{"binary within fragments", frames(wire(more|textOp, "a"), data("b")), protocol},
		{"another first fragment", frames(wire(more|textOp, "a"), wire(more|textOp, "b")), protocol},

		{"close without a code", frames(wire(fin|byeOp, "")), "close"},
		{"close of one byte", frames(wire(fin|byeOp, "\x03")), protocol},
		{"close with a reason", frames(goodbye(1000, "bye, до свидания")), "close 1000"},
		{"close with the longest reason", frames(goodbye(1000, longData[:123])), "close 1000"},
		{"close that is too long", frames(goodbye(1000, longData[:124])), protocol},
		{"close that is no last frame", frames(wire(more|byeOp, "\x03\xE8")), protocol},
		{"close with a reason that is not UTF-8", frames(goodbye(1000, "a\xFF")), noUTF8Bye},
		{"close with half a character", frames(goodbye(1001, "\xD0")), noUTF8Bye},
		{"close with a surrogate", frames(goodbye(1001, "\xED\xA0\x80")), noUTF8Bye},
		{"a bad code and a bad reason", frames(goodbye(1005, "\xFF")), protocol},
		{"what follows a close is dropped", frames(text("a"), goodbye(1000, ""), text("b"), ping("c"), goodbye(1001, "")), "text a|close 1000"},
		{"what follows a violation is dropped", frames(unmasked(fin|textOp, "hi"), text("b"), goodbye(1000, "")), protocol},
	}
	table = append(table, opcodes()...)
	return append(append(table, codes()...), utf8Rules()...)
}

// opcodes: RFC 6455, 5.2: reserved opcodes and bits fail the connection.
func opcodes() (table []rule) {
	for op := range byte(16) {
		known := op == contOp || op == textOp || op == dataOp || op == byeOp || op == pingOp || op == pongOp
		if !known {
			for _, first := range []byte{fin, more} {
				table = append(table, rule{fmt.Sprintf("opcode %X, first byte %02X", op, first|op), frames(wire(first|op, "")), protocol})
			}
		}
		for rsv := byte(1); rsv < 8; rsv++ {
			table = append(table, rule{fmt.Sprintf("opcode %X with reserved bits %d", op, rsv), frames(wire(fin|rsv<<4|op, "")), protocol})
		}
	}
	return append(table, rule{"reserved bits on a continuation", frames(wire(more|textOp, "a"), wire(fin|0x40|contOp, "b")), protocol})
}

// codes: RFC 6455, 7.4, and the registry that it founds.
func codes() (table []rule) {
	good := map[int]bool{1000: true, 1001: true, 1002: true, 1003: true, 1007: true, 1008: true, 1009: true, 1010: true, 1011: true, 1012: true, 1013: true, 1014: true}
	for code := 998; code <= 1020; code++ {
		good[code] = good[code]
	}
	for _, code := range []int{3000, 3999, 4000, 4001, 4999} {
		good[code] = true
	}
	for _, code := range []int{0, 1, 255, 999, 1100, 2000, 2999, 5000, 9999, 32768, 65535} {
		good[code] = false
	}
	for code, ok := range good {
		want := protocol
		if ok {
			want = fmt.Sprintf("close %d", code)
		}
		table = append(table, rule{fmt.Sprintf("code %d", code), frames(goodbye(code, "")), want},
			rule{fmt.Sprintf("code %d with a reason", code), frames(goodbye(code, "why")), want})
	}
	return table
}

// utf8Rules: RFC 6455, 8.1: a text message is UTF-8 as a whole; where its fragments are cut does not matter.
func utf8Rules() (table []rule) {
	for _, s := range []string{"κόσμε", "😀", "\uFFFD", "\u0000", "\U0010FFFF", "\uD7FF\uE000", "a\u0301"} {
		table = append(table, rule{fmt.Sprintf("text %+q", s), frames(text(s)), "text " + s})
		for at := 1; at < len(s); at++ {
			table = append(table, rule{fmt.Sprintf("text %+q cut at %d", s, at), frames(wire(more|textOp, s[:at]), ping("p"), wire(fin|contOp, s[at:])), "pong p|text " + s})
		}
	}
	for _, s := range []string{
		"\x80", "\xFF", "a\xC0\xAF", "\xE0\x80\xAF", "\xC1\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80",
		"\xCE\xBA\xE1\xBD", "\xF0\x9F\x98", "😀\xF0", "κόσμε\xED\xA0\x80edited",
	} {
		table = append(table, rule{fmt.Sprintf("no text %+q", s), frames(text(s)), notUTF8})
		table = append(table, rule{fmt.Sprintf("no text %+q in fragments", s), frames(wire(more|textOp, s[:1]), wire(more|contOp, s[1:]), wire(fin|contOp, "")), notUTF8})
	}
	return append(table, rule{"a character begins in one message and ends in another", frames(text("\xF0\x9F"), text("\x98\x80")), notUTF8})
}

// slicers cut a stream into pieces.
func slicers(r *rand.Rand) map[string]func(left int) int {
	all := map[string]func(int) int{"whole": func(left int) int { return left }, "random": func(int) int { return 1 + r.IntN(20) }}
	for _, n := range []int{1, 2, 3, 7} {
		all[fmt.Sprintf("pieces of %d", n)] = func(int) int { return n }
	}
	return all
}

// apart are the data frames and the control frames of what a device heard: the order between the two is not promised, since
// the pongs of one read leave together behind the echoes.
func apart(heard []string) (messages, controls []string) {
	for _, s := range heard {
		if strings.HasPrefix(s, "text") {
			messages = append(messages, s)
		} else {
			controls = append(controls, s)
		}
	}
	return messages, controls
}

func requireHeard(t *testing.T, want string, heard []string, what string) {
	t.Helper()
	wantMessages, wantControls := apart(strings.Split(want, "|"))
	messages, controls := apart(heard)
	require.Equal(t, wantControls, controls, what)
	require.Equal(t, len(wantMessages), len(messages), what)
	for i, m := range messages {
		require.True(t, m == wantMessages[i], "%s: %s", what, brief(m))
	}
}

func TestRFC6455InPieces(t *testing.T) {
	t.Parallel()
	s, _ := bare(t, Config{MaxMessage: maxMessage}, newDesk())
	r := rand.New(rand.NewPCG(1, 2))
	for _, rule := range rules() {
		stream := bytes.Join(rule.frames, nil)
		for name, slicer := range slicers(r) {
			if len(stream) > 10_000 && raceEnabled && name != "whole" {
				slicer = func(int) int { return 1 + r.IntN(997) }
			}
			l, _ := ownedBy(t, s, nil)
			done := make(chan []string, 1)
			go func() { done <- l.hears() }()
			l.takes(stream, slicer)
			l.Close(nil)
			requireHeard(t, rule.want, <-done, rule.name+", "+name)
			l.finish()
		}
	}
}

func TestRFC6455OverLoopback(t *testing.T) {
	t.Parallel()
	r := start(t, Config{MaxMessage: maxMessage}, newDesk())
	for _, rule := range rules() {
		for _, whole := range []bool{false, true} {
			d, p := r.join(t)
			if whole {
				d.put(rule.frames...)
			} else {
				for _, f := range rule.frames {
					d.put(f)
				}
			}
			var heard []string
			for range len(strings.Split(rule.want, "|")) {
				heard = append(heard, d.hears())
			}
			requireHeard(t, rule.want, heard, rule.name)
			if strings.Contains(rule.want, "close") {
				d.wants("end")
				require.Error(t, <-p.ended, rule.name)
			} else {
				d.put(goodbye(1000, ""))
				d.wants("close 1000", "end")
				p.closed(t, ErrClosedByPeer)
			}
			d.Close()
		}
	}
}

// Whatever valid frames come, and however their bytes are cut: the owner gets the same messages, the device the same
// answers. The reference reads the stream as a whole.
func TestEverySplitIsTheSame(t *testing.T) {
	t.Parallel()
	s, _ := bare(t, Config{MaxMessage: maxMessage}, newDesk())
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		stream := randomFrames(r)
		want := reference(stream, maxMessage)
		for range 4 {
			scale := 1 << r.IntN(10)
			outcomeOf(t, s, stream, func(int) int { return 1 + r.IntN(scale) }).requireEqual(t, want, seed)
		}
	}
}

// randomFrames is a stream of valid messages, whole and in fragments, with control frames between them.
func randomFrames(r *rand.Rand) (stream []byte) {
	control := func() {
		for r.IntN(3) == 0 {
			stream = append(stream, wire(fin|pingOp+byte(r.IntN(2)), longData[:r.IntN(126)])...)
		}
	}
	for range 1 + r.IntN(8) {
		body, op := []rune(longText)[:r.IntN(200)], byte(textOp)
		payload := string(body)
		if r.IntN(2) == 0 {
			payload, op = longData[:r.IntN(70_000)>>r.IntN(16)], dataOp
		}
		for r.IntN(2) == 0 {
			at := r.IntN(len(payload) + 1)
			stream = append(stream, wire(more|op, payload[:at])...)
			payload, op = payload[at:], contOp
			control()
		}
		stream = append(stream, wire(fin|op, payload)...)
		control()
	}
	if r.IntN(2) == 0 {
		stream = append(stream, wire(fin|byeOp, string(binary.BigEndian.AppendUint16(nil, 4321))+"why")...)
	}
	return stream
}
