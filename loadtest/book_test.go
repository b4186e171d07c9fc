package loadtest

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTexts(t *testing.T) {
	seen := map[string]bool{}
	for device := range 20 {
		for seq := range uint32(50) {
			m := mark{"0123abcd", device, seq}
			text := appendText(nil, m, 7, 40, 600)
			require.Equal(t, text, appendText(nil, m, 7, 40, 600), "the same every time")
			require.True(t, utf8.Valid(text))
			require.LessOrEqual(t, len(text), 600)
			require.GreaterOrEqual(t, len(text), 40-3)
			run, of, number, ok := parseMark(text)
			require.True(t, ok)
			require.Equal(t, m, mark{string(run), of, number})
			quoted, err := json.Marshal(string(text))
			require.NoError(t, err)
			require.Equal(t, `"`+string(text)+`"`, string(quoted), "no escape is needed")
			seen[string(text[20:])] = true
		}
	}
	require.Greater(t, len(seen), 900, "texts differ in more than their mark")
	require.NotEqual(t, appendText(nil, mark{"0123abcd", 1, 1}, 7, 300, 300), appendText(nil, mark{"0123abcd", 1, 1}, 8, 300, 300))
	long := appendText(nil, mark{"0123abcd", 1<<31 - 1, 1<<32 - 1}, 7, 40_000, 40_000)
	require.InDelta(t, 40_000, len(long), 3)
	require.LessOrEqual(t, len(appendMark(nil, mark{"0123abcd", 1<<31 - 1, 1<<32 - 1})), minText)
}

func TestParseMark(t *testing.T) {
	for _, bad := range []string{"", "0123abcd", "0123abcd 1", "0123abcd 1 2", "0123abcd  2 ", "0123abcd x 2 ", "0123abcd 1 99999999999 ", "0123abcd 1 4294967296 ", "hello world, how are you"} {
		_, _, _, ok := parseMark([]byte(bad))
		require.False(t, ok, bad)
	}
}
