// Package interop tries the built binary as the world meets it: devices on WebSocket clients that nobody here wrote, and
// the operator who starts it, reads its log and stops it.
//
// The cache of go test does not see what the binary is built from: use -shuffle=on, as make test does, or -count=1.
package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	token = "s3cret-t0ken-of-the-operator"
	late  = 30 * time.Second // only a failing test takes so long
)

var binary string // mobilegate, built for these tests

func TestMain(m *testing.M) {
	if what := os.Getenv(conversing); what != "" {
		talk(what)
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mobilegate-interop-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "mobilegate")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X main.release=v9.8.7 -X main.buildCommit=c0ffee5", "-o", binary, "mobilegate/cmd/mobilegate")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the gateway does not build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// screen collects what is written to it and lets a test wait for it.
type screen struct {
	mu   sync.Mutex
	text string
	more chan struct{} // closed and replaced on each write
}

func newScreen() *screen { return &screen{more: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(p)
	close(s.more)
	s.more = make(chan struct{})
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// await waits until what matches pattern stands on the screen, and returns it with its groups. It returns nil when end is
// closed before that.
func (s *screen) await(t *testing.T, pattern string, end <-chan struct{}) []string {
	t.Helper()
	expr := regexp.MustCompile(pattern)
	for deadline := time.After(late); ; {
		s.mu.Lock()
		text, more := s.text, s.more
		s.mu.Unlock()
		if found := expr.FindStringSubmatch(text); found != nil {
			return found
		}
		select {
		case <-more:
		case <-end:
			return expr.FindStringSubmatch(s.String())
		case <-deadline:
			require.FailNow(t, "it was not said", "%s is not in %q", pattern, text)
		}
	}
}

// process is a running mobilegate, or another program that a test needs.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, log *screen
	ended    chan struct{}
}

// environment is what a process gets of this one's: no MOBILE_ variable that is set here by chance.
func environment(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TERM=dumb"}, more...)
}

// start runs mobilegate with env and args.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return run(t, binary, env, args...)
}

// run runs a program, which is killed at the end of the test if it still runs then.
func run(t *testing.T, program string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), out: newScreen(), log: newScreen(), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = environment(env...), p.out, p.log
	require.NoError(t, p.cmd.Start())
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s says:\n%s%s", strings.Join(args, " "), p.out, p.log)
		}
	})
	return p
}

// exits waits for the end of the process, which must have this status.
func (p *process) exits(status int) {
	p.t.Helper()
	select {
	case <-p.ended:
		require.Equal(p.t, status, p.cmd.ProcessState.ExitCode(), p.log)
	case <-time.After(late):
		require.FailNow(p.t, "still running")
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// gateway is a running `mobilegate serve`.
type gateway struct {
	*process
	url string // of the WebSocket entry
}

// serve starts a gateway on a free port, with token unless env has another one, and waits until it listens.
func serve(t *testing.T, env ...string) *gateway {
	t.Helper()
	g := &gateway{process: start(t, append([]string{"MOBILE_PORT=0", "MOBILE_TOKEN=" + token}, env...), "serve")}
	g.listens()
	return g
}

// listens waits until the log tells the address, which holds for both formats.
func (g *gateway) listens() {
	g.t.Helper()
	said := g.log.await(g.t, `url"?[=:]"?(ws://[^" ]+/ws)\b`, g.ended)
	require.NotNil(g.t, said, "the gateway has ended: %s", g.log)
	g.url = said[1]
}

func (g *gateway) address() string {
	return strings.TrimSuffix(strings.TrimPrefix(g.url, "ws://"), "/ws")
}

// stop ends the gateway as an operator does; it must go in peace.
func (g *gateway) stop() {
	g.t.Helper()
	g.signal(syscall.SIGTERM)
	g.exits(0)
}
