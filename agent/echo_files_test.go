package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// held is a content in memory that knows how often it is open.
type held struct {
	*bytes.Reader
	open *int
}

func (h held) Close() error { *h.open--; return nil }

func fileOf(content []byte, f File) (file *File, open *int) {
	open = new(int)
	f.Size = len(content)
	f.Open = func() (Content, error) { *open++; return held{bytes.NewReader(content), open}, nil }
	return &f, open
}

func read(t *testing.T, f *File) []byte {
	t.Helper()
	c, err := f.Open()
	require.NoError(t, err)
	defer c.Close()
	b, err := io.ReadAll(io.NewSectionReader(c, 0, 1<<40))
	require.NoError(t, err)
	require.Len(t, b, f.Size)
	return b
}

func TestEchoGivesFilesBack(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 10_000)
	sum := fmt.Sprintf("100000 sha256:%x", sha256.Sum256(content))
	for _, c := range []struct {
		in, out File
		text    string
	}{
		{File{Kind: "audio", Name: "voice.wav", Mime: "audio/wav"}, File{Kind: "voice", Name: "voice.wav", Mime: "audio/wav", Caption: "audio voice.wav " + sum}, ""},
		{File{Kind: "audio", Name: "a b.mp3", Mime: "audio/mpeg"}, File{Kind: "voice", Name: "a b.mp3", Mime: "audio/mpeg", Caption: "audio a b.mp3 " + sum}, " what I said\n"},
		{File{Kind: "image", Mime: "image/png"}, File{Kind: "image", Mime: "image/png", Caption: "image - " + sum}, ""},
		{File{Kind: "video", Name: "v.mp4"}, File{Kind: "video", Name: "v.mp4", Caption: "video v.mp4 " + sum}, "/fail is no command here"},
		{File{Kind: "document", Name: "d.pdf"}, File{Kind: "document", Name: "d.pdf", Caption: "document d.pdf " + sum}, "/help"},
	} {
		in, open := fileOf(content, c.in)
		var out *File
		reply, err := Echo{}.Ask(t.Context(), &Turn{ID: "m-1", Text: c.text, File: in}, func(e Event) {
			require.Equal(t, SendFile, e.Kind)
			require.Nil(t, out, "one file")
			require.Zero(t, *open, "nothing stays open")
			out = e.File
		})
		require.NoError(t, err)
		require.Equal(t, c.text, reply)
		require.Equal(t, content, read(t, out))
		c.out.Size, c.out.ReplyTo, out.Open = len(content), "m-1", nil
		require.Equal(t, c.out, *out)
		require.Zero(t, *open)
	}
}

func TestEchoFailsOnBadFiles(t *testing.T) {
	gone := errors.New("gone")
	shorter, open := fileOf([]byte("abc"), File{Kind: "image"})
	shorter.Size = 4
	longer, _ := fileOf([]byte("abc"), File{Kind: "image"})
	longer.Size = 2
	for _, c := range []struct {
		file *File
		want error
	}{
		{&File{Kind: "image", Size: 1, Open: func() (Content, error) { return nil, gone }}, gone},
		{shorter, errContent},
		{longer, errContent},
	} {
		reply, err := Echo{}.Ask(t.Context(), &Turn{Text: "caption", File: c.file}, func(Event) { t.Error("it was sent") })
		require.ErrorIs(t, err, c.want)
		require.Empty(t, reply)
	}
	require.Zero(t, *open)
}

func TestEchoSends(t *testing.T) {
	for _, c := range []struct {
		text string
		want File
	}{
		{"/send image", File{Kind: "image", Mime: "image/png", Name: "echo.png", Size: 1024}},
		{" /send\nvoice  1 ", File{Kind: "voice", Mime: "audio/ogg", Name: "echo.ogg", Size: 1}},
		{"/send video 4097", File{Kind: "video", Mime: "video/mp4", Name: "echo.mp4", Size: 4097}},
		{"/send document 3145729", File{Kind: "document", Mime: "application/pdf", Name: "echo.pdf", Size: 3145729}},
		{"/send animation 8388608", File{Kind: "animation", Mime: "image/gif", Name: "echo.gif", Size: 8388608}},
	} {
		var content [2][]byte
		for i := range content {
			reply, events, err := ask(t.Context(), c.text)
			require.NoError(t, err)
			require.Empty(t, reply)
			require.Len(t, events, 1)
			require.Equal(t, SendFile, events[0].Kind)
			f := *events[0].File
			content[i] = read(t, &f)
			f.Open = nil
			require.Equal(t, c.want, f)
		}
		require.True(t, bytes.Equal(content[0], content[1]), "the same each time")
	}
}

// TestGenerated reads pieces at any place and holds them against the whole.
func TestGenerated(t *testing.T) {
	const size = 10_007
	whole := make([]byte, size)
	n, err := generated(size).ReadAt(whole, 0)
	require.NoError(t, err)
	require.Equal(t, size, n)
	blocks := map[string]bool{}
	for b := whole; len(b) >= 8; b = b[8:] {
		require.False(t, blocks[string(b[:8])], "pieces look alike")
		blocks[string(b[:8])] = true
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2_000 {
		off, p := random.IntN(size+20), make([]byte, random.IntN(40))
		n, err := generated(size).ReadAt(p, int64(off))
		want := min(len(p), max(size-off, 0))
		require.Equal(t, want, n)
		require.Equal(t, n < len(p), err == io.EOF, "%d bytes at %d: %v", len(p), off, err)
		if n > 0 {
			require.Equal(t, whole[off:off+n], p[:n])
		}
	}
	n, err = generated(size).ReadAt(make([]byte, 1), 1<<63-1)
	require.Equal(t, io.EOF, err)
	require.Zero(t, n)
	n, err = generated(size).ReadAt(make([]byte, 1), -1)
	require.Error(t, err)
	require.NotEqual(t, io.EOF, err)
	require.Zero(t, n)
}

// TestEchoHoldsNoFile sends the largest file and gives it back: neither costs memory of its size.
func TestEchoHoldsNoFile(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var f *File
	_, err := Echo{}.Ask(context.Background(), &Turn{Text: "/send video 8388608"}, func(e Event) { f = e.File })
	require.NoError(t, err)
	_, err = Echo{}.Ask(context.Background(), &Turn{File: f}, func(Event) {})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10))
}

func BenchmarkGenerated(b *testing.B) {
	p := make([]byte, 256<<10)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		generated(8<<20).ReadAt(p, 3)
	}
}
