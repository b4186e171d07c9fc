package loadtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Sample is what a server used up to a moment.
type Sample struct {
	At         time.Time
	RSS        int64         // bytes
	CPU        time.Duration // user and system
	Switches   int64         // of contexts, voluntary and not, of the threads that live; 0: not known
	Goroutines int64         // 0: not known
	Files      int64         // descriptors that are open; 0: not known
}

// Watch looks at a server from time to time, until Stop.
type Watch struct {
	look  func(context.Context) (Sample, error)
	every time.Duration
	once  bool // a look that failed is the last
	quit  context.CancelFunc
	done  sync.WaitGroup
	now   atomic.Pointer[usage]

	samples          []Sample
	failed           int           // looks
	why              error         // the last one did
	counted, earlier time.Duration // processor time: since the server's start, and before that
	anew             bool          // it was started anew
}

// usage is what a server uses at the moment.
type usage struct {
	rss   int64
	cores float64
}

// start takes the first sample and those that follow.
func (w *Watch) start() error {
	ctx, quit := context.WithCancel(context.Background())
	w.quit = quit
	s, err := w.look(ctx)
	if err != nil {
		quit()
		return err
	}
	w.add(s)
	w.done.Go(func() { w.run(ctx) })
	return nil
}

func (w *Watch) run(ctx context.Context) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !w.take(ctx) && w.once {
			return
		}
	}
}

// take takes a sample, and notes if there is none.
func (w *Watch) take(ctx context.Context) bool {
	s, err := w.look(ctx)
	switch {
	case err == nil:
		w.add(s)
	case ctx.Err() == nil:
		w.failed, w.why = w.failed+1, err
	}
	return err == nil
}

func (w *Watch) add(s Sample) {
	if s.CPU < w.counted {
		w.anew = true
		w.earlier += w.counted
	}
	w.counted = s.CPU
	s.CPU += w.earlier
	if n := len(w.samples); n > 0 {
		last := w.samples[n-1]
		w.now.Store(&usage{s.RSS, float64(s.CPU-last.CPU) / float64(max(s.At.Sub(last.At), 1))})
	}
	w.samples = thin(append(w.samples, s), func(a, b Sample) Sample {
		b.RSS, b.Goroutines, b.Files = max(a.RSS, b.RSS), max(a.Goroutines, b.Goroutines), max(a.Files, b.Files)
		return b
	})
}

// Tell adds what the server uses to a moment.
func (w *Watch) Tell(m *Moment) {
	if u := w.now.Load(); u != nil {
		m.RSS, m.Cores = u.rss, u.cores
	}
}

// Stop ends the watch and returns what was seen, and in words what was not.
func (w *Watch) Stop() (samples []Sample, lost string) {
	w.quit()
	w.done.Wait()
	if !w.once || w.failed == 0 {
		w.take(context.Background())
	}
	switch {
	case w.failed > 0:
		lost = fmt.Sprintf("looks at the server that failed: %d, the last with: %s", w.failed, w.why)
		if w.once {
			lost = "the server's process ended meanwhile"
		}
	case w.anew:
		lost = "the server was started anew meanwhile"
	}
	return w.samples, lost
}

// ServerUse is what the server used, beside what it was asked for.
type ServerUse struct {
	Before, Ready, Most int64         // RSS in bytes: before the first connection, when measuring began, and at most
	Goroutines, Files   int64         // at most; 0: not known
	CPU                 time.Duration // while measuring
	Switches            int64         // while measuring
	Seen                time.Duration // of what was measured
}

// Use adds what was seen of the server, and a note of what was not.
func (r *Report) Use(samples []Sample, lost string) {
	r.Samples, r.Lost = samples, lost
	r.Server = use(samples, &r.Window, r.Began, samples[len(samples)-1].At)
	if len(r.Phases) == 0 {
		return
	}
	r.Server.CPU, r.Server.Switches, r.Server.Seen = 0, 0, 0
	for i := range r.Phases {
		p := &r.Phases[i]
		p.Server = use(samples, &p.Window, p.Began, p.From.Add(p.Measured))
		r.Server.CPU += p.Server.CPU
		r.Server.Switches += p.Server.Switches
		r.Server.Seen += p.Server.Seen
	}
}

// use is what was used in w, and at most between begin and end.
func use(samples []Sample, w *Window, begin, end time.Time) *ServerUse {
	first, last := samples[0], samples[len(samples)-1]
	from, to := at(samples, w.From), at(samples, w.From.Add(w.Measured))
	u := &ServerUse{Before: first.RSS, Ready: from.RSS, Most: max(from.RSS, to.RSS), CPU: to.CPU - from.CPU, Switches: to.Switches - from.Switches}
	u.Seen = max(earlier(to.At, last.At).Sub(from.At), 0)
	for _, s := range samples {
		if !s.At.Before(begin) && !s.At.After(end) {
			u.Most, u.Goroutines, u.Files = max(u.Most, s.RSS), max(u.Goroutines, s.Goroutines), max(u.Files, s.Files)
		}
	}
	return u
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
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
func (w *Window) perDevice() float64 {
	return float64(w.Server.Ready-w.Server.Before) / float64(max(w.There, 1))
}

// perMessage is what is used for one of the measured messages; ok is false when there was none.
func (w *Window) perMessage() (cpu time.Duration, switches float64, ok bool) {
	n := w.Figures.Spans[Last].TotalCount()
	if n == 0 || w.Server == nil {
		return 0, 0, false
	}
	return w.Server.CPU / time.Duration(n), float64(w.Server.Switches) / float64(n), true
}

// serverNames are the figures of the server, for conditions.
var serverNames = []string{"server.rss", "server.rss_per_device", "server.cores", "server.cpu_per_message", "server.switches_per_message", "server.goroutines", "server.fds"}

func (w *Window) serverFigure(name string) figure {
	f := figure{known: slices.Contains(serverNames, "server."+name), none: true}
	switch name {
	case "rss", "rss_per_device":
		f.unit = size
	case "cpu_per_message":
		f.unit = duration
	}
	u := w.Server
	if u == nil || u.Seen == 0 && w.Measured > 0 {
		return f
	}
	cpu, switches, ok := w.perMessage()
	switch name {
	case "rss":
		f.value, f.none = float64(u.Most), u.Most == 0
	case "rss_per_device":
		f.value, f.none = w.perDevice(), w.There == 0
	case "cores":
		f.value, f.none = u.cores(), u.Seen == 0
	case "cpu_per_message":
		f.value, f.none = float64(cpu)/float64(time.Microsecond), !ok
	case "switches_per_message":
		f.value, f.none = switches, !ok || u.Switches == 0
	case "goroutines":
		f.value, f.none = float64(u.Goroutines), u.Goroutines == 0
	case "fds":
		f.value, f.none = float64(u.Files), u.Files == 0
	}
	return f
}

// cores is how many processors were used on the average while measuring.
func (u *ServerUse) cores() float64 { return float64(u.CPU) / float64(max(u.Seen, 1)) }
