// Package python runs the tests of the Python client, and the type checker over it, as part of the Go tests.
//
// The cache of go test does not see the Python files: use -shuffle=on, as make test does, or -count=1.
package python

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// python is Debian's where that has the library, else the one on the path.
func python(t *testing.T) string {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import sys, websockets; sys.exit(sys.version_info < (3, 11))").Run() == nil {
			return python
		}
	}
	t.Skip("Python 3.11 with the module websockets is not installed: apt-get install python3-websockets")
	return ""
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestPython(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	gateway := filepath.Join(t.TempDir(), "mobilegate")
	run(t, "go", "build", "-o", gateway, "mobilegate/cmd/mobilegate")
	run(t, "env", "MOBILEGATE="+gateway, "PYTHONDONTWRITEBYTECODE=1", interpreter, "-W", "error::ResourceWarning", "-m", "unittest")
}

func TestTypes(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	mypy, err := exec.LookPath("mypy")
	if err != nil {
		t.Skip("mypy is not installed: apt-get install mypy")
	}
	run(t, mypy, "--strict", "--python-executable", interpreter, "--cache-dir", t.TempDir(), "hermes_client.py")
}

// TestOneFile: an application takes hermes_client.py along and nothing else.
func TestOneFile(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	alone := t.TempDir()
	source, err := os.ReadFile("hermes_client.py")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(alone, "hermes_client.py"), source, 0o600))
	run(t, interpreter, "-B", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import hermes_client", alone)
}
