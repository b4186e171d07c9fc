package media

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// b64 is the bytes from..to of one content that all tests of uploads share.
func b64(from, to int) string { return base64.StdEncoding.EncodeToString(content[from:to]) }

var content = random(eight+1, 7)

// step is one frame and what comes of it: a size when it completes a file, or an error.
type step struct {
	id, kind    string
	part, parts int
	data        string
	size        int
	err         error
}

// The rules of spec 6, one line of frames each. Behind it: the ids that are still open.
func TestRules(t *testing.T) {
	eightOpen := func(more ...step) (all []step) {
		for i := range 8 {
			all = append(all, step{fmt.Sprint("u", i), "image", 0, 2, b64(0, 10), 0, nil})
		}
		return append(all, more...)
	}
	eightIDs := "u0 u1 u2 u3 u4 u5 u6 u7"
	for _, c := range []struct {
		name, open string
		steps      []step
	}{
		{"one part is complete at once", "", []step{{"1", "image", 0, 1, b64(0, 10), 10, nil}}},
		{"two parts", "", []step{{"1", "image", 0, 2, b64(0, 10), 0, nil}, {"1", "image", 1, 2, b64(10, 30), 30, nil}}},
		{"any order", "", []step{
			{"1", "image", 2, 3, b64(20, 30), 0, nil}, {"1", "image", 0, 3, b64(0, 10), 0, nil}, {"1", "image", 1, 3, b64(10, 20), 30, nil},
		}},
		{"the same part again replaces", "", []step{
			{"1", "image", 0, 2, b64(50, 999), 0, nil}, {"1", "image", 0, 2, b64(0, 10), 0, nil}, {"1", "image", 1, 2, b64(10, 20), 20, nil},
		}},
		{"what is replaced counts no more", "", []step{
			{"1", "image", 0, 2, b64(0, 8_000_000), 0, nil}, {"1", "image", 0, 2, b64(0, 8_000_001), 0, nil},
			{"1", "image", 0, 2, b64(0, 10), 0, nil}, {"1", "image", 1, 2, b64(10, 8_000_000), 8_000_000, nil},
		}},
		{"another kind drops", "", []step{{"1", "image", 0, 2, b64(0, 10), 0, nil}, {"1", "video", 1, 2, b64(10, 20), 0, ErrDisagrees}}},
		{"other parts drop", "", []step{{"1", "image", 0, 2, b64(0, 10), 0, nil}, {"1", "image", 1, 3, b64(10, 20), 0, ErrDisagrees}}},
		{"one part of an open upload drops it", "", []step{{"1", "image", 0, 2, b64(0, 10), 0, nil}, {"1", "image", 0, 1, b64(0, 10), 0, ErrDisagrees}}},
		{"it disagrees before its data is looked at", "", []step{{"1", "image", 0, 2, b64(0, 10), 0, nil}, {"1", "video", 1, 2, "*", 0, ErrDisagrees}}},
		{"bad data is not kept, the upload stays", "", []step{
			{"1", "image", 0, 2, b64(0, 10), 0, nil}, {"1", "image", 1, 2, "", 0, ErrEmpty}, {"1", "image", 1, 2, "###", 0, ErrBase64},
			{"1", "image", 0, 2, "#", 0, ErrBase64}, {"1", "image", 1, 2, b64(10, 20), 20, nil},
		}},
		{"bad data opens nothing", "", []step{{"1", "image", 0, 2, "", 0, ErrEmpty}, {"1", "image", 0, 2, "A", 0, ErrBase64}}},
		{"a ninth upload, and the eight stay", eightIDs, eightOpen(step{"u8", "image", 0, 2, b64(0, 10), 0, ErrOpen})},
		{"bad data comes before the ninth upload", eightIDs, eightOpen(step{"u8", "image", 0, 2, "*", 0, ErrBase64}, step{"u8", "image", 0, 2, "", 0, ErrEmpty})},
		{"one part is no open upload", eightIDs, eightOpen(step{"u8", "image", 0, 1, b64(0, 30), 30, nil})},
		{"a complete one and a dropped one free their places", "u2 u3 u4 u5 u6 u7 u8 u9", eightOpen(
			step{"u0", "image", 1, 2, b64(10, 20), 20, nil}, step{"u1", "video", 1, 2, b64(10, 20), 0, ErrDisagrees},
			step{"u8", "image", 0, 2, b64(0, 10), 0, nil}, step{"u9", "image", 0, 2, b64(0, 10), 0, nil}, step{"u10", "image", 0, 2, b64(0, 10), 0, ErrOpen},
		)},
		{"the sum drops the upload that lifts it", "keep", []step{
			{"keep", "image", 0, 2, b64(0, 10), 0, nil}, {"big", "video", 0, 2, b64(0, 8_000_000), 0, nil},
			{"big", "video", 1, 2, b64(0, 400_000), 0, ErrSum},
		}},
		{"the sum of two", "a b", []step{
			{"a", "video", 0, 2, b64(0, 4<<20), 0, nil}, {"b", "video", 0, 2, b64(0, 4<<20), 0, nil}, {"c", "video", 0, 2, "AQ==", 0, ErrSum},
		}},
		{"a file over 8 MiB", "", []step{{"1", "video", 0, 2, b64(0, eight), 0, nil}, {"1", "video", 1, 2, "AQ==", 0, ErrTooBig}}},
		{"a file of 8 MiB", "", []step{{"1", "video", 0, 2, b64(0, eight-1), 0, nil}, {"1", "video", 1, 2, b64(eight-1, eight), eight, nil}}},
		{"8 MiB in one part beside open ones", "a", []step{{"a", "video", 0, 2, b64(0, eight), 0, nil}, {"b", "video", 0, 1, b64(0, eight), eight, nil}}},
		{"one part over 8 MiB", "", []step{{"1", "video", 0, 1, b64(0, eight+1), 0, ErrTooBig}}},
		{"a first part over 8 MiB opens nothing", "", []step{{"1", "video", 0, 2, b64(0, eight+1), 0, ErrTooBig}}},
		{"part and parts have bounds", "1", []step{
			{"1", "image", 2047, 2048, "AQ==", 0, nil}, {"1", "image", 2048, 2048, "AQ==", 0, ErrPart}, {"1", "image", -1, 2048, "AQ==", 0, ErrPart},
			{"1", "image", 0, 2049, "AQ==", 0, ErrPart}, {"1", "image", 0, 0, "AQ==", 0, ErrPart}, {"1", "image", 0, -3, "AQ==", 0, ErrPart},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			budget := NewBudget(64 << 20)
			u := Uploads{Budget: budget}
			for i, s := range c.steps {
				f, err := u.Add(&Part{ID: s.id, Kind: s.kind, Part: s.part, Parts: s.parts, Data: s.data}, 0)
				require.ErrorIs(t, err, s.err, "step %d", i)
				require.Equal(t, s.size > 0, f != nil, "step %d", i)
				if f != nil {
					require.True(t, bytes.Equal(content[:s.size], contentOf(f)), "step %d", i)
					require.Equal(t, s.id+s.kind, f.ID+f.Kind)
					f.Release()
				}
			}
			var open []string
			for _, up := range u.open {
				open = append(open, up.ID)
				require.True(t, u.Has(up.ID))
			}
			require.Equal(t, c.open, strings.Join(open, " "))
			require.Equal(t, len(open) == 0, u.Empty())
			u.Free()
			require.Zero(t, budget.Used())
			require.Equal(t, Uploads{Budget: budget}, u)
		})
	}
}

