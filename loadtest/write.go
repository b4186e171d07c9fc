package loadtest

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteJSON writes the report for a program: times are in microseconds where a name ends in _us, else in seconds.
func (r *Report) WriteJSON(w io.Writer) error { return writeJSON(w, r.fields()) }

// WriteJSON writes both reports and the ratios.
func (p *Pairs) WriteJSON(w io.Writer) error {
	all := map[string]any{"exit": p.Exit(), "verdict": verdicts[p.Exit()], "ratios": append([]Ratio{}, p.Ratios...)}
	if p.Target != nil {
		all["target"] = p.Target.fields()
	}
	if p.Baseline != nil {
		all["baseline"] = p.Baseline.fields()
	}
	return writeJSON(w, all)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (r *Report) fields() map[string]any {
	c := &r.Config
	all := r.Window.fields()
	maps.Copy(all, c.Phase.fields())
	maps.Copy(all, map[string]any{
		"url": c.URL, "seed": c.Seed, "run": r.Run, "began": r.Began.UTC().Format(time.RFC3339Nano), "took_s": r.Took.Seconds(),
		"exit": r.Exit(), "verdict": verdicts[r.Exit()],
	})
	all["generator"].(map[string]any)["cpu_s"] = r.CPU.Seconds()
	if r.Lost != "" {
		all["server_note"] = r.Lost
	}
	if r.phased() {
		var phases []map[string]any
		for i := range r.Phases {
			p := r.Phases[i].Does.fields()
			maps.Copy(p, r.Phases[i].fields())
			p["began_s"] = r.Phases[i].Began.Sub(r.Began).Seconds()
			phases = append(phases, p)
		}
		all["phases"] = phases
	}
	return all
}

func (p *Phase) fields() map[string]any {
	return map[string]any{
		"name": p.Name, "scenario": p.Scenario, "devices": p.Devices, "connect_rate": p.ConnectRate, "rate": p.Rate, "rate_end": p.Rate + p.Rise, "churn": p.Churn,
		"mix": p.Mix, "size": []int{p.MinSize, p.MaxSize}, "file_size": []int{p.MinFile, p.MaxFile}, "reconnect": p.Reconnect.String(),
	}
}

func (w *Window) fields() map[string]any {
	spansOf := map[string]map[string]float64{}
	for i, h := range w.Figures.Spans {
		if h.TotalCount() == 0 {
			continue
		}
		s := map[string]float64{}
		for _, name := range statNames {
			v, _ := stat(h, name)
			if name != "count" {
				name += "_us"
			}
			s[name] = v
		}
		spansOf[spanNames[i]] = s
	}
	countsOf := map[string]int64{}
	for i, n := range w.Figures.Counts {
		countsOf[countNames[i]] = n
	}
	g := w.Generator
	all := map[string]any{
		"measured_s": w.Measured.Seconds(), "ready": w.There, "answered_per_s": w.rate(), "spans": spansOf, "counts": countsOf, "notes": w.Figures.Notes,
		"generator": map[string]any{"busy": g.Busy, "missed": g.Missed, "start_lag_us": g.StartLag.Microseconds(), "saturated": g.Saturated},
		"failed":    append([]string{}, w.Failed...),
	}
	if u := w.Server; u != nil {
		s := map[string]any{"rss_before": u.Before, "rss_ready": u.Ready, "rss_most": u.Most, "rss_per_device": w.perDevice(), "cpu_s": u.CPU.Seconds(), "cores": u.cores(), "seen_s": u.Seen.Seconds()}
		for name, v := range map[string]int64{"switches": u.Switches, "goroutines_most": u.Goroutines, "fds_most": u.Files} {
			if v > 0 { // else it is not known
				s[name] = v
			}
		}
		if cpu, switches, ok := w.perMessage(); ok {
			s["cpu_us_per_message"], s["switches_per_message"] = float64(cpu.Nanoseconds())/1000, switches
		}
		all["server"] = s
	}
	return all
}

// WriteCSV writes one line for each figure, under the names that thresholds have too; times are in microseconds. Lines of a
// phase of a file end with its name.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"figure", "value", "phase"})
	r.writeCSV(out, "")
	if r.phased() {
		for i := range r.Phases {
			r.Phases[i].writeCSV(out, r.Phases[i].Does.Name)
		}
	}
	out.Flush()
	return out.Error()
}

// figureNames are those of all figures.
func figureNames() (names []string) {
	for _, span := range spanNames {
		for _, s := range statNames {
			names = append(names, span+"."+s)
		}
	}
	names = append(append(names, countNames[:]...), "rate")
	return append(names, serverNames...)
}

func (w *Window) writeCSV(out *csv.Writer, phase string) {
	for _, name := range figureNames() {
		if f := w.figure(name); !f.none {
			out.Write([]string{name, strconv.FormatFloat(math.Round(f.value*1000)/1000, 'f', -1, 64), phase})
		}
	}
}

// Live writes how a run goes, from a goroutine of its own: the loop never waits for a terminal.
type Live struct {
	moments chan Moment
	ended   chan struct{}
}

// NewLive begins to write to w: one line that is overwritten on a terminal, of which columns gives the width; with nil for
// columns, a line each second.
func NewLive(w io.Writer, columns func() int) *Live {
	l := &Live{moments: make(chan Moment, 16), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		width := 0
		for m := range l.moments {
			line := m.String()
			if columns == nil {
				fmt.Fprintln(w, line)
				continue
			}
			if room := columns() - 1; utf8.RuneCountInString(line) > room { // more would go on in a row that nothing overwrites
				line = string([]rune(line)[:max(room, 0)])
			}
			n := utf8.RuneCountInString(line)
			fmt.Fprintf(w, "\r%s%s", line, strings.Repeat(" ", max(width-n, 0)))
			width = n
		}
		if width > 0 {
			fmt.Fprintf(w, "\r%s\r", strings.Repeat(" ", width))
		}
	}()
	return l
}

// Second is for Config.Second. A moment that cannot be written in time is left out.
func (l *Live) Second(m Moment) {
	select {
	case l.moments <- m:
	default:
	}
}

// Close returns when all is written.
func (l *Live) Close() {
	close(l.moments)
	<-l.ended
}

func (m Moment) String() string {
	what := m.State
	if m.Phase != "" {
		what = m.Phase + ": " + what
	}
	s := fmt.Sprintf("%5.0fs %-19s connected %d  faults %d", m.At.Seconds(), what, m.Connected, m.Faults)
	if m.TotalSent > 0 {
		s += fmt.Sprintf("  sent %d/s  answered %d/s  p50 %s  p99 %s  under way %d", m.Sent, m.Answered, micros(m.P50), micros(m.P99), m.Pending)
	}
	if m.Lateness > maxLag {
		s += fmt.Sprintf("  sent up to %s late", micros(float64(m.Lateness.Microseconds())))
	}
	if m.RSS > 0 {
		s += fmt.Sprintf("  server %.1f MiB, %.2f processors", mib(m.RSS), m.Cores)
	}
	if m.Refused > 0 {
		s += fmt.Sprintf("  refused %d", m.Refused)
	}
	return s
}

// WriteCSV writes one line for each figure that is compared.
func (p *Pairs) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"figure", "target", "baseline", "ratio", "low", "high"})
	for _, r := range p.Ratios {
		row := []string{r.Figure}
		for _, v := range []float64{r.Target, r.Baseline, r.Ratio, r.Low, r.High} {
			row = append(row, strconv.FormatFloat(v, 'g', 6, 64))
		}
		out.Write(row)
	}
	out.Flush()
	return out.Error()
}
