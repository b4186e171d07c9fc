package loadtest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// Exit statuses.
const (
	ExitOK          = 0
	ExitWrong       = 1   // an answer was lost, came twice, out of order or to another device; or the gateway dropped a device
	ExitUsage       = 2   // the command line is wrong
	ExitUnreachable = 3   // not every device could become ready
	ExitSaturated   = 4   // the generator was the bottleneck: the figures are its own
	ExitThreshold   = 99  // a --fail did not hold
	ExitInterrupted = 130 // the run was cut short
)

// Report is what came of a run.
type Report struct {
	Config      Config // as it was run; without the token
	Run         string
	Began       time.Time
	Took        time.Duration
	From        time.Time // when measuring began
	Measured    time.Duration
	Figures     *Figures
	Interrupted bool
	Generator   Generator
	Series      []Moment   // how it went, second by second
	Samples     []Sample   // of the server's process
	Server      *ServerUse // nil: it was not looked at
	Failed      []string   // thresholds that did not hold
}

// Generator is how the generator itself fared.
type Generator struct {
	CPU       time.Duration // of the whole run
	Busy      float64       // share of the measured time in which the loop was not waiting
	Missed    int64         // messages that were due and never sent, for want of time
	StartLag  time.Duration // how late the last connection was begun
	Saturated string        // why it was the bottleneck; empty when it was not
}

func (f *fleet) report(interrupted bool, began time.Time, cpu time.Duration) *Report {
	r := &Report{Config: f.cfg, Run: f.run, Began: began, Took: time.Since(began), From: f.start.Add(f.from), Measured: max(f.upTo-f.from, 0), Figures: f.figures,
		Interrupted: interrupted, Generator: Generator{CPU: cpu, Busy: f.busy, Missed: f.missed, StartLag: f.startLag}}
	if f.from == 0 {
		r.Measured = 0 // the ramp did not end
	}
	r.Config.Token, r.Config.Second = "", nil
	r.Generator.Saturated = r.saturated()
	return r
}

// From here on the generator is the bottleneck.
const (
	maxLag      = 20 * time.Millisecond // of sends, at p99
	maxBusy     = 0.95                  // of the loop
	maxStartLag = time.Second           // of connections
)

func (r *Report) saturated() string {
	lag, _ := stat(r.Figures.Spans[Lag], "p99")
	switch g := r.Generator; {
	case g.Missed > 0:
		return fmt.Sprintf("%d messages were due and never sent", g.Missed)
	case lag > float64(maxLag.Microseconds()):
		return fmt.Sprintf("1 %% of the messages left over %s late", micros(lag))
	case g.Busy > maxBusy:
		return fmt.Sprintf("its loop was busy for %.0f %% of the time", 100*g.Busy)
	case g.StartLag > maxStartLag:
		return fmt.Sprintf("it could not begin %g connections a second: the last was %s late", r.Config.ConnectRate, micros(float64(g.StartLag.Microseconds())))
	}
	return ""
}

// Exit is the exit status that the report stands for.
func (r *Report) Exit() int {
	c := &r.Figures.Counts
	switch {
	case r.Interrupted:
		return ExitInterrupted
	case c[Online] == 0:
		return ExitUnreachable
	case r.Figures.faults() > 0:
		return ExitWrong
	case c[Missing] > 0:
		return ExitUnreachable
	case r.Generator.Saturated != "":
		return ExitSaturated
	case len(r.Failed) > 0:
		return ExitThreshold
	}
	return ExitOK
}

var verdicts = map[int]string{ExitOK: "ok", ExitWrong: "the gateway did wrong", ExitUnreachable: "not every device became ready",
	ExitSaturated: "the generator was the bottleneck", ExitThreshold: "over a threshold", ExitInterrupted: "interrupted"}

// rate is how many measured messages a second were answered.
func (r *Report) rate() float64 {
	if r.Measured <= 0 {
		return 0
	}
	return float64(r.Figures.Spans[Last].TotalCount()) / r.Measured.Seconds()
}

