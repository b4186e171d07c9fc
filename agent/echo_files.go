package agent

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	defaultSend = 1024    // bytes of a /send that says no number
	maxSend     = 8 << 20 // the most that the protocol lets through
)

var errContent = errors.New("the content of the file is not as long as it should be")

// giveBack sends the file of t back to where it came from, its content untouched and not copied.
func giveBack(t *Turn, emit func(Event)) (string, error) {
	in := t.File
	sum, err := digest(in)
	if err != nil {
		return "", fmt.Errorf("echo: %w", err)
	}
	out := &File{Kind: in.Kind, Mime: in.Mime, Name: in.Name, ReplyTo: t.ID, Size: in.Size, Open: in.Open}
	if out.Kind == "audio" {
		out.Kind = "voice"
	}
	name := in.Name
	if name == "" {
		name = "-"
	}
	out.Caption = fmt.Sprintf("%s %s %d sha256:%x", in.Kind, name, in.Size, sum)
	emit(Event{Kind: SendFile, File: out})
	return t.Text, nil
}

// hashing lets one turn at a time compute: a crowd of large files must not keep the event loops from a processor.
var hashing = make(chan struct{}, 1)

// digest reads f in steps, so that it costs no memory of f's size.
func digest(f *File) ([]byte, error) {
	hashing <- struct{}{}
	defer func() { <-hashing }()
	content, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(content, 0, int64(f.Size)+1))
	if err == nil && n != int64(f.Size) {
		err = errContent
	}
	return h.Sum(nil), err
}

// samples are the files that /send sends, one of each kind.
var samples = []File{
	{Kind: "image", Mime: "image/png", Name: "echo.png"},
	{Kind: "voice", Mime: "audio/ogg", Name: "echo.ogg"},
	{Kind: "video", Mime: "video/mp4", Name: "echo.mp4"},
	{Kind: "document", Mime: "application/pdf", Name: "echo.pdf"},
	{Kind: "animation", Mime: "image/gif", Name: "echo.gif"},
}

func kinds() (names []string) {
	for i := range samples {
		names = append(names, samples[i].Kind)
	}
	return names
}

func send(_ context.Context, args string, emit func(Event)) (string, error) {
	kind, args := word(args)
	number, rest := word(args)
	size := uint64(defaultSend)
	if number != "" {
		var err error
		if size, err = strconv.ParseUint(number, 10, 32); err != nil {
			size = 0 // not err, which holds what the device sent
		}
	}
	if size < 1 || size > maxSend || rest != "" {
		return "", errArguments
	}
	for _, f := range samples {
		if f.Kind == kind {
			f.Size = int(size)
			f.Open = func() (Content, error) { return generated(size), nil }
			emit(Event{Kind: SendFile, File: &f})
			return "", nil
		}
	}
	return "", errArguments
}

// generated is content that is computed when it is read: so many bytes, each a function of its offset alone. It has the
// name of a picture or a film and is none.
type generated uint64

// ReadAt implements io.ReaderAt.
func (size generated) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	if left := int64(size) - off; left < int64(len(p)) {
		p, err = p[:max(left, 0)], io.EOF
	}
	var word [8]byte
	for n < len(p) {
		at := uint64(off) + uint64(n)
		binary.LittleEndian.PutUint64(word[:], mix(at/8))
		n += copy(p[n:], word[at%8:])
	}
	return n, err
}

// Close implements io.Closer.
func (generated) Close() error { return nil }

// mix is the output function of splitmix64: no two chunks of a file look alike.
func mix(x uint64) uint64 {
	x = (x + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
