package hermes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cuts takes text apart in every way into up to three pieces, and one by one.
func cuts(text string, f func(pieces ...string)) {
	for i := range len(text) + 1 {
		for j := i; j <= len(text); j++ {
			f(text[:i], text[i:j], text[j:])
		}
	}
	f(strings.Split(text, "")...)
}

func TestMarks(t *testing.T) {
	const png = "data:image/png;base64,iVBORw0KGgo="
	for _, c := range []struct {
		text, want string
		found      []string
	}{
		{"no mark", "no mark", nil},
		{"MEDIA:/a/b.png", "", []string{"/a/b.png"}},
		{"Here: MEDIA:/a/b.png and more", "Here:  and more", []string{"/a/b.png"}},
		{"Here:\nMEDIA:/a/b.png\nDone.", "Here:\nDone.", []string{"/a/b.png"}},
		{"MEDIA:/a.png\nMEDIA:/b.png\n\nDone.", "\nDone.", []string{"/a.png", "/b.png"}},
		{"MEDIA: /a/b.png", "", []string{"/a/b.png"}},
		{"see (MEDIA:/a/b.png).", "see ().", []string{"/a/b.png"}},
		{"see MEDIA:/a/b.tar.gz, MEDIA:/c!", "see , !", []string{"/a/b.tar.gz", "/c"}},
		{"`MEDIA:/a/b.png`", "", []string{"/a/b.png"}},
		{"MEDIA:`/a b/c.png` x", " x", []string{"/a b/c.png"}},
		{`MEDIA:"/a b/c.png". x`, ". x", []string{"/a b/c.png"}},
		{`"MEDIA:/a b/c.png" x`, " x", []string{"/a b/c.png"}},
		{"MEDIA:'/it is/c.png'", "", []string{"/it is/c.png"}},
		{"MEDIA:file:///a/b.png x", " x", []string{"/a/b.png"}},
		{"MEDIA:~/b.png x", " x", []string{"~/b.png"}},
		{"the MULTIMEDIA:/a.png", "the MULTIMEDIA:/a.png", nil},
		{"SOCIAL MEDIA: it is", "SOCIAL MEDIA: it is", nil},
		{"MEDIA:relative.png", "MEDIA:relative.png", nil},
		{"MEDIA:https://example.org/a.png", "MEDIA:https://example.org/a.png", nil},
		{"MEDIA:", "MEDIA:", nil},
		{"MEDI", "MEDI", nil},
		{"it's `code` and \"MEDIA:/never closed", "it's `code` and \" closed", []string{"/never"}},
		{"\"MEDIA:/a\nb\"", "\"\nb\"", []string{"/a"}},
		{"x MEDIA:/я/ф.png я", "x  я", []string{"/я/ф.png"}},
		{"![a cat](" + png + ") miau", " miau", []string{png}},
		{"![](" + png + ")![x](" + png + ")", "", []string{png, png}},
		{"![a](http://x/a.png)", "![a](http://x/a.png)", nil},
		{"![a](data:text/plain;base64,AAAA)", "![a](data:text/plain;base64,AAAA)", nil},
		{"![never closed](" + png, "", nil},
		{"wow! ![not an image", "wow! ![not an image", nil},
		{"a!", "a!", nil},
	} {
		cuts(c.text, func(pieces ...string) {
			var found []string
			m := marks{file: func(p string) { found = append(found, p) }, image: func(u string) { found = append(found, u) }}
			var out strings.Builder
			for _, p := range pieces {
				out.WriteString(m.take(p))
			}
			out.WriteString(m.end())
			require.Equal(t, c.want, out.String(), "%q", pieces)
			require.Equal(t, c.found, found, "%q", pieces)
		})
	}
}

// TestMarksAreBounded: what is too long for a mark is text, however it comes, and nothing is held back for longer.
func TestMarksAreBounded(t *testing.T) {
	for n := maxMark - 9; n < maxMark+3; n++ {
		for _, text := range []string{
			"MEDIA:/" + strings.Repeat("a", n) + " b", "\"MEDIA:/" + strings.Repeat("a", n) + "\" b", "MEDIA:/" + strings.Repeat("a.", n/2) + "... b",
			"![" + strings.Repeat("a", maxAlt-maxMark+n) + "](data:image/png;base64,AAAA) b",
		} {
			var want string
			for _, size := range []int{len(text), 5, 1000} {
				m := marks{file: func(string) {}, image: func(string) {}}
				var out strings.Builder
				for rest := text; rest != ""; {
					piece := rest[:min(size, len(rest))]
					rest = rest[len(piece):]
					out.WriteString(m.take(piece))
					require.LessOrEqual(t, len(m.held), maxMark+1)
				}
				out.WriteString(m.end())
				if want == "" {
					want = out.String()
				}
				require.Equal(t, want, out.String(), "in pieces of %d", size)
			}
		}
	}
}

func FuzzMarks(f *testing.F) {
	f.Add("x `MEDIA:/a b.png` ![a](data:image/png;base64,AAAA) y", 3)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = max(1, min(size, 100))
		run := func(size int) (out string, found []string) {
			m := marks{file: func(p string) { found = append(found, p) }, image: func(u string) { found = append(found, u) }}
			for text := text; text != ""; {
				n := min(size, len(text))
				out += m.take(text[:n])
				text = text[n:]
			}
			return out + m.end(), found
		}
		whole, files := run(len(text) + 1)
		pieces, found := run(size)
		require.Equal(t, whole, pieces)
		require.Equal(t, files, found)
	})
}
