package session

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/stretchr/testify/require"
)

const familyEmoji = "👩‍👩‍👧‍👦" // 7 characters, one cluster

func TestCut(t *testing.T) {
	x := strings.Repeat
	for _, c := range []struct {
		name  string
		text  string
		limit int
		want  []string
	}{
		{"nothing", "", 3500, nil},
		{"short", "hello", 3500, []string{"hello"}},
		{"fits to the last character", x("я", 3500), 3500, []string{x("я", 3500)}},
		{"no white space", x("z", 7500), 3500, []string{x("z", 3500), x("z", 3500), x("z", 500)}},
		{"a word end", x("a", 3000) + " " + x("b", 1000), 3500, []string{x("a", 3000) + " ", x("b", 1000)}},
		{"a word end before the last fifth", x("a", 2000) + " " + x("b", 3000), 3500,
			[]string{x("a", 2000) + " " + x("b", 1499), x("b", 1501)}},
		{"a cut at 2800 is before the last fifth", x("a", 2799) + " " + x("b", 701), 3500,
			[]string{x("a", 2799) + " " + x("b", 700), "b"}},
		{"a cut at 2801 is in it", x("a", 2800) + " " + x("b", 700), 3500, []string{x("a", 2800) + " ", x("b", 700)}},
		{"the limit ends the last fifth", x("a", 3499) + " b", 3500, []string{x("a", 3499) + " ", "b"}},
		{"white space begins behind the limit", x("a", 3500) + " b", 3500, []string{x("a", 3500), " b"}},
		{"a family at the limit", x("a", 3498) + familyEmoji + x("b", 100), 3500,
			[]string{x("a", 3498), familyEmoji + x("b", 100)}},
		{"families", x(familyEmoji, 600), 3500, []string{x(familyEmoji, 500), x(familyEmoji, 100)}},
		{"families, not a divisor", "a" + x(familyEmoji, 600), 3500, []string{"a" + x(familyEmoji, 499), x(familyEmoji, 101)}},
		{"a combining mark", x("a", 3499) + "e\u0301" + x("b", 50), 3500,
			[]string{x("a", 3499), "e\u0301" + x("b", 50)}},
		{"flags", "a" + x("🇷🇺", 1760), 3500, []string{"a" + x("🇷🇺", 1749), x("🇷🇺", 11)}},
		{"CR LF", x("a", 3499) + "\r\n" + x("b", 50), 3500, []string{x("a", 3499), "\r\n" + x("b", 50)}},
		{"a paragraph end before the last fifth", "aaaaaaaaaaa\n\nb\nc d eeeee", 20, []string{"aaaaaaaaaaa\n\nb\nc d ", "eeeee"}},
		{"a paragraph end in the last fifth", x("a", 90) + "\n\nb\nc d eeeeee", 100, []string{x("a", 90) + "\n\n", "b\nc d eeeeee"}},
		{"the last paragraph end", x("a", 85) + "\n\nb\r\n\r\nccccccccc", 100, []string{x("a", 85) + "\n\nb\r\n\r\n", x("c", 9)}},
		{"a blank line of spaces", x("a", 85) + "\n \t \nb\nc d eeeeee", 100, []string{x("a", 85) + "\n \t \n", "b\nc d eeeeee"}},
		{"a line end", x("a", 90) + "\n b c eeeeeee", 100, []string{x("a", 90) + "\n", " b c eeeeeee"}},
		{"a line end of another kind", x("a", 90) + "\u2028b c eeeeeee", 100, []string{x("a", 90) + "\u2028", "b c eeeeeee"}},
		{"a paragraph separator", x("a", 90) + "\u2029b\nc eeeeeee", 100, []string{x("a", 90) + "\u2029", "b\nc eeeeeee"}},
		{"all white space stays before", x("a", 90) + " \t\u3000 " + x("b", 90), 100, []string{x("a", 90) + " \t\u3000 ", x("b", 90)}},
		{"white space across the limit", x("a", 85) + " " + x("b", 12) + "    " + x("c", 9), 100,
			[]string{x("a", 85) + " ", x("b", 12) + "    " + x("c", 9)}},
		{"white space across the limit that ends the text", x("a", 85) + " " + x("b", 13) + "  ", 100,
			[]string{x("a", 85) + " ", x("b", 13) + "  "}},
		{"only white space", x(" ", 150), 100, []string{x(" ", 100), x(" ", 50)}},
		{"a space with a mark is no white space", x("a", 90) + " \u0301" + x("b", 50), 100,
			[]string{x("a", 90) + " \u0301" + x("b", 8), x("b", 42)}},
		{"white space before such a space", x("a", 90) + "  \u0301" + x("b", 50), 100,
			[]string{x("a", 90) + " ", " \u0301" + x("b", 50)}},
		{"a mark after a line end stands alone", x("a", 90) + "\n\u0301" + x("b", 50), 100,
			[]string{x("a", 90) + "\n", "\u0301" + x("b", 50)}},
		{"a cluster longer than the limit", "a" + x("\u0301", 25), 10,
			[]string{"a" + x("\u0301", 9), x("\u0301", 10), x("\u0301", 6)}},
		{"the longer one begins later", "xyza" + x("\u0301", 12) + "b", 10,
			[]string{"xyz", "a" + x("\u0301", 9), x("\u0301", 3) + "b"}},
		{"half a flag", "\u0600\u0600🇷🇺🇫🇷", 3, []string{"\u0600\u0600", "🇷🇺", "🇫🇷"}},
		{"one character", "e\u0301🇷🇺", 1, []string{"e", "\u0301", "🇷", "🇺"}},
		{"no UTF-8", x("\xff", 12) + "\xe2\x82", 10, []string{x("\xff", 10), "\xff\xff\xe2\x82"}},
		{"a limit that is none", "ab", 0, []string{"a", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, cutAll(nil, c.text, c.limit)) })
	}
}

