package hermes

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mobilegate/agent"
)

// Bounds of the spool. The oldest files go first.
var spoolBounds = bounds{age: 24 * time.Hour, files: 4096, bytes: 1 << 30, ownFiles: 64, ownBytes: 128 << 20}

type bounds struct {
	age             time.Duration
	files, ownFiles int   // of all owners, of one
	bytes, ownBytes int64 // likewise
}

// spool keeps the files of devices where the agent can read them: <dir>/<folder of the owner>/<name>. Nothing in a path comes
// from a device. It is safe for concurrent use.
type spool struct {
	dir    string // absolute, without symbolic links
	secret []byte // makes the names
	bounds bounds

	mu    sync.Mutex
	files *list.List // of *spooled, the oldest first
	bytes int64
	own   map[string]*use // by folder
	timer *time.Timer     // for the age of the oldest; nil when there is none
	over  bool            // closed
}

type use struct {
	files int
	bytes int64
}

type spooled struct {
	folder, name string
	size         int64
	at           time.Time
}

// openSpool makes the folder if it is not there, and takes over what an earlier run of the gateway left in it.
func openSpool(dir string, secret []byte, b bounds) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	s := &spool{dir: dir, secret: secret, bounds: b, files: list.New(), own: map[string]*use{}}
	var found []*spooled
	err = fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		folder, name := path.Split(p)
		if err != nil || !d.Type().IsRegular() || !ours(strings.TrimSuffix(folder, "/"), name) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		found = append(found, &spooled{strings.TrimSuffix(folder, "/"), name, info.Size(), info.ModTime()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b *spooled) int { return a.at.Compare(b.at) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range found {
		s.add(f)
	}
	return s, s.inRoot(s.trim)
}

// ours tells whether the spool has made a file of that name; it touches no other.
func ours(folder, name string) bool {
	hex := func(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }
	return hex(folder) && hex(strings.TrimSuffix(name, path.Ext(name)))
}

// put keeps the file of t and returns its path. The same file of the same message has the same name, so that a message that
// is sent again is the same to the agent; who has not the gateway's key cannot tell the name.
func (s *spool) put(t *agent.Turn) (string, error) {
	content, err := t.File.Open()
	if err != nil {
		return "", err
	}
	defer content.Close()
	sum, err := contentHash(content, t.File.Size)
	if err != nil {
		return "", err
	}
	f := &spooled{
		folder: folder(t.Owner), name: digest(s.secret, t.Device, t.Entry, t.ID, sum)[:32] + extension(t.File.Name, t.File.Mime),
		size: int64(t.File.Size), at: time.Now(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return "", errClosed
	}
	err = s.inRoot(func(root *os.Root) error {
		if err := write(root, f, content); err != nil {
			return err
		}
		s.forget(root, f, false)
		s.add(f)
		return s.trim(root)
	})
	return filepath.Join(s.dir, f.folder, f.name), err
}

// inRoot opens the folder, which may have been emptied or made anew since. Its errors hold no path.
func (s *spool) inRoot(do func(*os.Root) error) error {
	err := os.MkdirAll(s.dir, 0o700)
	if err == nil {
		var root *os.Root
		if root, err = os.OpenRoot(s.dir); err == nil {
			defer root.Close()
			err = do(root)
		}
	}
	var in *fs.PathError
	if errors.As(err, &in) {
		err = in.Err
	}
	if err != nil {
		return fmt.Errorf("the media folder: %w", err)
	}
	return nil
}

func write(root *os.Root, f *spooled, content agent.Content) error {
	if err := root.MkdirAll(f.folder, 0o700); err != nil {
		return err
	}
	name := path.Join(f.folder, f.name)
	_ = root.Remove(name)
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.NewSectionReader(content, 0, f.size))
	if err == nil && n != f.size {
		err = io.ErrUnexpectedEOF
	}
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = root.Remove(name)
	}
	return err
}

func (s *spool) add(f *spooled) {
	s.files.PushBack(f)
	s.bytes += f.size
	u := s.own[f.folder]
	if u == nil {
		u = new(use)
		s.own[f.folder] = u
	}
	u.files++
	u.bytes += f.size
}

// forget takes the file of that name from the list, and from the disk if remove is set.
func (s *spool) forget(root *os.Root, f *spooled, remove bool) {
	for e := s.files.Front(); e != nil; e = e.Next() {
		if old := e.Value.(*spooled); old.folder == f.folder && old.name == f.name {
			s.drop(root, e, remove)
			return
		}
	}
}

func (s *spool) drop(root *os.Root, e *list.Element, remove bool) {
	f := s.files.Remove(e).(*spooled)
	s.bytes -= f.size
	u := s.own[f.folder]
	u.bytes -= f.size
	if remove {
		_ = root.Remove(path.Join(f.folder, f.name)) // it may be gone already
	}
	if u.files--; u.files == 0 {
		delete(s.own, f.folder)
		if remove {
			_ = root.Remove(f.folder)
		}
	}
}

// trim removes what is too old or too much, and sets the timer for what comes next. The newest file always stays.
func (s *spool) trim(root *os.Root) error {
	for e := s.files.Front(); e != nil && e.Next() != nil; {
		f, next := e.Value.(*spooled), e.Next()
		u := s.own[f.folder]
		if s.files.Len() > s.bounds.files || s.bytes > s.bounds.bytes || u.files > s.bounds.ownFiles || u.bytes > s.bounds.ownBytes {
			s.drop(root, e, true)
		}
		e = next
	}
	now := time.Now()
	for e := s.files.Front(); e != nil && now.Sub(e.Value.(*spooled).at) >= s.bounds.age; e = s.files.Front() {
		s.drop(root, e, true)
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if e := s.files.Front(); e != nil {
		s.timer = time.AfterFunc(e.Value.(*spooled).at.Add(s.bounds.age).Sub(now), s.expire)
	}
	return nil
}

func (s *spool) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		_ = s.inRoot(s.trim) // a folder that cannot be opened now is tried again with the next file
	}
}

// close ends the spool's work; the files stay for the agent, and for the next run of the gateway.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}
