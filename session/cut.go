package session

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// cutAll appends to dst the parts of text for frames of at most limit characters: len is chunk.total (spec 7). The parts
// share the memory of text and joined give it back. An empty text has no part.
func cutAll(dst []string, text string, limit int) []string {
	for text != "" {
		n := cut(text, limit)
		dst = append(dst, text[:n])
		text = text[n:]
	}
	return dst
}

// cut returns the length in bytes of the first part of text for a frame of at most limit (>= 1) characters: all of it
// when it fits. Bytes that are no UTF-8 count as utf8.DecodeRune reads them. What cut leaves may be cut in its turn.
//
// "The cut falls on the last paragraph end in the last fifth of the limit, else the last line end there, else the last
// word end there, else at the last boundary of a grapheme cluster; only a cluster longer than the limit is cut between
// characters." (spec 7) After a line end there is always a boundary, and whether there is one after other white space
// depends on the next character alone; so only a text without any of them is segmented, and from nearby.
func cut(text string, limit int) int {
	from, to := lastFifth(text, max(limit, 1))
	if to == len(text) {
		return to
	}
	if p := breakIn(text, from, to); p > 0 {
		return p
	}
	return clusterEnd(text, to)
}

// settled returns how much of a text that still grows a later cut leaves in its place: what an edit shows beyond it might
// have to vanish from the message again when the cut falls. limit as for cut, chars is the length of text in characters.
func settled(text string, chars, limit int) int {
	if chars <= limit*4/5 {
		return len(text)
	}
	from := len(text)
	for range chars - limit*4/5 {
		_, n := utf8.DecodeLastRuneInString(text[:from])
		from -= n
	}
	_, n := utf8.DecodeLastRuneInString(text)
	to := len(text) - n // what follows the last character is not known yet
	if p := breakIn(text, from, to); p > 0 {
		return p
	}
	return clusterEnd(text, to)
}

// breakIn returns the best place for a cut behind from and not behind to that is the end of a paragraph, else of a line,
// else of a word; 0 where there is none.
func breakIn(text string, from, to int) int {
	line, word := 0, 0
	next := spaceCluster(text[to:]) > 0 // white space comes after p
	for p, n := to, 0; p > from; p -= n {
		r := rune(text[p-1])
		if n = 1; r >= utf8.RuneSelf {
			r, n = utf8.DecodeLastRuneInString(text[:p])
		}
		if !unicode.IsSpace(r) {
			next = false
			continue
		}
		gap := spaceCluster(text[p-n:])
		switch {
		case gap != n: // no boundary at p
		case endsParagraph(text[:p-n], r):
			return p
		case line == 0 && endsLine(r):
			line = p
		case word == 0 && !next: // the white space stays with the part before
			word = p
		}
		next = gap > 0
	}
	if line > 0 {
		return line
	}
	return word
}

// lastFifth returns where the last fifth of the first limit characters begins and ends, in bytes: a cut lies behind
// from, and not behind to.
func lastFifth(text string, limit int) (from, to int) {
	if len(text) <= limit {
		return 0, len(text)
	}
	n, fifth := 0, limit*4/5
	for i := range text {
		switch n {
		case limit:
			return from, i
		case fifth:
			from = i
		}
		n++
	}
	return from, len(text)
}

// spaceCluster returns the length of the white space that s begins with when it is a grapheme cluster of its own, else
// 0: with a combining mark it is a character that one sees.
func spaceCluster(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case !unicode.IsSpace(r):
		return 0
	case r == '\r' && strings.HasPrefix(s[n:], "\n"):
		return n + 1
	}
	if after, _ := utf8.DecodeRuneInString(s[n:]); plain(after) { // or nothing
		return n
	}
	g := graphemes.FromString(s[:min(n+utf8.UTFMax, len(s))])
	if g.Next(); g.End() != n {
		return 0
	}
	return n
}

func endsLine(r rune) bool {
	switch r {
	case '\n', '\r', '\u0085', '\u2028', '\u2029':
		return true
	}
	return false
}

// endsParagraph says whether r ends a paragraph: it is the end of a blank line. before is the text up to r.
func endsParagraph(before string, r rune) bool {
	if !endsLine(r) || r == '\u2029' {
		return r == '\u2029'
	}
	if r == '\n' {
		before = strings.TrimSuffix(before, "\r")
	}
	before = strings.TrimRightFunc(before, func(r rune) bool { return unicode.IsSpace(r) && !endsLine(r) })
	last, _ := utf8.DecodeLastRuneInString(before)
	return endsLine(last)
}

// clusterEnd returns the last boundary of a grapheme cluster in text that is not behind to; where there is none, to.
func clusterEnd(text string, to int) int {
	from := to
	for from > 0 && !apart(text, from) {
		_, n := utf8.DecodeLastRuneInString(text[:from])
		from -= n
	}
	end := from
	g := graphemes.FromString(text[from:min(to+utf8.UTFMax, len(text))]) // with the character after to
	for end < to && g.Next() && from+g.End() <= to {
		end = from + g.End()
	}
	if end > 0 {
		return end
	}
	// Half a flag would make a pair with the half of the next one, and so would all flags after it.
	last, n := utf8.DecodeLastRuneInString(text[:to])
	if after, _ := utf8.DecodeRuneInString(text[to:]); halfFlag(last) && halfFlag(after) && n < to {
		return to - n
	}
	return to
}

// apart says whether two characters meet at p that never share a cluster, whatever is around them. It may miss some.
func apart(text string, p int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:p])
	after, _ := utf8.DecodeRuneInString(text[p:])
	return plain(before) && plain(after) && !(before == '\r' && after == '\n')
}

// plain says that UAX 29 has no rule by which two such characters join (but "\r\n"): ASCII, the common part of the
// letters of Europe and East Asia, and a byte that is no UTF-8.
func plain(r rune) bool {
	switch {
	case r < 0x80, r == utf8.RuneError, r >= 0xc0 && r < 0x300, r >= 0x370 && r < 0x483, r >= 0x48a && r < 0x530:
		return true
	}
	return r >= 0x3040 && r < 0x3099 || r >= 0x30a0 && r < 0x3100 || r >= 0x4e00 && r < 0xa000
}

// halfFlag says whether r is half of a flag.
func halfFlag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }
