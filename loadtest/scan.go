package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// heard is what a frame of the gateway says, as far as it is checked here. It borrows from the frame. Strings are still JSON,
// with their quotes: most are only compared.
type heard struct {
	t, id, text, code, session, deviceID, replyTo, kind, data []byte

	part, size         int
	final, edit, fatal bool
}

var errFrame = errors.New("a frame that is not one JSON object")

// scan reads a frame: one JSON object, checked to the end. Fields that are not known are passed over; of a repeated one the
// last counts. It allocates nothing.
func (h *heard) scan(b []byte) error {
	*h = heard{}
	s := scanner{b: b}
	s.space()
	for more := s.open(); more; more = s.more() {
		h.field(&s, s.name())
	}
	s.space()
	if s.bad || s.i != len(s.b) {
		return errFrame
	}
	return nil
}

func (h *heard) field(s *scanner, name []byte) {
	switch string(name) {
	case `"t"`:
		h.t = s.value(1)
	case `"id"`:
		h.id = s.value(1)
	case `"text"`:
		h.text = s.value(1)
	case `"code"`:
		h.code = s.value(1)
	case `"session"`:
		h.session = s.value(1)
	case `"reply_to"`:
		h.replyTo = s.value(1)
	case `"kind"`:
		h.kind = s.value(1)
	case `"data"`:
		h.data = s.value(1)
	case `"part"`:
		h.part = s.integer()
	case `"size"`:
		h.size = s.integer()
	case `"final"`:
		h.final = string(s.value(1)) == "true"
	case `"edit"`:
		h.edit = string(s.value(1)) == "true"
	case `"fatal"`:
		h.fatal = string(s.value(1)) == "true"
	case `"device"`:
		h.device(s)
	default:
		s.value(1)
	}
}

func (h *heard) device(s *scanner) {
	if s.next() != '{' {
		s.value(1)
		return
	}
	for more := s.open(); more; more = s.more() {
		if string(s.name()) == `"id"` {
			h.deviceID = s.value(2)
		} else {
			s.value(2)
		}
	}
}

// scanner goes through JSON text. Once it is bad it stays so.
type scanner struct {
	b   []byte
	i   int
	bad bool
}

// maxDepth is how deep JSON may nest: what is known here nests three deep.
const maxDepth = 64

func (s *scanner) next() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

func (s *scanner) take(c byte) bool {
	if s.bad || s.next() != c {
		s.bad = true
		return false
	}
	s.i++
	return true
}

// open begins an object and tells whether a name and a value follow; more does so behind each value.
func (s *scanner) open() bool {
	if !s.take('{') {
		return false
	}
	s.space()
	if s.next() == '}' {
		s.i++
		return false
	}
	return true
}

func (s *scanner) more() bool {
	s.space()
	if !s.bad && s.next() == '}' {
		s.i++
		return false
	}
	return s.take(',')
}

// name passes over a name and is its text, with the quotes.
func (s *scanner) name() []byte {
	s.space()
	name := s.text()
	s.space()
	s.take(':')
	s.space()
	return name
}

// value passes over any value and is its text.
func (s *scanner) value(depth int) []byte {
	start := s.i
	if depth > maxDepth {
		s.bad = true
	}
	if s.bad {
		return nil
	}
	switch c := s.next(); {
	case c == '"':
		s.text()
	case c == '{':
		for more := s.open(); more; more = s.more() {
			s.name()
			s.value(depth + 1)
		}
	case c == '[':
		s.array(depth)
	case c == '-' || '0' <= c && c <= '9':
		s.number()
	default:
		s.word()
	}
	if s.bad {
		return nil
	}
	return s.b[start:s.i]
}

func (s *scanner) array(depth int) {
	s.i++
	s.space()
	if s.next() == ']' {
		s.i++
		return
	}
	for !s.bad {
		s.space()
		s.value(depth + 1)
		s.space()
		if s.next() == ']' {
			s.i++
			return
		}
		s.take(',')
	}
}

func (s *scanner) word() {
	for _, w := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(s.b[s.i:], []byte(w)) {
			s.i += len(w)
			return
		}
	}
	s.bad = true
}

// text passes over a string and is its text, with the quotes.
func (s *scanner) text() []byte {
	start := s.i
	if !s.take('"') {
		return nil
	}
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start:s.i]
		case c == '\\':
			s.escape()
		case c < ' ':
			s.bad = true
		default:
			s.i++
		}
		if s.bad {
			return nil
		}
	}
	s.bad = true
	return nil
}

func (s *scanner) escape() {
	rest := s.b[s.i+1:]
	switch {
	case len(rest) > 0 && bytes.IndexByte([]byte(`"\/bfnrt`), rest[0]) >= 0:
		s.i += 2
	case len(rest) > 4 && rest[0] == 'u' && isHex(rest[1:5]):
		s.i += 6
	default:
		s.bad = true
	}
}

func isHex(b []byte) bool {
	for _, c := range b {
		if ('0' > c || c > '9') && ('a' > c|0x20 || c|0x20 > 'f') {
			return false
		}
	}
	return true
}

func (s *scanner) digits() {
	if c := s.next(); c < '0' || c > '9' {
		s.bad = true
	}
	for c := s.next(); '0' <= c && c <= '9'; c = s.next() {
		s.i++
	}
}

func (s *scanner) number() {
	if s.next() == '-' {
		s.i++
	}
	if s.next() == '0' {
		s.i++
	} else {
		s.digits()
	}
	if s.next() == '.' {
		s.i++
		s.digits()
	}
	if s.next()|0x20 == 'e' {
		s.i++
		if c := s.next(); c == '+' || c == '-' {
			s.i++
		}
		s.digits()
	}
}

// integer is a number that is written as an integer; -1 for anything else.
func (s *scanner) integer() int {
	v := s.value(1)
	if len(v) == 0 || len(v) > 10 || v[0] == '-' {
		return -1
	}
	n := 0
	for _, c := range v {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// unquote is the text of a JSON string; in the memory of quoted where nothing is escaped. Anything else is no text.
func unquote(quoted []byte) (text []byte, ok bool) {
	if len(quoted) < 2 || quoted[0] != '"' {
		return nil, false
	}
	inside := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside, true
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil, false
	}
	return []byte(s), true
}

// printable is untrusted text for a person: short, and nothing that a terminal would obey.
func printable(s string) string {
	if len(s) > 60 {
		s = s[:60]
	}
	s = strconv.QuoteToASCII(s)
	return s[1 : len(s)-1]
}
