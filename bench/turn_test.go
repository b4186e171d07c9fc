package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/codec"
	"mobilegate/session"
)

// What an echo turn may cost, the avatar's frame 3 s later apart.
const (
	maxTurnWrites  = 2
	maxTurnAllocs  = 2 // 1 is usual: the turn itself
	maxTurnBytes   = 256
	maxLargeAllocs = 4 // of a turn whose frame has 64 KiB; 2 is usual
	maxLargeBytes  = 32 << 10
	maxLargeBehind = 100 // bytes of heap for each device, after it
)

// turnCost is what one echo turn costs.
type turnCost struct{ allocs, bytes, writes float64 }

// measureTurns lets every device have so many turns with frames of size bytes.
func (g *inside) measureTurns(tb testing.TB, turns, size int) turnCost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := g.fleet.do(order{Do: "turns", N: turns, Size: size})
	runtime.ReadMemStats(&after)
	require.Equal(tb, turns*r.Online, r.Turns)
	n := float64(r.Turns)
	return turnCost{float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n, float64(r.Writes) / n}
}

const turnDevices = 100

func measureTurn(tb testing.TB) (small, large turnCost, behind float64) {
	g := newInside(tb, session.Config{})
	g.fleet.connect(turnDevices)
	g.measureTurns(tb, 1500, 0) // a pool of buffers finds its sizes after 42 000 of one size, and only then is in its steady state
	small = g.measureTurns(tb, 50, 0)
	before := heap()
	large = g.measureTurns(tb, 10, burstFrame)
	return small, large, float64(heap()-before) / turnDevices
}

func checkTurn(tb testing.TB, small, large turnCost, behind float64) {
	require.LessOrEqual(tb, small.writes, float64(maxTurnWrites), "writes to the device's socket")
	require.LessOrEqual(tb, large.writes, float64(maxTurnWrites), "writes to the device's socket, 64 KiB")
	if !codec.FastPath() {
		return // encoding/json allocates as it likes
	}
	require.LessOrEqual(tb, small.allocs, float64(maxTurnAllocs), "allocations")
	require.LessOrEqual(tb, small.bytes, float64(maxTurnBytes), "bytes allocated")
	require.LessOrEqual(tb, large.allocs, float64(maxLargeAllocs), "allocations, 64 KiB")
	require.LessOrEqual(tb, large.bytes, float64(maxLargeBytes), "bytes allocated, 64 KiB")
	require.LessOrEqual(tb, behind, float64(maxLargeBehind), "bytes of heap that stay behind, 64 KiB")
}

func TestTurn(t *testing.T) {
	yardstick(t)
	small, large, behind := measureTurn(t)
	t.Logf("an echo turn: %.2f allocations, %.0f B, %.2f writes", small.allocs, small.bytes, small.writes)
	t.Logf("one of a 64 KiB frame: %.2f allocations, %.0f B, %.2f writes; %.0f B of heap stay behind for each device", large.allocs, large.bytes, large.writes, behind)
	checkTurn(t, small, large, behind)
}

func BenchmarkTurn(b *testing.B) {
	yardstick(b)
	small, large, behind := measureTurn(b)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(small.allocs, "allocs/turn")
	b.ReportMetric(small.bytes, "B/turn")
	b.ReportMetric(small.writes, "writes/turn")
	b.ReportMetric(large.allocs, "allocs/64K-turn")
	b.ReportMetric(large.bytes, "B/64K-turn")
	b.ReportMetric(large.writes, "writes/64K-turn")
	b.ReportMetric(behind, "heap-B-behind/device")
	checkTurn(b, small, large, behind)
}

// The count of segments is right: strace sees the same number of writes to sockets.
func TestTurnWritesBySystemCall(t *testing.T) {
	yardstick(t)
	const devices, turns = 20, 5
	s := startServer(t, nil)
	f := newFleet(t, s.address, "strace")
	f.connect(devices)
	trace := startTrace(t, s.pid)
	r := f.do(order{Do: "turns", N: turns})
	calls := float64(trace()) / float64(r.Turns)
	segments := float64(r.Writes) / float64(r.Turns)
	t.Logf("an echo turn: %.2f writes by strace, %.2f by segments", calls, segments)
	require.LessOrEqual(t, calls, float64(maxTurnWrites))
	require.InDelta(t, calls, segments, 0.01)
}

// startTrace counts, until the function that it returns is called, how often the process writes to a TCP socket.
func startTrace(tb testing.TB, pid int) (count func() int) {
	path, err := exec.LookPath("strace")
	if err != nil {
		tb.Skip("strace is not installed")
	}
	file := filepath.Join(tb.TempDir(), "trace")
	var said bytes.Buffer
	cmd := exec.Command(path, "-f", "-yy", "-s", "0", "-e", "trace=write,writev,sendto,sendmsg", "-o", file, "-p", strconv.Itoa(pid))
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	require.NoError(tb, cmd.Start())
	traced := func() bool { // all of its threads
		tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/status")
		require.NoError(tb, err)
		return !slices.ContainsFunc(tasks, func(task string) bool {
			status, err := os.ReadFile(task)
			return err == nil && bytes.Contains(status, []byte("\nTracerPid:\t0\n"))
		})
	}
	for began := time.Now(); !traced(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 3*time.Second {
			cmd.Process.Kill()
			cmd.Wait()
			tb.Skip("strace may not look at another process here: ", said.String())
		}
	}
	return func() (n int) {
		cmd.Process.Signal(syscall.SIGINT)
		cmd.Wait()
		b, err := os.ReadFile(file)
		require.NoError(tb, err)
		for line := range strings.Lines(string(b)) {
			_, call, _ := strings.Cut(line, " ")
			name, args, _ := strings.Cut(strings.TrimSpace(call), "(")
			if fd, _, _ := strings.Cut(args, ","); !strings.HasPrefix(name, "<") && strings.Contains(fd, "<TCP") {
				n++
			}
		}
		return n
	}
}