// Many parts of several slabs each, the last one first.
func TestManyLargeParts(t *testing.T) {
	const parts, each = 20, 2*slabFill + 1000
	var u Uploads
	for part := parts - 1; part >= 0; part-- {
		f, err := u.Add(&Part{ID: "1", Kind: "video", Part: part, Parts: parts, Data: b64(part*each, (part+1)*each)}, 0)
		require.NoError(t, err)
		if part == 0 {
			require.True(t, bytes.Equal(content[:parts*each], contentOf(f)))
		}
	}
}

func TestFirstPartFixesTheRest(t *testing.T) {
	frame := []byte("1 image image/gif first.gif caption-1")
	word := func(from, to int) string { return unsafe.String(&frame[from], to-from) }
	var u Uploads
	_, err := u.Add(&Part{ID: word(0, 1), Kind: word(2, 7), Mime: word(8, 17), Filename: word(18, 27), Caption: word(28, 37), Part: 1, Parts: 2, Data: "Ag=="}, 0)
	require.NoError(t, err)
	clear(frame) // the next frame takes its place
	f, err := u.Add(&Part{ID: "1", Kind: "image", Mime: "image/png", Filename: "b.png", Caption: "caption-2", Parts: 2, Data: "AQ=="}, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "image", "image/gif", "first.gif", "caption-1"}, []string{f.ID, f.Kind, f.Mime, f.Filename, f.Caption})

	for want, p := range map[string]*Part{
		"image/png":                {ID: "2", Filename: "a.PNG", Parts: 1, Data: "AQ=="},
		"image/gif":                {ID: "2", Parts: 1, Data: base64.StdEncoding.EncodeToString([]byte("GIF89a"))},
		"application/octet-stream": {ID: "2", Parts: 1, Data: "AQ=="},
		"application/pdf":          {ID: "2", Filename: "a.pdf", Mime: strings.Repeat("x", longMime+1), Parts: 1, Data: "AQ=="},
	} {
		f, err := u.Add(p, 0)
		require.NoError(t, err)
		require.Equal(t, want, f.Mime)
	}
}

