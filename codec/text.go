package codec

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// CutChars returns the first n characters of s, and s itself when it has no more. It does not copy.
func CutChars(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n <= 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// tooLong counts only where bytes alone do not decide.
func tooLong(s string) bool {
	return len(s) > MaxTextChars && utf8.RuneCountInString(s) > MaxTextChars
}

// blank reports whether s is empty or Unicode White_Space alone.
func blank(s string) bool { return strings.TrimSpace(s) == "" }

// cleanName takes control characters out of a name of hello and cuts it.
func cleanName(s string) string {
	return CutChars(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s), MaxDeviceChars)
}

// cleanFilename keeps of a file name what is safe to show and to store, in the order of spec 6: path, then control and
// bidirectional control characters, then leading dots, then the cut.
func cleanFilename(s string) string {
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, s)
	return CutChars(strings.TrimLeft(s, "."), MaxFilenameChars)
}

// shortMime takes a type of over 255 bytes for none: RFC 6838, 4.2, allows 127 on each side of the slash.
func shortMime(s string) string {
	if len(s) > 255 {
		return ""
	}
	return s
}
