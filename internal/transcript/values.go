package transcript

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// expand puts in what $ stands for. A $ before anything else is itself, as in a regular expression.
func expand(s string, kept map[string]string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		s = after
		switch {
		case s == "":
			b.WriteByte('$')
		case s[0] == '$':
			b.WriteByte('$')
			s = s[1:]
		case s[0] == '(':
			call, rest, ok := strings.Cut(s[1:], ")")
			if !ok {
				return "", fmt.Errorf("$( has no end")
			}
			text, err := generate(call)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
			s = rest
		default:
			name, rest := nameAt(s)
			if name == "" {
				b.WriteByte('$')
				continue
			}
			text, ok := kept[name]
			if !ok {
				return "", fmt.Errorf("$%s was never kept", name)
			}
			b.WriteString(text)
			s = rest
		}
	}
}

func nameAt(s string) (name, rest string) {
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		name, rest, _ = strings.Cut(inner, "}")
		return name, rest
	}
	n := 0
	for n < len(s) && ('a' <= s[n] && s[n] <= 'z' || n > 0 && '0' <= s[n] && s[n] <= '9') {
		n++
	}
	return s[:n], s[n:]
}

func generate(call string) (string, error) {
	verb, arg, _ := strings.Cut(call, " ")
	switch verb {
	case "x":
		count, text, _ := strings.Cut(arg, " ")
		n, err := strconv.Atoi(count)
		if err != nil || n < 0 {
			return "", fmt.Errorf("$(%s): how often?", call)
		}
		return strings.Repeat(text, n), nil
	case "hex":
		b, err := hex.DecodeString(arg)
		return string(b), err
	case "base64":
		return contents.base64(arg)
	case "sha256":
		b, err := content(arg)
		return fmt.Sprintf("%x", sha256.Sum256(b)), err
	}
	return "", fmt.Errorf("$(%s) is not understood", call)
}

// Content is the beginning of the endless content, so many bytes of it: each is a function of its offset alone.
type Content int64

// ReadAt implements io.ReaderAt.
func (size Content) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	if left := max(int64(size)-off, 0); left < int64(len(p)) {
		p, err = p[:left], io.EOF
	}
	for n < len(p) {
		at := uint64(off) + uint64(n)
		word := at/8*0x9e3779b97f4a7c15 + 1
		word = (word ^ word>>29) * 0xbf58476d1ce4e5b9
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], word^word>>32)
		n += copy(p[n:], b[at%8:])
	}
	return n, err
}

// Close implements io.Closer.
func (Content) Close() error { return nil }

// encoded keeps what was encoded last: transcripts send and hear the same again and again.
type encoded struct {
	mu   sync.Mutex
	text map[string]string // by "N..M"
}

var contents encoded

const maxEncoded = 8

func (e *encoded) base64(span string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if text, ok := e.text[span]; ok {
		return text, nil
	}
	b, err := content(span)
	if err != nil {
		return "", err
	}
	if e.text == nil || len(e.text) >= maxEncoded {
		e.text = map[string]string{}
	}
	e.text[span] = base64.StdEncoding.EncodeToString(b)
	return e.text[span], nil
}

// content reads "N..M" and gives these bytes of the endless content.
func content(s string) ([]byte, error) {
	from, to, err := span(s)
	if err != nil || from < 0 || from > to || !strings.Contains(s, "..") {
		return nil, fmt.Errorf("%s: which bytes?", s)
	}
	b := make([]byte, to-from)
	Content(to).ReadAt(b, int64(from))
	return b, nil
}
