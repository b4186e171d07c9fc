package engine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// crowdVariable makes the test binary a server with few descriptors, see TestMain.
const (
	crowdVariable = "MOBILEGATE_TEST_CROWD"
	crowdLimit    = 256
	crowdSize     = 600
)

// serveCrowd is the child: it serves until its input ends, and says on its output on which port, and how it ended.
func serveCrowd() {
	limit := unix.Rlimit{Cur: crowdLimit, Max: crowdLimit}
	must(unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	desk := newDesk()
	desk.owner = func(p *owner) {
		p.message = func(c Conn, b *Buffer) {
			if string(b.B) == "stall" {
				time.Sleep(10 * time.Millisecond) // a loop that is late is what the test is about
			}
			echo(c, b)
		}
	}
	s := New(Config{Host: "127.0.0.1", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, desk)
	must(s.Start())
	fmt.Println(s.Port(), s.MaxConnections())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Stop(context.Background())
	}()
	<-s.Ended()
	fmt.Println("ended:", s.Err(), s.stopping.Load())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// crowdServer is the parent's view of the child.
type crowdServer struct {
	addr string
	room int
	said *bufio.Reader
	quit io.Closer
}

func startCrowdServer(t *testing.T) *crowdServer {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), crowdVariable+"=1")
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		in.Close()
		_ = child.Wait()
	})
	s := &crowdServer{said: bufio.NewReader(out), quit: in}
	port := 0
	_, err = fmt.Fscanln(s.said, &port, &s.room)
	require.NoError(t, err)
	s.addr = fmt.Sprintf("127.0.0.1:%d", port)
	return s
}

// tries connects and asks for an upgrade. It answers the status, or 0 for a connection that was not taken or was closed.
func (s *crowdServer) tries() (status int, c net.Conn) {
	c, err := net.DialTimeout("tcp4", s.addr, 3*time.Second)
	if err != nil {
		return 0, nil
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err = io.WriteString(c, goodRequest); err == nil {
		var line [len("HTTP/1.1 101")]byte
		if _, err = io.ReadFull(c, line[:]); err == nil {
			_, _ = fmt.Sscanf(string(line[:]), "HTTP/1.1 %d", &status)
		}
	}
	return status, c
}

// enters is a device that is in, once there is room.
func (s *crowdServer) enters(t *testing.T) *device {
	t.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); {
		status, c := s.tries()
		if status == 101 {
			d := newDevice(t, c)
			_, err := d.r.ReadString('\n')
			for line := "-"; line != "\r\n"; {
				require.NoError(t, err)
				line, err = d.r.ReadString('\n')
			}
			d.put(text("hello"))
			d.wants("text hello")
			return d
		}
		if c != nil {
			c.Close()
		}
	}
	require.FailNow(t, "a newcomer is not let in")
	return nil
}

// A crowd of several times what the descriptors allow, again and again, while the loop is late: who is in goes on, who is not
// is told so or closed, the server does not end, and afterwards newcomers are welcome.
func TestCrowd(t *testing.T) {
	t.Parallel()
	s := startCrowdServer(t)
	require.Less(t, s.room, crowdLimit)
	var inside []*device
	for range s.room / 2 {
		inside = append(inside, s.enters(t))
	}
	var crowded atomic.Bool
	var talking sync.WaitGroup
	for i, d := range inside[:10] {
		talking.Go(func() {
			for n := 0; !crowded.Load(); n++ {
				words := "busy"
				if i == 0 && n%10 == 0 {
					words = "stall"
				}
				if _, err := d.Write(text(words)); err != nil || d.hears() != "text "+words {
					t.Errorf("device %d, who was in, is disturbed: %v", i, err)
					return
				}
			}
		})
	}
	for range 3 {
		answers := s.rush()
		for status, n := range answers {
			require.Contains(t, []int{0, 101, 503}, status, n)
		}
		require.LessOrEqual(t, answers[101], s.room-len(inside))
		require.Positive(t, answers[503]+answers[0])
	}
	crowded.Store(true)
	talking.Wait()
	for _, d := range inside {
		d.put(text("still here"))
		d.wants("text still here")
	}
	s.enters(t).put(text("welcome"))
	s.quit.Close()
	rest, err := io.ReadAll(s.said)
	require.NoError(t, err)
	require.Equal(t, "ended: <nil> true", strings.TrimSpace(string(rest)))
}

// rush lets a crowd in at the same time and out again, and counts what it was told.
func (s *crowdServer) rush() map[int]int {
	var mu sync.Mutex
	answers := map[int]int{}
	var crowd sync.WaitGroup
	var all []net.Conn
	for range crowdSize {
		crowd.Go(func() {
			status, c := s.tries()
			mu.Lock()
			defer mu.Unlock()
			answers[status]++
			if c != nil {
				all = append(all, c)
			}
		})
	}
	crowd.Wait()
	for _, c := range all {
		c.Close()
	}
	return answers
}
