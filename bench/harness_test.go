package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	token        = "bench-token"
	deliverToken = "bench-deliver-token"
)

var scratch string // folder for the binary

func TestMain(m *testing.M) {
	if address := os.Getenv(fleetEnv); address != "" {
		if err := runCrowd(address, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "fleet:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if scratch, err = os.MkdirTemp("", "mobilegate-bench-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

// yardstick skips what would measure nothing.
func yardstick(tb testing.TB) {
	tb.Helper()
	if raceEnabled {
		tb.Skip("the race detector changes what is measured here: run this package without -race")
	}
	if testing.Short() {
		tb.Skip("a measurement of seconds to minutes: not with -short")
	}
}

// program is a server of the protocol that can be started.
type program struct {
	name string
	path func() (string, error) // of the binary; builds it when need be
	args []string
}

var (
	gateway  = program{"mobilegate", built("mobilegate", "..", "./cmd/mobilegate"), []string{"serve"}}
	baseline = program{"baseline", built("baseline", "baseline", "."), nil} // bench/baseline
)

// built builds a command once, in the folder of its module.
func built(name, module, pkg string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		path := filepath.Join(scratch, name)
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, pkg)
		build.Dir, build.Env = module, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		return path, nil
	})
}

// server is a program in a process of its own.
type server struct {
	tb      testing.TB
	cmd     *exec.Cmd
	pid     int
	address string
	faults  atomic.Int32 // lines of the log at level error
	logEnd  chan struct{}
}

// startServer starts `mobilegate serve` with its defaults, the settings given (NAME=VALUE) and nothing else from the
// environment, on the processors given or on all.
func startServer(tb testing.TB, cpus []int, settings ...string) *server {
	tb.Helper()
	return gateway.start(tb, cpus, settings...)
}

// start is startServer for any program.
func (p program) start(tb testing.TB, cpus []int, settings ...string) *server {
	tb.Helper()
	path, err := p.path()
	require.NoError(tb, err)
	s := &server{tb: tb, cmd: exec.Command(path, p.args...), logEnd: make(chan struct{})}
	s.cmd.Env = append([]string{"MOBILE_TOKEN=" + token, "MOBILE_PORT=0", "MOBILE_LOG_FORMAT=json"}, settings...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := s.cmd.StderrPipe()
	require.NoError(tb, err)
	require.NoError(tb, startOn(s.cmd, cpus))
	s.pid = s.cmd.Process.Pid
	tb.Cleanup(s.stop)
	address := make(chan string, 1)
	go s.follow(log, address)
	select {
	case s.address = <-address:
	case <-time.After(20 * time.Second):
	}
	require.NotEmpty(tb, s.address, "the gateway did not start")
	return s
}

// follow reads the log to its end.
func (s *server) follow(log io.Reader, address chan<- string) {
	defer close(s.logEnd)
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var line struct{ Level, Msg, URL string }
		json.Unmarshal(lines.Bytes(), &line)
		if line.Msg == "listening" {
			address <- strings.TrimSuffix(strings.TrimPrefix(line.URL, "ws://"), "/ws")
		}
		if line.Level == "ERROR" {
			s.faults.Add(1)
			fmt.Fprintln(os.Stderr, "gateway:", lines.Text())
		}
	}
}

// stop ends the gateway; it must have had no fault.
func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(20*time.Second, func() { s.cmd.Process.Kill() })
	<-s.logEnd
	err := s.cmd.Wait()
	late.Stop()
	if err != nil || s.faults.Load() > 0 {
		s.tb.Errorf("the gateway ended with %v and %d errors in its log", err, s.faults.Load())
	}
}

// startOn starts cmd on the processors given: a process inherits them from the thread that starts it, so that the gateway
// counts its processors right.
func startOn(cmd *exec.Cmd, cpus []int) error {
	if len(cpus) == 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, wanted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for _, cpu := range cpus {
		wanted.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		return err
	}
	defer unix.SchedSetaffinity(0, &before)
	return cmd.Start()
}

// memory is what a process holds, in bytes.
type memory struct{ rss, anonymous int }

// memory reads smaps_rollup: unlike VmRSS it is exact to the page, and 64 pages more or less are 87 bytes a device in the
// smallest fleet here.
func (s *server) memory() (m memory) {
	for line := range strings.Lines(s.proc("smaps_rollup")) {
		f := strings.Fields(line)
		switch f[0] {
		case "Rss:":
			m.rss = s.number(f[1]) << 10
		case "Anonymous:":
			m.anonymous = s.number(f[1]) << 10
		}
	}
	return m
}

// settled waits until the gateway's memory is at rest, and says what it holds then. It returns what it does not need after
// up to ten quiet seconds, so memory that stays the same for less than that is no proof.
func (s *server) settled() memory {
	const (
		quiet    = 11 * time.Second
		patience = 40 * time.Second
		same     = 64 << 10
	)
	m, began, since := s.memory(), time.Now(), time.Now()
	for time.Since(since) < quiet {
		if time.Since(began) > patience {
			s.tb.Logf("memory was not at rest after %v", patience)
			return s.memory()
		}
		time.Sleep(500 * time.Millisecond)
		if now := s.memory(); max(now.rss-m.rss, m.rss-now.rss) > same {
			m, since = now, time.Now()
		}
	}
	return s.memory()
}

// load is what a process has used of the processors since it began.
type load struct {
	cpu      time.Duration // user and system
	switches int           // of contexts, voluntary and not
	waits    int           // the voluntary ones
}

func (s *server) load() (l load) {
	const cpuClock = 2 // clock_getcpuclockid(3): the clock of all that the scheduler gave to a process, in nanoseconds
	var used unix.Timespec
	require.NoError(s.tb, unix.ClockGettime(int32(^s.pid<<3|cpuClock), &used), "the server is gone")
	l.cpu = time.Duration(used.Nano())
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.pid))
	require.NoError(s.tb, err)
	for _, t := range tasks {
		for line := range strings.Lines(s.proc("task/" + t.Name() + "/status")) {
			switch name, value, _ := strings.Cut(line, ":"); name {
			case "voluntary_ctxt_switches":
				l.waits += s.number(value)
			case "nonvoluntary_ctxt_switches":
				l.switches += s.number(value)
			}
		}
	}
	l.switches += l.waits
	return l
}

func (s *server) threads() int {
	_, after, _ := strings.Cut(s.proc("status"), "\nThreads:")
	value, _, _ := strings.Cut(after, "\n")
	return s.number(value)
}

// descriptors is the number of open ones; connections are all but a few.
func (s *server) descriptors() int {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid))
	require.NoError(s.tb, err)
	return len(all)
}

func (s *server) proc(file string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.pid, file))
	require.NoError(s.tb, err, "the gateway is gone")
	return string(bytes.TrimSpace(b))
}

func (s *server) number(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(s.tb, err)
	return n
}
