package hermes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
)

// sent is a turn with a file.
func sentBy(device, id, name, content string) *agent.Turn {
	return &agent.Turn{Owner: agent.Owner{Device: device, Entry: defaultEntry}, ID: id, File: fileOf("document", name, "", []byte(content))}
}

// kept are the files of the spool, by content.
func kept(t *testing.T, dir string) (contents []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			contents = append(contents, string(b))
		}
		return err
	}))
	return contents
}

func TestSpool(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "media")
	s, err := openSpool(dir, []byte(key), spoolBounds)
	require.NoError(t, err)
	defer s.close()
	path, err := s.put(sentBy("../../tel", "../m-1", "../../etc/passwd.pdf", "content"))
	require.NoError(t, err)
	require.Regexp(t, "^"+dir+"/[0-9a-f]{32}/[0-9a-f]{32}\\.pdf$", path)
	for name, mode := range map[string]os.FileMode{dir: 0o700, filepath.Dir(path): 0o700, path: 0o600} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
	}
	again, err := s.put(sentBy("../../tel", "../m-1", "../../etc/passwd.pdf", "content"))
	require.NoError(t, err)
	require.Equal(t, path, again, "it is the same message")
	for _, other := range []*agent.Turn{sentBy("../../tel", "../m-2", "a.pdf", "content"), sentBy("../../tel", "../m-1", "a.pdf", "another"), sentBy("tel", "../m-1", "a.pdf", "content")} {
		p, err := s.put(other)
		require.NoError(t, err)
		require.NotEqual(t, filepath.Base(path), filepath.Base(p))
	}
	require.Len(t, kept(t, dir), 4)
	stranger, err := openSpool(dir, []byte("another key"), spoolBounds)
	require.NoError(t, err)
	defer stranger.close()
	p, err := stranger.put(sentBy("../../tel", "../m-1", "a.pdf", "content"))
	require.NoError(t, err)
	require.NotEqual(t, path, p, "nobody else can tell the name")
}

func TestSpoolOfNothing(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(dir, nil, spoolBounds)
	require.NoError(t, err)
	defer s.close()
	short := sentBy("tel-1", "m-1", "a.pdf", "abc")
	short.File.Size = 4
	_, err = s.put(short)
	require.Error(t, err)
	gone := errors.New("gone")
	short.File.Open = func() (agent.Content, error) { return nil, gone }
	_, err = s.put(short)
	require.Equal(t, gone, err)
	require.Empty(t, kept(t, dir))
	require.NoError(t, os.RemoveAll(dir))
	_, err = s.put(sentBy("tel-1", "m-1", "a.pdf", "abc"))
	require.NoError(t, err, "the folder is made anew")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	_, err = s.put(sentBy("tel-1", "m-1", "a.pdf", "abc"))
	require.Error(t, err)
	require.NotContains(t, err.Error(), dir)
	s.close()
	_, err = s.put(sentBy("tel-1", "m-1", "a.pdf", "abc"))
	require.Equal(t, errClosed, err)
}

func TestSpoolIsBounded(t *testing.T) {
	put := func(t *testing.T, s *spool, device, content string) {
		t.Helper()
		_, err := s.put(sentBy(device, content, "a.txt", content))
		require.NoError(t, err)
		time.Sleep(time.Second)
	}
	for name, c := range map[string]struct {
		b    bounds
		want []string
	}{
		"files of one": {bounds{age: time.Hour, files: 100, bytes: 1000, ownFiles: 2, ownBytes: 1000}, []string{"b1", "a3", "a4"}},
		"bytes of one": {bounds{age: time.Hour, files: 100, bytes: 1000, ownFiles: 100, ownBytes: 5}, []string{"b1", "a3", "a4"}},
		"files of all": {bounds{age: time.Hour, files: 3, bytes: 1000, ownFiles: 100, ownBytes: 1000}, []string{"b1", "a3", "a4"}},
		"bytes of all": {bounds{age: time.Hour, files: 100, bytes: 7, ownFiles: 100, ownBytes: 1000}, []string{"b1", "a3", "a4"}},
		"age":          {bounds{age: 3500 * time.Millisecond, files: 100, bytes: 1000, ownFiles: 100, ownBytes: 1000}, []string{"b1", "a3", "a4"}},
		"all at once":  {bounds{age: time.Hour, files: 1, bytes: 1, ownFiles: 1, ownBytes: 1}, []string{"a4"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s, err := openSpool(dir, nil, c.b)
				require.NoError(t, err)
				for _, f := range []string{"a1", "a2", "b1", "a3", "a4"} {
					put(t, s, f[:1], f)
				}
				require.ElementsMatch(t, c.want, kept(t, dir))
				s.mu.Lock()
				require.Equal(t, len(c.want), s.files.Len())
				require.EqualValues(t, 2*len(c.want), s.bytes)
				s.mu.Unlock()
				time.Sleep(c.b.age)
				synctest.Wait()
				require.Empty(t, kept(t, dir), "nobody had to come for that")
				folders, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Empty(t, folders)
				require.Empty(t, s.own)
				put(t, s, "a", "a5")
				s.close()
				time.Sleep(2 * c.b.age)
				require.Equal(t, []string{"a5"}, kept(t, dir), "what is there outlives the gateway")
			})
		})
	}
}

func TestSpoolTakesOver(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(dir, nil, spoolBounds)
	require.NoError(t, err)
	for i, content := range []string{"a1", "a2", "b1", "a3"} {
		path, err := s.put(sentBy(content[:1], content, "a.txt", content))
		require.NoError(t, err)
		at := time.Now().Add(time.Duration(i-4) * time.Hour)
		require.NoError(t, os.Chtimes(path, at, at))
	}
	s.close()
	strange := create(t, filepath.Join(dir, "notes.txt"), "the operator's own")
	create(t, filepath.Join(dir, strings.Repeat("a", 32), "x.txt"), "the operator's own")
	s, err = openSpool(dir, nil, bounds{age: 150 * time.Minute, files: 100, bytes: 1000, ownFiles: 100, ownBytes: 1000})
	require.NoError(t, err)
	defer s.close()
	require.ElementsMatch(t, []string{"b1", "a3", "the operator's own", "the operator's own"}, kept(t, dir))
	require.FileExists(t, strange)
	require.Equal(t, 2, s.files.Len())
}
