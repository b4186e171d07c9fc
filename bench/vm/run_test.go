package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// bench is the script run with stand-ins for all that it calls.
type bench struct {
	t       *testing.T
	tools   string // folder of the stand-ins
	scratch string // where the script may write, and must leave nothing
}

// newBench stands machine, shell commands, in for qemu. They find in $status the file that the guest's job would write to, and
// in $* how the machine was called.
func newBench(t *testing.T, machine string) *bench {
	b := &bench{t, t.TempDir(), t.TempDir()}
	script(t, b.tools, "go", "")
	script(t, b.tools, "busybox", "cat")
	script(t, b.tools, "qemu-system-x86_64", `for a; do case $a in file:*) status=${a#file:} ;; esac; done`+"\n"+machine)
	return b
}

func (b *bench) command(args ...string) *exec.Cmd {
	cmd := exec.Command("./run", append([]string{"-k", "kernel"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+b.tools+":"+os.Getenv("PATH"), "TMPDIR="+b.scratch)
	return cmd
}

func (b *bench) run(args ...string) (status int, out string) {
	cmd := b.command(args...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(b.t, err)
	}
	b.clean()
	return cmd.ProcessState.ExitCode(), string(text)
}

func (b *bench) clean() {
	left, err := os.ReadDir(b.scratch)
	require.NoError(b.t, err)
	require.Empty(b.t, left, "the script left something behind")
}

// The job's status comes out, and no other end of the machine is taken for it.
func TestScriptStatus(t *testing.T) {
	for machine, want := range map[string]int{
		"echo 0 >$status":           0,
		"printf '1\\r\\n' >$status": 1,
		"echo 127 >$status; exit 1": 127,
		"true":                      125,
		"exit 1":                    125,
	} {
		status, out := newBench(t, "echo said; "+machine).run()
		require.Equal(t, want, status, "%s: %s", machine, out)
		require.Contains(t, out, "said\n")
	}
	status, out := newBench(t, "exec sleep 60").run("-t", "1")
	require.Equal(t, 124, status, out)
}

func TestScriptArguments(t *testing.T) {
	b := newBench(t, `echo "$@"; echo 0 >$status`)
	status, out := b.run("-n", "50000", "-c", "3")
	require.Zero(t, status, out)
	for _, want := range []string{"-smp 3 ", "-kernel kernel ", " devices=50000", "-m 1512 "} {
		require.Contains(t, out, want)
	}
	_, out = b.run("-m", "777")
	require.Contains(t, out, "-m 777 ")
	require.Contains(t, out, " devices=1000000")
	for _, bad := range []string{"-n", "-n 0", "-n 1e6", "-n 08", "-m -1", "-t x", "-c 0", "-x", "more"} {
		status, out = b.run(strings.Fields(bad)...)
		require.Equal(t, 2, status, "%s: %s", bad, out)
	}
	require.NoError(t, exec.Command("sh", "-n", "run").Run())
}

// Whoever ends the script ends the machine.
func TestScriptEnds(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	b := newBench(t, fmt.Sprintf("echo $$ >%s; exec sleep 60", fifo))
	cmd := b.command()
	require.NoError(t, cmd.Start())
	pid, err := os.ReadFile(fifo)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
	require.NoDirExists(t, "/proc/"+strings.TrimSpace(string(pid)))
	b.clean()
}
