package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// block is a fenced one of a README.
type block struct{ kind, text string }

func blocks(t *testing.T, readme string) (all []block) {
	t.Helper()
	b, err := os.ReadFile(readme)
	require.NoError(t, err)
	for _, found := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(b), -1) {
		all = append(all, block{found[1], found[2]})
	}
	return all
}

// clone makes what a fresh clone would be: all files that git does not ignore, as they are now.
func clone(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	out, err := exec.Command("git", "-C", "..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	require.NoError(t, err)
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join("..", name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		require.NoError(t, err)
		to := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		require.NoError(t, os.WriteFile(to, content, 0o700))
	}
	return dir
}

// TestQuickStarts follows the quick starts to the letter, but for the port, and for what would install packages.
func TestQuickStarts(t *testing.T) {
	here := clone(t)
	for _, c := range []struct{ readme, language, source string }{
		{"../sdk/python/README.md", "python", "talk.py"},
		{"../sdk/go/README.md", "go", "talk/main.go"},
	} {
		t.Run(c.language, func(t *testing.T) {
			path := os.Getenv("PATH")
			if c.language == "python" {
				path = debianPython(t) + string(filepath.ListSeparator) + path
			}
			var steps []block
			for _, b := range blocks(t, c.readme) {
				if !strings.Contains(b.text, "apt-get") {
					steps = append(steps, b)
				}
			}
			require.Len(t, steps, 4)
			shell := func(script string) *exec.Cmd {
				cmd := exec.Command("sh", "-ec", script)
				cmd.Dir = here
				cmd.Env = append(os.Environ(), "PATH="+path, "MOBILE_PORT=0", "PYTHONDONTWRITEBYTECODE=1")
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				return cmd
			}
			serving := shell(steps[0].text)
			ready, err := serving.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, serving.Start())
			defer func() {
				syscall.Kill(-serving.Process.Pid, syscall.SIGKILL)
				serving.Wait()
			}()
			url := awaitURL(t, ready)

			said, err := shell(strings.ReplaceAll(steps[1].text, "ws://127.0.0.1:8787/ws", url)).Output()
			require.NoError(t, err)
			lines := slices.Compact(strings.SplitAfter(string(said), "\n")) // how often a streamed answer grows is a matter of time
			require.Equal(t, steps[2].text, strings.Join(lines, ""))

			source, err := os.ReadFile(c.source)
			require.NoError(t, err)
			require.Equal(t, block{c.language, string(source)}, steps[3])
		})
	}
}

// debianPython is a folder whose python3 has the library.
func debianPython(t *testing.T) string {
	t.Helper()
	if exec.Command("/usr/bin/python3", "-c", "import websockets").Run() != nil {
		t.Skip("the Python module websockets is not installed: apt-get install python3-websockets")
	}
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/usr/bin/python3", filepath.Join(dir, "python3")))
	return dir
}
