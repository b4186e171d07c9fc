package loadtest

import (
	"fmt"
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

// ParseThreshold reads a condition: a figure, an operator, and a number or a duration.
func ParseThreshold(text string) (Threshold, error) {
	bad := usagef("a condition is a figure, an operator and a limit, such as reply.p99<50ms, lost==0 or rate>=100; spans are %s, each with .%s; counts are %s",
		strings.Join(spanNames[:], ", "), strings.Join(statNames, " ."), strings.Join(countNames[:], ", "))
	for at := range text {
		for _, op := range operators {
			if !strings.HasPrefix(text[at:], op) {
				continue
			}
			t := Threshold{text: text, figure: strings.TrimSpace(text[:at]), op: op}
			limit := strings.TrimSpace(text[at+len(op):])
			if _, isTime, known := newReport().figure(t.figure); !known {
				return t, bad
			} else if isTime {
				d, err := time.ParseDuration(limit)
				if err != nil {
					return t, bad
				}
				t.limit = float64(d) / float64(time.Microsecond)
				return t, nil
			}
			var err error
			if t.limit, err = strconv.ParseFloat(limit, 64); err != nil {
				return t, bad
			}
			return t, nil
		}
	}
	return Threshold{}, bad
}

func newReport() *Report { return &Report{Figures: newFigures()} }

// figure finds a figure by its name; times are in microseconds.
func (r *Report) figure(name string) (value float64, isTime, known bool) {
	if name == "rate" {
		return r.rate(), false, true
	}
	if i := slices.Index(countNames[:], name); i >= 0 {
		return float64(r.Figures.Counts[i]), false, true
	}
	span, s, _ := strings.Cut(name, ".")
	i := slices.Index(spanNames[:], span)
	if i < 0 {
		return 0, false, false
	}
	value, known = stat(r.Figures.Spans[i], s)
	return value, s != "count", known
}

// Hold checks the conditions, and keeps those that do not hold. A time of which there is none meets no condition.
func (r *Report) Hold(all []Threshold) {
	for _, t := range all {
		value, isTime, _ := r.figure(t.figure)
		none := false
		if isTime {
			n, _, _ := r.figure(t.figure[:strings.IndexByte(t.figure, '.')] + ".count")
			none = n == 0
		}
		if none || !t.holds(value) {
			was := fmt.Sprintf("%g", value)
			if isTime {
				was = micros(value)
			}
			if none {
				was = "not measured"
			}
			r.Failed = append(r.Failed, fmt.Sprintf("%s (%s)", t.text, was))
		}
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
