package loadtest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Sample is what a process used up to a moment.
type Sample struct {
	At       time.Time
	RSS      int64         // bytes
	CPU      time.Duration // user and system, to 10 ms
	Switches int64         // of contexts, voluntary and not, of the threads that live
}

// Watch samples a process of this machine, four times a second, until Stop.
type Watch struct {
	pid  int
	quit chan struct{}
	done sync.WaitGroup

	samples []Sample
	gone    bool
}

// interval of the samples.
const interval = 250 * time.Millisecond

// NewWatch begins to watch the process with the id.
func NewWatch(pid int) (*Watch, error) {
	w := &Watch{pid: pid, quit: make(chan struct{})}
	s, err := sample(pid)
	if err != nil {
		return nil, usagef("there is no process %d that can be looked at here", pid)
	}
	w.samples = append(w.samples, s)
	w.done.Go(w.run)
	return w, nil
}

func (w *Watch) run() {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
		}
		s, err := sample(w.pid)
		if err != nil {
			w.gone = true
			return
		}
		w.samples = append(w.samples, s)
	}
}

// Stop ends the watch and returns what was seen; gone tells whether the process has ended meanwhile.
func (w *Watch) Stop() (samples []Sample, gone bool) {
	close(w.quit)
	w.done.Wait()
	if s, err := sample(w.pid); err == nil {
		w.samples = append(w.samples, s)
	}
	return w.samples, w.gone
}

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

// ServerUse is what the server used, beside what it was asked for.
type ServerUse struct {
	Before, Ready, Most int64         // RSS in bytes: before the first connection, when measuring began, and at most
	CPU                 time.Duration // while measuring
	Switches            int64         // while measuring
	Gone                bool          // it ended before the run did
}

// Use adds what was seen of the server's process.
func (r *Report) Use(samples []Sample, gone bool) {
	from, to := at(samples, r.From), at(samples, r.From.Add(r.Measured))
	u := &ServerUse{Before: samples[0].RSS, Ready: from.RSS, CPU: to.CPU - from.CPU, Switches: to.Switches - from.Switches, Gone: gone}
	for _, s := range samples {
		u.Most = max(u.Most, s.RSS)
	}
	r.Server, r.Samples = u, samples
}

// at is the state at a moment, between two samples.
func at(samples []Sample, when time.Time) Sample {
	last := samples[0]
	for _, s := range samples {
		if s.At.After(when) {
			part := float64(when.Sub(last.At)) / float64(max(s.At.Sub(last.At), 1))
			part = min(max(part, 0), 1)
			last.RSS += int64(part * float64(s.RSS-last.RSS))
			last.CPU += time.Duration(part * float64(s.CPU-last.CPU))
			last.Switches += int64(part * float64(s.Switches-last.Switches))
			break
		}
		last = s
	}
	last.At = when
	return last
}

// perDevice is the server's memory for each device, in bytes.
func (r *Report) perDevice() float64 {
	return float64(r.Server.Ready-r.Server.Before) / float64(max(r.Figures.Counts[Online], 1))
}

// perMessage is what is used for one of the measured messages; ok is false when there was none.
func (r *Report) perMessage() (cpu time.Duration, switches float64, ok bool) {
	n := r.Figures.Spans[Last].TotalCount()
	if n == 0 || r.Server == nil {
		return 0, 0, false
	}
	return r.Server.CPU / time.Duration(n), float64(r.Server.Switches) / float64(n), true
}
