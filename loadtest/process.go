package loadtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// interval of the looks at a process.
const interval = 250 * time.Millisecond

// NewWatch begins to watch the process with the id, of this machine.
func NewWatch(pid int) (*Watch, error) {
	w := &Watch{every: interval, once: true, look: func(context.Context) (Sample, error) { return sample(pid) }}
	if w.start() != nil {
		return nil, usagef("there is no process %d that can be looked at here", pid)
	}
	return w, nil
}

// sample reads what the kernel says of a process; processor time to 10 ms.
func sample(pid int) (s Sample, err error) {
	folder := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(folder + "stat")
	if err != nil {
		return s, err
	}
	s.At = time.Now()
	// The name of the program, in brackets, may hold anything.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 22 {
		return s, fmt.Errorf("%sstat has another form", folder)
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	pages, err3 := strconv.ParseInt(f[21], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return s, fmt.Errorf("%sstat has another form", folder)
	}
	s.CPU = time.Duration(user+system) * 10 * time.Millisecond
	s.RSS = pages * int64(os.Getpagesize())
	threads, err := os.ReadDir(folder + "task")
	if err != nil {
		return s, err
	}
	for _, t := range threads {
		status, _ := os.ReadFile(folder + "task/" + t.Name() + "/status") // a thread may end meanwhile
		for line := range strings.Lines(string(status)) {
			if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
				n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				s.Switches += n
			}
		}
	}
	return s, nil
}
