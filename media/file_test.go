package media

import (
	"bytes"
	"encoding/base64"
	"io"
	"io/fs"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func readerOf(f *File) *io.SectionReader { return io.NewSectionReader(f, 0, int64(f.Size())) }

func contentOf(f *File) []byte {
	b := make([]byte, f.Size())
	if n, err := f.ReadAt(b, 0); n < len(b) {
		panic(err)
	}
	return b
}

func TestFileReads(t *testing.T) {
	content := random(3*slabFill+100, 1)
	whole, err := Decode(base64.StdEncoding.EncodeToString(content), eight, nil)
	require.NoError(t, err)
	var u Uploads
	parts, cuts := (*File)(nil), []int{0, 1, 7, 70_000, 70_001, 180_000, len(content)}
	for i := len(cuts) - 2; i >= 0; i-- {
		data := base64.StdEncoding.EncodeToString(content[cuts[i]:cuts[i+1]])
		parts, err = u.Add(&Part{ID: "1", Part: i, Parts: len(cuts) - 1, Data: data}, 0)
		require.NoError(t, err)
	}
	for _, f := range []*File{whole, parts} {
		require.Equal(t, len(content), f.Size())
		require.NoError(t, iotest.TestReader(readerOf(f), content))
		require.True(t, bytes.Equal(content, contentOf(f)))
		buffer := make([]byte, 10)
		for _, off := range []int{0, 1, 6, 7, slabFill - 5, slabFill, 69_999, 70_000, len(content) - 10} {
			n, err := f.ReadAt(buffer, int64(off))
			require.NoError(t, err)
			require.Equal(t, content[off:off+n], buffer[:n])
		}
		n1, err := f.ReadAt(buffer, int64(len(content)-3))
		require.Equal(t, 3, n1)
		require.ErrorIs(t, err, io.EOF)
		_, err = f.ReadAt(buffer, int64(len(content)))
		require.ErrorIs(t, err, io.EOF)
		_, err = f.ReadAt(buffer, -1)
		require.Error(t, err)

		f.Release()
		_, err = f.ReadAt(buffer, 0)
		require.ErrorIs(t, err, fs.ErrClosed)
		require.Panics(t, f.Release)
	}
}

// Several goroutines read one file, each with a reference of its own; the last one gives the memory back.
func TestFileIsShared(t *testing.T) {
	budget := NewBudget(1 << 20)
	content := random(200_000, 1)
	f, err := Decode(base64.StdEncoding.EncodeToString(content), eight, budget)
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 4 {
		f.Retain()
		all.Go(func() {
			defer f.Release()
			got, err := io.ReadAll(readerOf(f))
			if err != nil || !bytes.Equal(content, got) {
				t.Error("another goroutine sees another file")
			}
		})
	}
	f.Release()
	all.Wait()
	require.Zero(t, budget.Used())
}

// Many take and give: the bound holds at every moment, and nothing is lost.
func TestBudgetIsShared(t *testing.T) {
	b := NewBudget(100)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 1000 {
				if n := i%60 + 1; b.Take(n) {
					if b.Used() > 100 {
						t.Error("the budget is overdrawn")
					}
					b.Give(n)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, b.Used())
	require.True(t, b.Take(100))
	require.False(t, b.Take(1))
}

func TestGuessMime(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\n")
	for _, c := range []struct {
		name, want string
		head       []byte
	}{
		{"a.png", "image/png", nil},
		{"A.PDF", "application/pdf", png},
		{"a.tar.gz", "application/gzip", nil},
		{"a.strange", "image/png", png},
		{"png", "image/png", png},
		{"", "image/png", png},
		{"a.", "application/octet-stream", []byte{1, 2, 3}},
		{"", "application/octet-stream", nil},
		{"", "text/plain; charset=utf-8", []byte("hello")},
	} {
		require.Equal(t, c.want, GuessMime(c.name, c.head), "%q", c.name)
	}
}
