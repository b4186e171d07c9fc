package hermes

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDownloads(t *testing.T) {
	var d Downloads
	add := func(want string, done bool, m Media) {
		t.Helper()
		content, is := d.Add(&m)
		require.Equal(t, done, is)
		require.Equal(t, want, string(content))
	}
	chunk := func(id string, part int, data string, size int, final bool) Media {
		return Media{ID: id, Part: part, Data: []byte(data), Size: size, Final: final}
	}
	add("one", true, chunk("1", 0, "one", 3, true))

	add("", false, chunk("2", 0, "ab", 5, false))
	add("other", true, chunk("3", 0, "other", 5, true)) // in between
	add("", false, chunk("2", 1, "cd", 5, false))
	add("abcde", true, chunk("2", 2, "e", 5, true))

	add("", false, chunk("4", 0, "lost", 8, false))
	add("", false, chunk("4", 0, "ab", 4, false)) // begun again
	add("abcd", true, chunk("4", 1, "cd", 4, true))

	add("", true, Media{ID: "5", URL: "https://h/f", Size: 9, Final: true})

	add("", false, chunk("6", 1, "b", 2, true)) // its beginning was lost
	add("", false, chunk("7", 0, "a", 3, false))
	add("", false, chunk("7", 2, "c", 3, true)) // a gap
	add("", false, chunk("8", 0, "ab", 3, true))
	add("", false, chunk("8", 0, "abcd", 3, true))
	add("", false, chunk("9", 0, "ab", 3, false))
	add("", false, chunk("9", 1, "cd", 3, true))
	add("", false, chunk("9", 0, "", -1, true))
	add("", false, chunk("9", 0, string(make([]byte, MaxMediaBytes+1)), MaxMediaBytes+1, true))
	require.Empty(t, d.open)

	for i := range maxDownloads {
		add("", false, chunk(strconv.Itoa(i), 0, "a", 2, false))
	}
	add("", false, chunk("one too many", 0, "a", 2, false))
	add("", false, chunk("one too many", 1, "b", 2, true))
	add("ab", true, chunk("0", 1, "b", 2, true))
	require.Len(t, d.open, maxDownloads-1)
}