// clustersOf is text segmented from its beginning.
func clustersOf(text string) (all []string) {
	for g := graphemes.FromString(text); g.Next(); {
		all = append(all, g.Value())
	}
	return all
}

// naiveCut is the rule of spec 7 as it reads: every boundary is judged by all that stands before it.
func naiveCut(text string, limit int) int {
	if utf8.RuneCountInString(text) <= limit {
		return len(text)
	}
	all := clustersOf(text)
	white := func(c string) bool { return strings.TrimFunc(c, unicode.IsSpace) == "" }
	endsWhite := func(c string) bool { return strings.TrimRightFunc(c, unicode.IsSpace) != c }
	lineEnd := func(c string) bool {
		return slices.Contains([]string{"\n", "\r\n", "\r", "\u0085", "\u2028", "\u2029"}, c)
	}
	var paragraph, line, word, cluster int
	bytes, chars := 0, 0
	blank := false // this line has white space alone so far, and is not the first
	for i, c := range all {
		bytes, chars = bytes+len(c), chars+utf8.RuneCountInString(c)
		if chars > limit {
			break
		}
		if cluster = bytes; chars*5 > limit*4 {
			switch {
			case c == "\u2029", lineEnd(c) && blank:
				paragraph = bytes
			case lineEnd(c):
				line = bytes
			case endsWhite(c) && !white(all[i+1]):
				word = bytes
			}
		}
		blank = lineEnd(c) || blank && white(c)
	}
	for _, p := range []int{paragraph, line, word, cluster} {
		if p > 0 {
			return p
		}
	}
	r := []rune(text[:len(all[0])])
	if limit > 1 && halfFlag(r[limit-1]) && halfFlag(r[limit]) {
		limit--
	}
	for i := range text {
		if limit == 0 {
			return i
		}
		limit--
	}
	panic("not reached")
}

// checkCut compares cut with naiveCut all along text, and holds the parts against the promises of spec 7. A byte that is
// no UTF-8 is to be treated as U+FFFD.
func checkCut(t *testing.T, text string, limit int) {
	t.Helper()
	if !utf8.ValidString(text) {
		broken := text + "tail" // the segmenter reads on when a broken character ends a text
		text = string([]rune(broken))
		want, got := cutAll(nil, text, limit), cutAll(nil, broken, limit)
		require.Equal(t, broken, strings.Join(got, ""))
		for i := range got {
			got[i] = string([]rune(got[i]))
		}
		require.Equal(t, want, got, "of %q", broken)
	}
	parts := cutAll(nil, text, limit)
	require.Equal(t, text, strings.Join(parts, ""))

	boundary := make([]bool, len(text)+1) // of the whole text
	long := make([]bool, len(text)+1)     // inside a cluster longer than the limit
	at := 0
	for _, c := range clustersOf(text) {
		if utf8.RuneCountInString(c) > limit {
			for i := range c {
				long[at+i] = true
			}
		}
		at += len(c)
		boundary[at] = true
	}
	at = 0
	for _, part := range parts {
		n := utf8.RuneCountInString(part)
		require.True(t, n >= 1 && n <= limit, "%d characters in a part", n)
		require.Equal(t, naiveCut(text[at:], limit), len(part), "at byte %d of %q", at, text)
		at += len(part)
		require.True(t, boundary[at] || long[at], "byte %d of %q is inside a cluster", at, text)
	}
}

