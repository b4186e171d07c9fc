package interop

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fullLoad is set for the numbers that the gateway must bear, on a machine that has nothing else to do. Without it the same
// happens with a few devices, to see that all of it works.
var fullLoad = os.Getenv("MOBILEGATE_LOAD") == "1"

// siege is a gateway that some devices take more from than their share, while others go on with their conversations.
type siege struct {
	t *testing.T
	*gateway

	mu       sync.Mutex
	outcomes map[string]int // of the hostile devices
}

// count notes what became of a hostile device.
func (s *siege) count(outcome string) {
	s.mu.Lock()
	s.outcomes[outcome]++
	s.mu.Unlock()
}

// ended notes how a connection ended: with the words of the gateway, or without any.
func (s *siege) ended(err error) {
	var words goodbye
	if errors.As(err, &words) {
		s.count(words.Error())
	} else {
		s.count("cut off")
	}
}

// clear are the outcomes that a hostile device may see: each tells it to come again later.
var clear = []string{"done", "rate_limited", "1013 overloaded", "1013 slow_sender", "1013 slow_consumer"}

// each runs so many hostile devices at once, and returns when all are done.
func (s *siege) each(n int, run func(id string)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { run(fmt.Sprint("hostile-", i)) })
	}
	all.Wait()
}

func TestHostile(t *testing.T) {
	for _, c := range []struct {
		name      string
		few, many int // devices
		attack    func(s *siege, devices int)
		most      float64 // MiB of RSS more than before, at most
	}{
		{"uploads", 10, 200, uploads, 512 + 256 + 2*512 + 64 + 32}, // the budgets by default: messages, what waits for devices, files (twice), texts, strangers
		{"stalled messages", 40, 2000, stalledMessages, 512 + 32},  // that of messages, and 2 000 connections
		{"deaf devices", 4, 20, deafDevices, 96},
	} {
		t.Run(c.name, func(t *testing.T) {
			devices, paced, slowest := c.few, 20, 2*time.Second
			if fullLoad {
				devices, paced, slowest = c.many, 100, 100*time.Millisecond
			} else {
				t.Parallel()
			}
			s := &siege{t: t, gateway: serve(t), outcomes: map[string]int{}}
			others := converse(t, s.address(), paced)
			before := s.memory("VmRSS")
			begun := time.Now()
			c.attack(s, devices)
			lasted := time.Since(begun)
			times := others.end()
			peak := s.memory("VmHWM") - before
			p99 := times[len(times)*99/100]
			after := s.calmsDown(before)
			t.Logf("%d devices in %v: %v. RSS %.0f MiB before, %.0f more at the peak, %.0f more afterwards. %d turns of %d others: median %v, p99 %v, longest %v",
				devices, lasted.Round(time.Second/10), s.outcomes, before, peak, after, len(times), paced, times[len(times)/2], p99, times[len(times)-1])
			for outcome := range s.outcomes {
				require.Contains(t, clear, outcome)
			}
			require.Less(t, peak, c.most)
			require.Less(t, p99, slowest)
			s.stop()
		})
	}
}

// memory is a figure of the process in MiB: VmRSS, or VmHWM, the most that VmRSS ever was.
func (s *siege) memory(figure string) float64 {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	require.NoError(s.t, err)
	found := regexp.MustCompile(figure + `:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(s.t, found)
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(s.t, err)
	return kib / 1024
}

// calmsDown waits until the process takes little more than before, and returns how much more.
func (s *siege) calmsDown(before float64) (more float64) {
	s.t.Helper()
	const near = 24 // MiB
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second / 4) {
		if more = s.memory("VmRSS") - before; more < near {
			return more
		}
		require.True(s.t, time.Now().Before(deadline), "%.0f MiB are not given back", more)
	}
}

// part of a file: three make 8 MiB.
var part = []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("part"), 8<<20/3/4)))

// uploads: every device uploads 8 MiB in three chunks, at once, and hears the file back. Who is refused comes again later.
func uploads(s *siege, devices int) {
	s.each(devices, func(id string) {
		patience := time.Now().Add(3 * time.Minute)
		for pause := time.Second / 2; time.Now().Before(patience); pause = min(2*pause, 8*time.Second) {
			err := s.upload(id)
			if err == nil {
				s.count("done")
				return
			}
			s.ended(err)
			time.Sleep(pause/2 + rand.N(pause))
		}
		s.count("never done")
	})
}

var retryAfter = regexp.MustCompile(`"code":"rate_limited".*"retry_after_ms":([1-9]\d*)`)

func (s *siege) upload(id string) error {
	l, err := openLine(s.address(), id)
	if err != nil {
		return err
	}
	defer l.Close()
	l.SetDeadline(time.Now().Add(2 * time.Minute))
	again := make(chan time.Duration, 100)
	again <- 0
	defer close(again)
	go func() {
		for wait := range again {
			time.Sleep(wait)
			for i := range 3 {
				head := fmt.Appendf(nil, `{"t":"media","id":"file","kind":"document","filename":"f","part":%d,"parts":3,"data":"`, i)
				if l.send(head, part, []byte(`"}`)) != nil {
					return // the gateway says why
				}
			}
		}
	}()
	for {
		head, _, err := l.hear()
		switch limited := retryAfter.FindStringSubmatch(head); {
		case err != nil:
			return err
		case limited != nil:
			s.count("rate_limited")
			wait, _ := strconv.Atoi(limited[1])
			if len(again) == 0 {
				again <- time.Duration(wait) * time.Millisecond
			}
		case strings.HasPrefix(head, `{"t":"error"`):
			return errors.New(head)
		case strings.HasPrefix(head, `{"t":"media"`) && strings.Contains(head, `"final":true`):
			return nil
		}
	}
}

// stalledMessages: every device announces 16 MiB and stops after 100 KiB.
func stalledMessages(s *siege, devices int) {
	begin := append(header(1, 16<<20), bytes.Repeat([]byte(" "), 100<<10)...)
	hold := 5 * time.Second
	if fullLoad {
		hold = 2 * time.Minute // until the gateway has given all of them up
	}
	s.each(devices, func(id string) {
		l, err := openLine(s.address(), id)
		if err != nil {
			s.ended(err)
			return
		}
		defer l.Close()
		if _, err = l.Write(begin); err == nil {
			l.SetReadDeadline(time.Now().Add(hold))
			_, _, err = l.hear()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !fullLoad {
			s.count("done")
			return
		}
		s.ended(err)
	})
}

// deafDevices: every device asks for large files and long replies again and again, and reads nothing until the gateway has given
// it up, which is after 30 s. It then has 5 s to hear why.
func deafDevices(s *siege, devices int) {
	requests, hold := 20, 5*time.Second
	if fullLoad {
		requests, hold = 500, 32*time.Second
	}
	s.each(devices, func(id string) {
		l, err := openLine(s.address(), id)
		if err != nil {
			s.ended(err)
			return
		}
		defer l.Close()
		var wire []byte
		for i := range requests {
			wire = append(wire, text(fmt.Sprintf(`{"t":"text","id":"file %d","text":"/send document 8388608"}`, i))...)
			wire = append(wire, text(fmt.Sprintf(`{"t":"text","id":"long %d","text":"/long 200000"}`, i))...)
		}
		begun := time.Now()
		if _, err := l.Write(wire); err != nil {
			s.count("cut off")
			return
		}
		time.Sleep(time.Until(begun.Add(hold)))
		if !fullLoad {
			s.count("done")
			return
		}
		for l.SetReadDeadline(time.Now().Add(late)); err == nil; {
			_, _, err = l.hear()
		}
		s.ended(err)
	})
}
