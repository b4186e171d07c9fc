package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// conversation is what well-behaved devices do while others do what they should not: each says something every second and
// waits for the answer. They live in a process of their own, so that what is measured is the gateway, not this process.
type conversation struct {
	t     *testing.T
	child *exec.Cmd
	stdin io.Closer // its end is the end
	out   *json.Decoder
}

// pace is what such a process tells: once when every device has had an answer, and once at the end.
type pace struct {
	Times []time.Duration // from a text to its answer
	Fault string          // the first that was seen
}

const conversing = "MOBILEGATE_TEST_CONVERSATION" // set for such a process: address, number of devices

// converse lets devices talk. It returns when each has had an answer.
func converse(t *testing.T, address string, devices int) *conversation {
	t.Helper()
	c := &conversation{t: t, child: exec.Command(os.Args[0])}
	c.child.Env = environment(fmt.Sprintf("%s=%s %d", conversing, address, devices))
	c.child.Stderr = os.Stderr
	var err error
	c.stdin, err = c.child.StdinPipe()
	require.NoError(t, err)
	out, err := c.child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.child.Start())
	t.Cleanup(func() {
		c.child.Process.Kill()
		c.child.Wait()
	})
	c.out = json.NewDecoder(out)
	c.next()
	return c
}

// next is what was seen since the last time. Nobody may have been disturbed.
func (c *conversation) next() []time.Duration {
	c.t.Helper()
	var p pace
	require.NoError(c.t, c.out.Decode(&p))
	require.Empty(c.t, p.Fault)
	slices.Sort(p.Times)
	return p.Times
}

// end ends the conversation and returns how long its turns took, sorted.
func (c *conversation) end() []time.Duration {
	c.t.Helper()
	c.stdin.Close()
	return c.next()
}

// talker is the process of a conversation.
type talker struct {
	mu sync.Mutex
	pace
	over chan struct{}
}

// talk is the main function of such a process.
func talk(what string) {
	address, number, _ := strings.Cut(what, " ")
	devices, _ := strconv.Atoi(number)
	t := &talker{over: make(chan struct{})}
	var begun, all sync.WaitGroup
	for i := range devices {
		begun.Add(1)
		all.Go(func() {
			l, err := openLine(address, fmt.Sprint("paced-", i))
			if err != nil {
				t.note(0, err)
				begun.Done()
				return
			}
			defer l.Close()
			t.turn(l, 0)
			begun.Done()
			t.every(time.Second, l)
		})
	}
	begun.Wait()
	t.tell()
	io.Copy(io.Discard, os.Stdin)
	close(t.over)
	all.Wait()
	t.tell()
}

func (t *talker) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	json.NewEncoder(os.Stdout).Encode(t.pace)
	t.Times = nil
}

func (t *talker) every(interval time.Duration, l *line) {
	for n, wait := 1, rand.N(interval); ; n, wait = n+1, interval {
		select {
		case <-t.over:
			return
		case <-time.After(wait):
			t.turn(l, n)
		}
	}
}

func (t *talker) turn(l *line, n int) {
	begun := time.Now()
	l.SetDeadline(begun.Add(late))
	err := l.send(fmt.Appendf(nil, `{"t":"text","id":"%d","text":"turn %d"}`, n, n))
	head := ""
	if err == nil {
		head, err = l.awaitMessage()
	}
	if err == nil && !strings.Contains(head, fmt.Sprintf(`"turn %d"`, n)) {
		err = errors.New("another answer: " + head)
	}
	t.note(time.Since(begun), err)
}

func (t *talker) note(took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Times = append(t.Times, took); err != nil && t.Fault == "" {
		t.Fault = err.Error()
	}
}
