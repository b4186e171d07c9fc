package codec

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// value is the JSON text of one field, already known to be valid; empty when the field is absent. It borrows from the frame.
type value string

// UnmarshalJSON keeps the bytes themselves and not a copy.
func (v *value) UnmarshalJSON(b []byte) error {
	*v = value(unsafe.String(unsafe.SliceData(b), len(b)))
	return nil
}

// is reports whether v begins like a string ('"') or an object ('{'). Null counts as absent (spec 2), and absent is anything.
func (v value) is(first byte) bool { return v.absent() || v[0] == first }

func (v value) absent() bool { return v == "" || v == "null" }

// text reads a string and resolves its escapes in place, so it may be called once for each value. Absent is "".
func (v value) text() (s string, ok bool) {
	if v.absent() {
		return "", true
	}
	if v[0] != '"' {
		return "", false
	}
	s = string(v[1 : len(v)-1])
	if i := strings.IndexByte(s, '\\'); i >= 0 {
		s = unescape(s, i)
	}
	return s, true
}

// integer reads a number that is written as an integer (spec 2). One that an int64 cannot hold becomes the nearest that it can.
func (v value) integer(absent int64) (n int64, ok bool) {
	if v.absent() {
		return absent, true
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// sequence reads an integer from 0 that a uint64 can hold. Absent is 0.
func (v value) sequence() (n uint64, ok bool) {
	if v.absent() {
		return 0, true
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	return n, err == nil
}

// validEscapes reports whether every backslash in s begins an escape that JSON has. It need not know where strings are: outside
// of them a backslash is an error anyway.
func validEscapes(s string) bool {
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			return true
		}
		s = s[i+1:]
		if s == "" || strings.IndexByte(`"\/bfnrtu`, s[0]) < 0 {
			return false
		}
		if s[0] == 'u' && (len(s) < 5 || !isHex(s[1]) || !isHex(s[2]) || !isHex(s[3]) || !isHex(s[4])) {
			return false
		}
		s = s[1:]
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// unescape resolves the escapes of s, the first of which is at i, inside the memory of s: no escape is shorter than what it
// stands for. Half a surrogate pair becomes U+FFFD (spec 2).
func unescape(s string, i int) string {
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	n := i
	for i < len(b) {
		if b[i] != '\\' {
			run := bytes.IndexByte(b[i:], '\\')
			if run < 0 {
				run = len(b) - i
			}
			n += copy(b[n:], b[i:i+run])
			i += run
			continue
		}
		c := b[i+1]
		if c == 'u' {
			r, size := escapedRune(b[i:])
			n += utf8.EncodeRune(b[n:], r)
			i += size
			continue
		}
		b[n] = unescaped(c)
		n++
		i += 2
	}
	return s[:n]
}

// unescaped is what a backslash and c stand for.
func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // quote, backslash, slash
}

// escapedRune reads \uHHHH at the beginning of b, or two of them that make a surrogate pair, and tells their length.
func escapedRune(b []byte) (r rune, size int) {
	r = hex4(b[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(b[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case c <= '9':
			c -= '0'
		case c <= 'F':
			c -= 'A' - 10
		default:
			c -= 'a' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}