func TestExpire(t *testing.T) {
	budget := NewBudget(1 << 20)
	u := Uploads{Budget: budget}
	add := func(id string, part int, data string, now time.Duration) error {
		_, err := u.Add(&Part{ID: id, Part: part, Parts: 3, Data: data}, now)
		return err
	}
	_, ok := u.Next()
	require.False(t, ok)
	require.Empty(t, u.Expire(time.Hour))

	require.NoError(t, add("a", 0, "AQ==", 10*time.Second))
	require.NoError(t, add("b", 0, "AQ==", 20*time.Second))
	require.NoError(t, add("a", 1, "AQ==", 30*time.Second))
	require.Error(t, add("b", 1, "*", 40*time.Second), "a part that is not kept is no new part")
	at, ok := u.Next()
	require.True(t, ok)
	require.Equal(t, 140*time.Second, at)
	require.Empty(t, u.Expire(140*time.Second-1))
	require.Equal(t, []string{"b"}, u.Expire(140*time.Second))
	require.Equal(t, []string{"a"}, u.Expire(150*time.Second))
	require.True(t, u.Empty())
	require.Zero(t, budget.Used())
}

// Whatever comes in whatever order: an exhausted budget refuses the part alone.
func TestUploadsBudget(t *testing.T) {
	budget := NewBudget(1000)
	u := Uploads{Budget: budget}
	add := func(id string, part int, data string) error {
		_, err := u.Add(&Part{ID: id, Part: part, Parts: 2, Data: data}, 0)
		return err
	}
	require.NoError(t, add("a", 0, "AQ=="))
	used := budget.Used()
	require.ErrorIs(t, add("a", 1, b64(0, 800)), ErrBudget)
	require.ErrorIs(t, add("a", 0, b64(0, 800)), ErrBudget, "in place of a part, too")
	require.ErrorIs(t, add("b", 0, b64(0, 300)), ErrBudget)
	require.ErrorIs(t, add("c", 0, strings.Repeat("A", 4000)), ErrBudget)
	require.Equal(t, used, budget.Used())
	require.True(t, u.Has("a"))
	require.False(t, u.Has("b"))
	f, err := u.Add(&Part{ID: "a", Part: 1, Parts: 2, Data: "Ag=="}, 0)
	require.NoError(t, err)
	require.Equal(t, []byte{1, 2}, contentOf(f))
	f.Release()
	require.Zero(t, budget.Used())
}
