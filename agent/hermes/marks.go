package hermes

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxMark  = 4096 // bytes of a mark with a path; what is longer is text
	maxAlt   = 300  // bytes of the description of an inlined image
	markWord = "MEDIA:"
	quotes   = "`\"'"
)

// marks takes the files out of a text that comes in pieces: MEDIA:<path>, where the path is absolute, and
// ![…](data:image/…;base64,…). It holds back what may yet become one of them. The same text comes out, and the same files,
// however the text is cut into pieces.
type marks struct {
	file  func(path string)
	image func(url string) // from data: on

	held  string
	prev  rune            // the last one before held
	data  strings.Builder // an inlined image whose end has not come
	begun bool            // there is something in data
}

// take returns what can be shown now.
func (m *marks) take(piece string) string { return m.scan(piece, false) }

// end returns what was held back: the text is over.
func (m *marks) end() string { return m.scan("", true) }

func (m *marks) scan(piece string, end bool) string {
	var out strings.Builder
	s := m.held + piece
	m.held = ""
	for s != "" {
		if m.begun {
			s = m.inlined(s)
			continue
		}
		i := strings.IndexAny(s, "M!"+quotes)
		if i < 0 {
			i = len(s)
		}
		m.show(&out, s[:i])
		if s = s[i:]; s == "" {
			break
		}
		n, more := m.mark(s, end)
		switch {
		case more && !end:
			m.held = s
			return out.String()
		case n == 0:
			m.show(&out, s[:1])
			s = s[1:]
		default:
			s = s[n:]
		}
	}
	if end && m.begun { // an image that was cut off is no text
		m.begun = false
		m.data.Reset()
	}
	return out.String()
}

func (m *marks) show(out *strings.Builder, s string) {
	if s != "" {
		out.WriteString(s)
		m.prev, _ = utf8.DecodeLastRuneInString(s)
	}
}

// inlined gathers an image up to the parenthesis that closes it, and returns what comes after that.
func (m *marks) inlined(s string) (rest string) {
	n := strings.IndexAny(s, ")\n")
	if n < 0 {
		m.data.WriteString(s)
		return ""
	}
	m.data.WriteString(s[:n])
	m.image(m.data.String())
	m.data.Reset()
	m.begun = false
	return s[n+1:]
}

// mark looks for a mark at the very begin of s, takes it and returns its length; more says that it depends on what follows.
func (m *marks) mark(s string, end bool) (n int, more bool) {
	if s[0] == '!' {
		return m.imageMark(s)
	}
	quote, rest := "", s
	if strings.Contains(quotes, s[:1]) {
		quote, rest = s[:1], s[1:]
	} else if unicode.IsLetter(m.prev) || unicode.IsDigit(m.prev) || m.prev == '_' {
		return 0, false
	}
	if !strings.HasPrefix(rest, markWord) {
		return 0, strings.HasPrefix(markWord, rest)
	}
	rest = strings.TrimLeft(rest[len(markWord):], " \t")
	if quote == "" && rest != "" && strings.Contains(quotes, rest[:1]) {
		quote, rest = rest[:1], rest[1:]
	}
	path, length, raw := pathOf(rest, quote)
	raw += len(s) - len(rest)
	switch {
	case raw > maxMark || raw == len(s) && quote != "" && end:
		return 0, false
	case raw == len(s) && !end:
		return 0, true
	}
	path = strings.TrimPrefix(path, "file://")
	if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
		return 0, false
	}
	n = len(s) - len(rest) + length
	if m.prev == 0 || m.prev == '\n' { // the line goes with the mark that is alone on it
		if n == len(s) && !end {
			return 0, true
		}
		if n < len(s) && s[n] == '\n' {
			n++
		}
	}
	m.file(path)
	return n, false
}

// pathOf reads a path up to the closing quote, or up to white space and without the punctuation before that. length is what
// it takes of s, raw how far one had to look: up to the end of s, if the end of the path has not come.
func pathOf(s, quote string) (path string, length, raw int) {
	if quote != "" {
		i := strings.IndexAny(s, quote+"\n")
		switch {
		case i < 0:
			return s, len(s), len(s)
		case s[i] == '\n':
			return "", 0, i
		}
		return s[:i], i + 1, i
	}
	if raw = strings.IndexFunc(s, unicode.IsSpace); raw < 0 {
		raw = len(s)
	}
	path = strings.TrimRight(s[:raw], ".,;:!?)]}>*"+quotes)
	return path, len(path), raw
}

const dataURL = "data:image/"

// imageMark looks for ![alt](data:image/ and leaves the rest to inlined.
func (m *marks) imageMark(s string) (n int, more bool) {
	if len(s) < 2 {
		return 0, true
	}
	if s[1] != '[' {
		return 0, false
	}
	i := strings.IndexAny(s, "]\n")
	if i < 0 {
		return 0, len(s) <= maxAlt
	}
	rest := s[i:]
	const open = "](" + dataURL
	if i > maxAlt || !strings.HasPrefix(rest, open) {
		return 0, i <= maxAlt && strings.HasPrefix(open, rest)
	}
	m.data.WriteString(dataURL)
	m.begun = true
	return i + len(open), false
}
