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
	chunk := func(id string, part, parts int, data string, size int) Media {
		return Media{ID: id, Part: part, Parts: parts, Data: []byte(data), Size: size}
	}
	add("one", true, chunk("1", 0, 1, "one", 3))

	add("", false, chunk("2", 0, 3, "ab", 5))
	add("other", true, chunk("3", 0, 1, "other", 5)) // in between
	add("", false, chunk("2", 2, 3, "e", 5))
	add("", false, chunk("2", 2, 3, "e", 5)) // twice
	add("abcde", true, chunk("2", 1, 3, "cd", 5))

	add("", false, chunk("4", 0, 3, "lost", 8))
	add("", false, chunk("4", 0, 2, "lost", 4)) // begun again
	add("", false, chunk("4", 0, 2, "ab", 4))
	add("abcd", true, chunk("4", 1, 2, "cd", 4))

	add("", true, Media{ID: "5", URL: "https://h/f", Size: 9, Parts: 2})

	for _, m := range []Media{
		chunk("6", -1, 2, "a", 2), chunk("6", 2, 2, "a", 2), chunk("6", 0, 0, "a", 2), chunk("6", 0, -1, "a", 2),
		chunk("6", 0, maxParts+1, "a", 2),
		chunk("7", 0, 2, "abcd", 3), // longer than it said
		chunk("8", 0, 2, string(make([]byte, MaxMediaBytes+1)), MaxMediaBytes+2),
	} {
		add("", false, m)
	}
	add("", false, chunk("9", 0, 2, "ab", 5))
	add("", false, chunk("9", 1, 2, "cd", 5)) // shorter
	add("", false, chunk("9", 0, 2, string(make([]byte, MaxMediaBytes)), MaxMediaBytes+1))
	add("", false, chunk("9", 1, 2, "a", MaxMediaBytes+1))
	require.Empty(t, d.open)

	for i := range maxDownloads {
		add("", false, chunk(strconv.Itoa(i), 0, 2, "a", 2))
	}
	add("", false, chunk("one too many", 0, 2, "a", 2))
	add("", false, chunk("one too many", 1, 2, "b", 2))
	add("ab", true, chunk("0", 1, 2, "b", 2))
	require.Len(t, d.open, maxDownloads-1)
}