// cutPieces are what the rules of segmentation and of the cut tell apart.
var cutPieces = []string{
	"a", "word", "z", "я", "слово", "語", "ー", " ", " ", "\t", "\n", "\n\n", "\r", "\r\n", "\u0085", "\u2028", "\u2029", "\u3000",
	"\u00a0", "\u0301", "\u200d", "\u200b", "\u200c", "👩", familyEmoji, "🇷", "🇷🇺", "👍🏽", "❤️", "©", "\u0600", "\u0903", "क", "\u094d", "ि",
	"ᄀ", "ᅡ", "ᆨ", "가", "각", "\xff", "\xe2\x82", "\xf0\x9f", "\xed\xa0\x80", "\u0e33", "\U0001f3fb", "\ufffd",
}

func TestCutAgainstNaive(t *testing.T) {
	for range 3 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		for range 2_000 {
			few := make([]string, 1+rnd.IntN(6)) // a text of few kinds of cutPieces meets its corner cases more often
			for i := range few {
				few[i] = cutPieces[rnd.IntN(len(cutPieces))]
			}
			var b strings.Builder
			for range rnd.IntN(120) {
				b.WriteString(few[rnd.IntN(len(few))])
			}
			checkCut(t, b.String(), 1+rnd.IntN(60))
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add(strings.Join(cutPieces, ""), uint16(7))
	f.Add(strings.Join(cutPieces, " "), uint16(40))
	f.Add(strings.Repeat("word \u0301", 30), uint16(50))
	f.Add("\u0600\u0600🇷🇺🇫🇷", uint16(3))
	f.Fuzz(func(t *testing.T, text string, limit uint16) {
		checkCut(t, text[:min(len(text), 2_000)], 1+int(limit)%200) // naiveCut takes the square of the length
	})
}

// TestCutPlain holds every plain character against the segmenter: no rule makes two of them one cluster.
func TestCutPlain(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !plain(r) {
			continue
		}
		s := string(r) // U+FFFD for a byte that is no UTF-8
		require.Len(t, clustersOf(s+s), 2, "%U joins itself", r)
		require.Len(t, clustersOf("a"+s+"b"), 3, "%U joins a letter", r)
		require.Len(t, clustersOf("👩\u200d"+s), 2, "%U is pictographic", r)
		require.Len(t, clustersOf("क\u094d"+s), 2, "%U is a consonant of a conjunct", r)
	}
	require.Len(t, clustersOf("क\u094dक"), 1)
}

// mixedText has n characters of prose in several scripts, with and without blank lines.
func mixedText(n int) string {
	block := "A reply in plain English goes on for a while, line by line.\nИ по-русски тоже: слово за словом, до конца.\n\n" +
		"日本語の文章には空白がありません。 " + familyEmoji + " 🇷🇺 é e\u0301 हिन्दी में भी।\r\n"
	r := []rune(strings.Repeat(block, n/utf8.RuneCountInString(block)+1))
	return string(r[:n])
}

func TestCutDoesNotAllocate(t *testing.T) {
	dst := make([]string, 0, 128)
	for _, text := range []string{mixedText(20_000), strings.Repeat(familyEmoji, 2_000), strings.Repeat(" \u0301", 9_000)} {
		require.Zero(t, testing.AllocsPerRun(10, func() { dst = cutAll(dst[:0], text, 3500) }))
	}
}

// BenchmarkCut cuts texts of 200 000 characters.
func BenchmarkCut(b *testing.B) {
	const n = 200_000
	for _, c := range []struct{ name, text string }{
		{"mixed", mixedText(n)},
		{"english", strings.Repeat("some words ", n/11)},
		{"one word", strings.Repeat("z", n)},
		{"cyrillic", strings.Repeat("ещё слова ", n/10)},
		{"chinese", strings.Repeat("語", n)},
		{"families", strings.Repeat(familyEmoji, n/7)},
		{"marks", strings.Repeat("\u0301", n)},
		{"spaces with marks", strings.Repeat(" \u0301", n/2)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.text)))
			dst := make([]string, 0, 128)
			for b.Loop() {
				dst = cutAll(dst[:0], c.text, 3500)
			}
		})
	}
}
