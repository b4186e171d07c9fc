package hermes

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"mobilegate/agent"
)

// Why a file is not sent, in words for the user, which also are the text of an error: no path stands in them.
var (
	errOutside = errors.New("it lies where the gateway may not read")
	errNoFile  = errors.New("there is no such file")
	errLarge   = errors.New("it is too large")
	errImage   = errors.New("it is no image")
	errMany    = errors.New("there are too many")
)

// share is which files of this machine may go to devices.
type share struct {
	roots []string // with all symbolic links resolved
	spool *spool   // nil: there is none
	max   int      // bytes of one file
}

func isImage(path string) bool {
	kind := known[strings.ToLower(filepath.Ext(path))].kind
	return kind == "image" || kind == "animation"
}

// open makes a File of what the agent named, if the owner may have it: it lies in one of the roots or in the owner's own
// folder of the spool, and in nobody else's. os.Root holds to that also when somebody changes the links meanwhile.
func (s *share) open(path string, owner agent.Owner) (*agent.File, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil || !filepath.IsAbs(resolved) {
		if s.root(filepath.Clean(path), owner) == "" {
			return nil, errOutside // and nobody learns what there is
		}
		return nil, errNoFile
	}
	root := s.root(resolved, owner)
	if root == "" {
		return nil, errOutside
	}
	name, err := filepath.Rel(root, resolved)
	if err != nil {
		return nil, errOutside
	}
	f, size, err := openIn(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > int64(s.max) {
		return nil, errLarge
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, errNoFile
	}
	kind, mime := kindOf(name, head[:n])
	return &agent.File{Kind: kind, Mime: mime, Name: plainName(filepath.Base(path)), Size: int(size), Open: func() (agent.Content, error) {
		f, _, err := openIn(root, name)
		if err != nil {
			return nil, err
		}
		return f, nil
	}}, nil
}

// root is the folder that lets owner have path, or empty.
func (s *share) root(path string, owner agent.Owner) string {
	if s.spool != nil && within(path, s.spool.dir) {
		if own := filepath.Join(s.spool.dir, folder(owner)); path != own && within(path, own) {
			return own
		}
		return ""
	}
	for _, root := range s.roots {
		if path != root && within(path, root) {
			return root
		}
	}
	return ""
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// openIn opens a regular file below root. It does not wait for anything that is none.
func openIn(root, name string) (*os.File, int64, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, 0, errNoFile
	}
	defer r.Close()
	f, err := r.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, errNoFile
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, 0, errNoFile
	}
	return f, info.Size(), nil
}

// plainName leaves the control characters out.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
}

// inlineImage makes a File of data:image/…;base64,….
func inlineImage(url string, limit int) (*agent.File, error) {
	_, data, ok := strings.Cut(url, ";base64,")
	if !ok {
		return nil, errImage
	}
	if base64.StdEncoding.DecodedLen(len(data)) > limit+2 {
		return nil, errLarge
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, errImage
	}
	if len(b) > limit {
		return nil, errLarge
	}
	kind, mime := kindOf("", b[:min(len(b), 512)])
	if kind != "image" && kind != "animation" {
		return nil, errImage
	}
	return &agent.File{Kind: kind, Mime: mime, Name: "image" + extension("", mime), Size: len(b), Open: func() (agent.Content, error) {
		return memory{bytes.NewReader(b)}, nil
	}}, nil
}

// memory is content that is there already.
type memory struct{ *bytes.Reader }

// Close implements io.Closer.
func (memory) Close() error { return nil }