// WriteText writes the report for a person.
func (r *Report) WriteText(out io.Writer) error {
	var text bytes.Buffer
	w := &text
	c, f := r.Config, r.Figures
	fmt.Fprintf(w, "%s against %s: %d devices", c.Scenario, c.URL, c.Devices)
	if c.Rate > 0 {
		fmt.Fprintf(w, ", %g messages a second", c.Rate)
	}
	fmt.Fprintf(w, ", measured for %s (seed %d, run %s)\n\n", r.Measured.Round(time.Millisecond), c.Seed, r.Run)
	f.writeSpans(w)
	var said []string
	for i, n := range f.Counts {
		if n > 0 || i == Online || i == Lost {
			said = append(said, fmt.Sprintf("%s %d", countNames[i], n))
		}
	}
	fmt.Fprintf(w, "\n%s\n", strings.Join(said, "  "))
	if r.rate() > 0 {
		fmt.Fprintf(w, "answered %.1f a second\n", r.rate())
	}
	for _, what := range f.sortedNotes() {
		fmt.Fprintf(w, "%8d  %s\n", f.Notes[what], what)
	}
	fmt.Fprintf(w, "generator: %s of processor time, its loop busy for %.0f %% of what was measured\n", r.Generator.CPU.Round(time.Millisecond), 100*r.Generator.Busy)
	r.writeServer(w)
	if f.Notes["error rate_limited"] > 0 {
		fmt.Fprintln(w, "the gateway kept to its quotas: start it with MOBILE_QUOTA=off to see what it can do")
	}
	if r.Generator.Saturated != "" {
		fmt.Fprintf(w, "the generator was the bottleneck: %s\n", r.Generator.Saturated)
	}
	for _, t := range r.Failed {
		fmt.Fprintf(w, "does not hold: %s\n", t)
	}
	fmt.Fprintf(w, "\n%s\n", verdicts[r.Exit()])
	_, err := text.WriteTo(out)
	return err
}

// writeSpans writes the table of times.
func (f *Figures) writeSpans(w io.Writer) {
	fmt.Fprintf(w, "%-9s", "")
	for _, s := range statNames {
		fmt.Fprintf(w, " %9s", s)
	}
	fmt.Fprintln(w)
	for i, h := range f.Spans {
		if h.TotalCount() == 0 {
			continue
		}
		fmt.Fprintf(w, "%-9s", spanNames[i])
		for _, s := range statNames {
			v, _ := stat(h, s)
			if s == "count" {
				fmt.Fprintf(w, " %9.0f", v)
			} else {
				fmt.Fprintf(w, " %9s", micros(v))
			}
		}
		fmt.Fprintln(w)
	}
}

func (r *Report) writeServer(w io.Writer) {
	u := r.Server
	if u == nil {
		return
	}
	fmt.Fprintf(w, "server: %.1f MiB before, %.1f MiB when all were there (%.0f bytes a device), %.1f MiB at most", mib(u.Before), mib(u.Ready), r.perDevice(), mib(u.Most))
	if cpu, switches, ok := r.perMessage(); ok {
		fmt.Fprintf(w, "; for each message %s of processor time and %.2f context switches", micros(float64(cpu.Nanoseconds())/1000), switches)
	} else {
		fmt.Fprintf(w, "; while measuring %s of processor time", u.CPU)
	}
	fmt.Fprintln(w)
	if u.Gone {
		fmt.Fprintln(w, "the server's process ended meanwhile")
	}
}

// micros is a time in microseconds, for a person.
func micros(us float64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%.0fµs", us)
	case us < 10_000:
		return fmt.Sprintf("%.2fms", us/1000)
	case us < 1e6:
		return fmt.Sprintf("%.0fms", us/1000)
	}
	return fmt.Sprintf("%.2fs", us/1e6)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
