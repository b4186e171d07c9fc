package codec

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// appendField adds lead, which ends in a name and a colon, and s as a JSON string.
func appendField(dst []byte, lead, s string) []byte {
	return appendString(append(dst, lead...), s)
}

func appendOptional(dst []byte, lead, s string) []byte {
	if s == "" {
		return dst
	}
	return appendField(dst, lead, s)
}

func appendInt(dst []byte, lead string, n int) []byte {
	return strconv.AppendInt(append(dst, lead...), int64(n), 10)
}

func appendBool(dst []byte, lead string, b bool) []byte {
	return strconv.AppendBool(append(dst, lead...), b)
}

func appendTrue(dst []byte, field string, b bool) []byte {
	if !b {
		return dst
	}
	return append(dst, field...)
}

// appendEnd closes a frame that may carry a seq (spec 10).
func appendEnd(dst []byte, seq uint64) []byte {
	if seq != 0 {
		dst = append(dst, `,"seq":`...)
		dst = strconv.AppendUint(dst, seq, 10)
	}
	return append(dst, '}')
}

// asItIs are the bytes that stand in a JSON string as they are, those of longer characters too.
var asItIs = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return t
}()

// appendString adds s as a JSON string. Only what must be escaped is: quote, backslash and the controls below 0x20. Each byte
// that is not UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	return append(appendText(append(dst, '"'), s), '"')
}

// appendText adds the inside of a JSON string.
func appendText(dst []byte, s string) []byte {
	dst = slices.Grow(dst, len(s)+2)
	valid := utf8.ValidString(s)
	start := 0 // s[start:i] is still to be added, as it is
	for i := 0; i < len(s); {
		c := s[i]
		if asItIs[c] && (valid || c < utf8.RuneSelf) {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscaped(dst, c)
		i += size
		start = i
	}
	return append(dst, s[start:]...)
}

// appendEscaped adds a byte that cannot stand in a JSON string as it is.
func appendEscaped(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c == '\n':
		return append(dst, `\n`...)
	case c == '\r':
		return append(dst, `\r`...)
	case c == '\t':
		return append(dst, `\t`...)
	case c < ' ':
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
	return utf8.AppendRune(dst, utf8.RuneError)
}
