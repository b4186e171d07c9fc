package transcript

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
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
	}
	return "", fmt.Errorf("$(%s) is not understood", call)
}
