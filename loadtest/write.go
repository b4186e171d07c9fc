package loadtest

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
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
	spansOf := map[string]map[string]float64{}
	for i, h := range r.Figures.Spans {
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
	for i, n := range r.Figures.Counts {
		countsOf[countNames[i]] = n
	}
	c, g := r.Config, r.Generator
	all := map[string]any{
		"url": c.URL, "scenario": c.Scenario, "devices": c.Devices, "connect_rate": c.ConnectRate, "rate": c.Rate, "churn": c.Churn, "seed": c.Seed,
		"mix": c.Mix, "size": []int{c.MinSize, c.MaxSize}, "file_size": []int{c.MinFile, c.MaxFile}, "reconnect": c.Reconnect.String(),
		"run": r.Run, "began": r.Began.UTC().Format(time.RFC3339Nano), "took_s": r.Took.Seconds(), "measured_s": r.Measured.Seconds(),
		"answered_per_s": r.rate(), "spans": spansOf, "counts": countsOf, "notes": r.Figures.Notes,
		"generator": map[string]any{"cpu_s": g.CPU.Seconds(), "busy": g.Busy, "missed": g.Missed, "start_lag_us": g.StartLag.Microseconds(), "saturated": g.Saturated},
		"failed":    append([]string{}, r.Failed...), "exit": r.Exit(), "verdict": verdicts[r.Exit()],
	}
	if u := r.Server; u != nil {
		s := map[string]any{"rss_before": u.Before, "rss_ready": u.Ready, "rss_most": u.Most, "rss_per_device": r.perDevice(), "cpu_s": u.CPU.Seconds(), "switches": u.Switches, "gone": u.Gone}
		if cpu, switches, ok := r.perMessage(); ok {
			s["cpu_us_per_message"], s["switches_per_message"] = float64(cpu.Nanoseconds())/1000, switches
		}
		all["server"] = s
	}
	return all
}

// WriteCSV writes one line for each figure, under the names that thresholds have too; times are in microseconds.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"figure", "value"})
	for i, h := range r.Figures.Spans {
		for _, name := range statNames {
			v, _ := stat(h, name)
			out.Write([]string{spanNames[i] + "." + name, strconv.FormatFloat(v, 'f', 0, 64)})
		}
	}
	for i, n := range r.Figures.Counts {
		out.Write([]string{countNames[i], strconv.FormatInt(n, 10)})
	}
	out.Write([]string{"rate", strconv.FormatFloat(r.rate(), 'f', 3, 64)})
	out.Flush()
	return out.Error()
}

// Live writes how a run goes, from a goroutine of its own: the loop never waits for a terminal.
type Live struct {
	moments chan Moment
	ended   chan struct{}
}

// NewLive begins to write to w: one line that is overwritten on a terminal, else a line each second.
func NewLive(w io.Writer, terminal bool) *Live {
	l := &Live{moments: make(chan Moment, 16), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		width := 0
		for m := range l.moments {
			line := m.String()
			if terminal {
				fmt.Fprintf(w, "\r%s%s", line, strings.Repeat(" ", max(width-len(line), 0)))
				width = len(line)
			} else {
				fmt.Fprintln(w, line)
			}
		}
		if terminal && width > 0 {
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
	s := fmt.Sprintf("%5.0fs %-19s connected %d", m.At.Seconds(), m.Phase, m.Connected)
	if m.TotalSent > 0 {
		s += fmt.Sprintf("  sent %d/s  answered %d/s  p50 %s  p99 %s  under way %d", m.Sent, m.Answered, micros(m.P50), micros(m.P99), m.Pending)
	}
	if m.Lateness > maxLag {
		s += fmt.Sprintf("  sent up to %s late", micros(float64(m.Lateness.Microseconds())))
	}
	if m.Refused > 0 {
		s += fmt.Sprintf("  refused %d", m.Refused)
	}
	return s + fmt.Sprintf("  faults %d", m.Faults)
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
