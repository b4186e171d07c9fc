package loadtest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Threshold is a condition that a report must meet: reply.p99<50ms, lost==0, rate>=1990.
type Threshold struct {
	text, figure, op string
	limit            float64
}

// operators, longer ones first.
var operators = []string{"<=", ">=", "==", "!=", "<", ">"}

// ParseThreshold reads a condition: a figure, an operator, and a limit: a number, a duration, or a size.
func ParseThreshold(text string) (Threshold, error) {
	bad := usagef("a condition is a figure, an operator and a limit, such as reply.p99<50ms, lost==0, rate>=100 or server.rss<1GiB; spans are %s, each with .%s; counts are %s; of the server there are %s",
		strings.Join(spanNames[:], ", "), strings.Join(statNames, " ."), strings.Join(countNames[:], ", "), strings.Join(serverNames, ", "))
	for at := range text {
		for _, op := range operators {
			if !strings.HasPrefix(text[at:], op) {
				continue
			}
			t := Threshold{text: text, figure: strings.TrimSpace(text[:at]), op: op}
			f := (&Window{Figures: newFigures()}).figure(t.figure)
			var err error
			t.limit, err = f.unit.parse(strings.TrimSpace(text[at+len(op):]))
			if err != nil || !f.known {
				return t, bad
			}
			return t, nil
		}
	}
	return Threshold{}, bad
}

// OfServer tells whether the condition is about the server's process.
func (t Threshold) OfServer() bool { return strings.HasPrefix(t.figure, "server.") }

func (u unit) parse(limit string) (float64, error) {
	factor := 1.0
	switch u {
	case duration:
		d, err := time.ParseDuration(limit)
		return float64(d) / float64(time.Microsecond), err
	case size:
		for unit, bytes := range map[string]float64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
			if number, ok := strings.CutSuffix(limit, unit); ok {
				limit, factor = strings.TrimSpace(number), bytes
			}
		}
	}
	v, err := strconv.ParseFloat(limit, 64)
	if v != v {
		return v, errors.New("no number")
	}
	return v * factor, err
}

// figure is one by its name.
type figure struct {
	value       float64 // of a time in microseconds
	unit        unit
	known, none bool // none: it was not measured
}

type unit uint8

const (
	number unit = iota
	duration
	size
)

// show is v for a person.
func (u unit) show(v float64) string {
	switch u {
	case duration:
		return micros(v)
	case size:
		if v < 1<<20 {
			return plain(v/(1<<10)) + " KiB"
		}
		return plain(v/(1<<20)) + " MiB"
	}
	return plain(v)
}

// plain is a number with three digits, or all of those before the point.
func plain(v float64) string {
	if v >= 100 || v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func (w *Window) figure(name string) figure {
	if name == "rate" {
		return figure{value: w.rate(), known: true}
	}
	if i := slices.Index(countNames[:], name); i >= 0 {
		return figure{value: float64(w.Figures.Counts[i]), known: true}
	}
	group, s, _ := strings.Cut(name, ".")
	if group == "server" {
		return w.serverFigure(s)
	}
	i := slices.Index(spanNames[:], group)
	if i < 0 {
		return figure{}
	}
	h := w.Figures.Spans[i]
	value, known := stat(h, s)
	if s == "count" {
		return figure{value: value, known: known}
	}
	return figure{value, duration, known, h.TotalCount() == 0}
}

// hold checks the conditions, and keeps those that do not hold. What was not measured meets no condition.
func (w *Window) hold(all []Threshold) {
	for _, t := range all {
		f := w.figure(t.figure)
		switch {
		case f.none:
			w.Failed = append(w.Failed, t.text+" (not measured)")
		case !t.holds(f.value):
			w.Failed = append(w.Failed, fmt.Sprintf("%s (%s)", t.text, f.unit.show(f.value)))
		}
	}
}

// Hold checks conditions for the whole run, and those of each phase.
func (r *Report) Hold(all []Threshold) {
	r.hold(all)
	for i := range r.Phases {
		r.Phases[i].hold(r.Phases[i].Does.Fail)
	}
}

func (t Threshold) holds(v float64) bool {
	switch t.op {
	case "<":
		return v < t.limit
	case "<=":
		return v <= t.limit
	case ">":
		return v > t.limit
	case ">=":
		return v >= t.limit
	case "==":
		return v == t.limit
	}
	return v != t.limit
}
