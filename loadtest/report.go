package loadtest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
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
	Window             // of all phases together
	Config      Config // as it was run; without the token
	Run         string
	Began       time.Time
	Took        time.Duration
	CPU         time.Duration // of the generator, all the time
	Interrupted bool
	Phases      []PhaseReport // that were begun; of a run without a file the only one
	Series      []Moment      // how it went, second by second
	Samples     []Sample      // of the server
	Lost        string        // what could not be seen of it, in words
}

// PhaseReport is what came of a phase.
type PhaseReport struct {
	Window
	Does  Phase
	Began time.Time // with its first call, or the end of the phase before
}

func (f *fleet) report(interrupted bool, began time.Time, cpu time.Duration) *Report {
	r := &Report{Config: f.cfg, Run: f.run, Began: began, Took: time.Since(began), CPU: cpu, Interrupted: interrupted}
	for i := range f.phases[:f.phase.number+1] {
		p := &f.phases[i]
		r.Phases = append(r.Phases, PhaseReport{Window: p.window(f.start), Does: *p.Phase, Began: f.start.Add(p.began)})
	}
	r.Config.Token, r.Config.Second = "", nil
	r.sumUp()
	return r
}

// sumUp makes the whole of the phases.
func (r *Report) sumUp() {
	r.Window = Window{Figures: newFigures()}
	for i := range r.Phases {
		r.behind(&r.Phases[i].Window)
	}
}

// phased tells whether the run was one of a file: its phases are then told one by one.
func (r *Report) phased() bool { return r.Config.Name != "" }

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
	case len(r.failed()) > 0:
		return ExitThreshold
	}
	return ExitOK
}

var verdicts = map[int]string{ExitOK: "ok", ExitWrong: "the gateway did wrong", ExitUnreachable: "not every device became ready",
	ExitSaturated: "the generator was the bottleneck", ExitThreshold: "over a threshold", ExitInterrupted: "interrupted"}

// failed are all conditions that did not hold.
func (r *Report) failed() (all []string) {
	all = append(all, r.Failed...)
	for _, p := range r.Phases {
		for _, t := range p.Failed {
			all = append(all, p.Does.Name+": "+t)
		}
	}
	return all
}

// WriteText writes the report for a person.
func (r *Report) WriteText(out io.Writer) error {
	var text bytes.Buffer
	w := &text
	c, f := r.Config, r.Figures
	fmt.Fprintf(w, "%s against %s: %d devices", c.title(), c.URL, c.Devices)
	if c.Rate > 0 && !r.phased() {
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
	f.writeNotes(w)
	fmt.Fprintf(w, "generator: %s of processor time, its loop busy for %.0f %% of what was measured\n", r.CPU.Round(time.Millisecond), 100*r.Generator.Busy)
	r.writeServer(w)
	r.writePhases(w)
	r.writeReasons(w)
	fmt.Fprintf(w, "\n%s\n", verdicts[r.Exit()])
	_, err := text.WriteTo(out)
	return err
}

// writeNotes writes what went wrong with single messages and devices.
func (f *Figures) writeNotes(w io.Writer) {
	for _, what := range f.sortedNotes() {
		fmt.Fprintf(w, "%8d  %s\n", f.Notes[what], what)
	}
}

// writeReasons writes why the verdict is what it is, and the figures what they are.
func (r *Report) writeReasons(w io.Writer) {
	if r.Figures.Notes["error rate_limited"] > 0 {
		fmt.Fprintln(w, "the gateway kept to its quotas: start it with MOBILE_QUOTA=off to see what it can do")
	}
	if r.Generator.Saturated != "" {
		fmt.Fprintf(w, "the generator was the bottleneck: %s\n", r.Generator.Saturated)
	}
	for _, t := range r.failed() {
		fmt.Fprintf(w, "does not hold: %s\n", t)
	}
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

// phaseColumns are what is told of each phase side by side; all else stands in JSON and CSV.
var phaseColumns = []string{"online", "online.p99", "sent", "answered", "reply.p50", "reply.p99", "reply.max", "server.rss", "server.cores"}

// phaseTable is the phases side by side, below the names of the columns.
func (r *Report) phaseTable() (rows [][]string) {
	row := []string{"", "phase", "measured", "devices", "faults"}
	for _, name := range phaseColumns {
		if r.Server != nil || !strings.HasPrefix(name, "server.") {
			row = append(row, name)
		}
	}
	rows = append(rows, row)
	for i := range r.Phases {
		p := &r.Phases[i]
		row := []string{fmt.Sprint(i + 1), p.Does.Name, "-", fmt.Sprint(p.There), fmt.Sprint(p.Figures.faults())}
		if p.Measured > 0 {
			row[2] = p.Measured.Round(100 * time.Millisecond).String()
		}
		for _, name := range rows[0][len(row):] {
			if f := p.figure(name); f.none {
				row = append(row, "-")
			} else {
				row = append(row, f.unit.show(f.value))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *Report) writePhases(w io.Writer) {
	if !r.phased() {
		return
	}
	rows := r.phaseTable()
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	fmt.Fprintln(w)
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 1 { // names begin below each other, numbers end so
				line += cell + pad + "  "
			} else {
				line += pad + cell + "  "
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(w)
}

func (r *Report) writeServer(w io.Writer) {
	u := r.Server
	if u == nil {
		return
	}
	fmt.Fprintf(w, "server: %.1f MiB before, %.1f MiB when all were there (%.0f bytes a device), %.1f MiB at most", mib(u.Before), mib(u.Ready), r.perDevice(), mib(u.Most))
	if u.Goroutines > 0 {
		fmt.Fprintf(w, ", up to %d goroutines", u.Goroutines)
	}
	if u.Files > 0 {
		fmt.Fprintf(w, ", up to %d descriptors", u.Files)
	}
	fmt.Fprintf(w, "; while measuring %s of processor time, %.2f processors", u.CPU.Round(time.Millisecond), u.cores())
	if cpu, switches, ok := r.perMessage(); ok {
		fmt.Fprintf(w, "; for each message %s of processor time", micros(float64(cpu.Nanoseconds())/1000))
		if switches > 0 {
			fmt.Fprintf(w, " and %.2f context switches", switches)
		}
	}
	fmt.Fprintln(w)
	if r.Lost != "" {
		fmt.Fprintln(w, r.Lost)
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
