package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// long is from how many bytes on the data of a file is not read as JSON: that would take most of a test's time.
const long = 64 << 10

// decode reads JSON, and keeps numbers as they are written.
func decode(b []byte) (v any, err error) {
	const name = `"data":"`
	if at := bytes.Index(b, []byte(name)); at >= 0 && len(b) > long {
		at += len(name)
		n := bytes.IndexByte(b[at:], '"')
		if n > 0 && bytes.IndexByte(b[at:at+n], '\\') < 0 {
			v, err = decode(slices.Concat(b[:at], b[at+n:]))
			if object, ok := v.(map[string]any); ok && object["data"] == "" {
				object["data"] = string(b[at : at+n])
				return v, err
			}
		}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err = d.Decode(&v); err == nil && d.More() {
		err = errors.New("something stands behind the JSON")
	}
	return v, err
}

// match holds got against want; at says where in the frame. What "?NAME" finds goes into kept.
func match(at string, want, got any, kept map[string]string) error {
	switch want := want.(type) {
	case map[string]any:
		return matchObject(at, want, got, kept)
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("%s: want %d elements, got %s", at, len(want), show(got))
		}
		for i := range want {
			if err := match(fmt.Sprintf("%s[%d]", at, i), want[i], list[i], kept); err != nil {
				return err
			}
		}
		return nil
	case string:
		return matchString(at, want, got, kept)
	}
	if want != got { // number, boolean, null
		return fmt.Errorf("%s: want %s, got %s", at, show(want), show(got))
	}
	return nil
}

func matchObject(at string, want map[string]any, got any, kept map[string]string) error {
	object, ok := got.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: want an object, got %s", at, show(got))
	}
	for name, w := range want {
		g, there := object[name]
		switch {
		case w == "!":
			if there && g != nil {
				return fmt.Errorf("%s.%s: want none, got %s", at, name, show(g))
			}
		case !there:
			return fmt.Errorf("%s.%s is missing", at, name)
		default:
			if err := match(at+"."+name, w, g, kept); err != nil {
				return err
			}
		}
	}
	return nil
}

func matchString(at, want string, got any, kept map[string]string) error {
	if want == "*" {
		return nil
	}
	text, ok := got.(string)
	if !ok {
		return fmt.Errorf("%s: want %s, got %s", at, show(want), show(got))
	}
	good := text == want
	if want != "" {
		switch arg := want[1:]; want[0] {
		case '~':
			re, err := regexp.Compile(arg)
			if err != nil {
				return err
			}
			good = re.MatchString(text)
		case '?':
			kept[arg] = text
			good = arg != ""
		case '#':
			from, to, err := span(arg)
			if err != nil {
				return err
			}
			n := utf8.RuneCountInString(text)
			good = from <= n && n <= to
		case '=':
			good = text == arg
		case '@':
			want, err := contents.base64(arg)
			if err != nil {
				return err
			}
			good = text == want
		}
	}
	if !good {
		return fmt.Errorf("%s: want %s, got %s", at, show(want), show(got))
	}
	return nil
}

// span reads N or N..M.
func span(s string) (from, to int, err error) {
	low, high, ok := strings.Cut(s, "..")
	if !ok {
		high = low
	}
	from, err = strconv.Atoi(low)
	if err == nil {
		to, err = strconv.Atoi(high)
	}
	return from, to, err
}

// show is a value for a person, not too long.
func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return short(string(b))
}

func short(s string) string {
	if len(s) <= 400 {
		return s
	}
	return fmt.Sprintf("%s … (%d bytes)", strings.ToValidUTF8(s[:300], ""), len(s))
}
