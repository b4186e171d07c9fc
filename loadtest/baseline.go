package loadtest

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Pairs is how two servers are compared: in windows that take turns, since a machine is never twice the same.
type Pairs struct {
	Target, Baseline *Report // all windows of each together
	Ratios           []Ratio
}

// Ratio is how much more of a figure the target has than the baseline, at the median of the pairs. With a chance of at least
// 95 % the median of all pairs that could be is between Low and High.
type Ratio struct {
	Figure   string  `json:"figure"`
	Unit     string  `json:"unit"`
	Target   float64 `json:"target"` // the median, in Unit
	Baseline float64 `json:"baseline"`
	Ratio    float64 `json:"ratio"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// One runs one window against a server: the target, or the baseline.
type One func(ctx context.Context, baseline bool) (*Report, error)

// RunPairs runs so many windows against each of the two servers, in turns, and who comes first takes turns too.
func RunPairs(ctx context.Context, pairs int, one One) (*Pairs, error) {
	if pairs < minPairs || pairs > 1000 {
		return nil, usagef("the number of pairs must be from %d to 1000: less says nothing", minPairs)
	}
	p := &Pairs{}
	var seen [2][]*Report
	for i := range 2 * pairs {
		baseline := (i+i/2)%2 == 1
		r, err := one(ctx, baseline)
		if err != nil {
			return nil, err
		}
		whole, side := &p.Target, &seen[0]
		if baseline {
			whole, side = &p.Baseline, &seen[1]
		}
		*side = append(*side, r)
		if *whole == nil {
			first := *r
			first.Window, first.Phases = Window{Figures: newFigures()}, nil
			*whole = &first
		}
		(*whole).behind(&r.Window)
		(*whole).Interrupted = r.Interrupted
		(*whole).Took = time.Since((*whole).Began)
		if r.Interrupted || r.Figures.Counts[Online] == 0 {
			break
		}
	}
	for _, f := range compared {
		if r, ok := f.ratio(seen[0], seen[1]); ok {
			p.Ratios = append(p.Ratios, r)
		}
	}
	return p, nil
}

// minPairs is the least number from which an interval can be told.
const minPairs = 6

type comparison struct {
	figure, unit string
	of           func(r *Report) (float64, bool)
}

var compared = []comparison{
	{"online.p50", "µs", spanOf("online.p50")}, {"online.p99", "µs", spanOf("online.p99")},
	{"reply.p50", "µs", spanOf("reply.p50")}, {"reply.p99", "µs", spanOf("reply.p99")},
	{"last.p99", "µs", spanOf("last.p99")},
	{"server cpu a message", "µs", func(r *Report) (float64, bool) {
		cpu, _, ok := r.perMessage()
		return float64(cpu) / float64(time.Microsecond), ok
	}},
	{"server switches a message", "", func(r *Report) (float64, bool) {
		_, switches, ok := r.perMessage()
		return switches, ok
	}},
	{"server memory", "bytes", func(r *Report) (float64, bool) {
		if r.Server == nil {
			return 0, false
		}
		return float64(r.Server.Most), true
	}},
}

func spanOf(name string) func(r *Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		f := r.figure(name)
		return f.value, f.value > 0
	}
}

// ratio compares the windows pair by pair.
func (c comparison) ratio(target, baseline []*Report) (Ratio, bool) {
	var ratios, ours, theirs []float64
	for i := range min(len(target), len(baseline)) {
		a, ok1 := c.of(target[i])
		b, ok2 := c.of(baseline[i])
		if ok1 && ok2 && b > 0 {
			ratios, ours, theirs = append(ratios, a/b), append(ours, a), append(theirs, b)
		}
	}
	if len(ratios) < minPairs {
		return Ratio{}, false
	}
	slices.Sort(ratios)
	k := rank(len(ratios))
	return Ratio{Figure: c.figure, Unit: c.unit, Target: median(ours), Baseline: median(theirs), Ratio: median(ratios), Low: ratios[k], High: ratios[len(ratios)-1-k]}, true
}

// rank is the largest k for which the k-th smallest and the k-th largest of n enclose the median with a chance of 95 %: each of
// n is above the median or below it with the same chance.
func rank(n int) (k int) {
	below := math.Pow(0.5, float64(n)) // chance that at most k of n are below
	chance := below
	for k = 0; 2*chance <= 0.05; k++ {
		below *= float64(n-k) / float64(k+1)
		chance += below
	}
	return max(k-1, 0)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Exit is the exit status of both together.
func (p *Pairs) Exit() int {
	worst := ExitOK
	for _, r := range []*Report{p.Target, p.Baseline} {
		if r == nil {
			continue
		}
		for _, status := range []int{ExitInterrupted, ExitUnreachable, ExitWrong, ExitSaturated, ExitThreshold} {
			if r.Exit() == status || worst == status {
				worst = status
				break
			}
		}
	}
	return worst
}

// WriteText writes the comparison for a person.
func (p *Pairs) WriteText(w io.Writer) error {
	for i, r := range []*Report{p.Target, p.Baseline} {
		if r != nil { // it is when the first window was interrupted
			fmt.Fprintf(w, "%-9s %s: online %d  answered %d  faults %d\n", [...]string{"target", "baseline"}[i], r.Config.URL, r.Figures.Counts[Online], r.Figures.Counts[Answered], r.Figures.faults())
			r.Figures.writeNotes(w)
			r.writeReasons(w)
		}
	}
	if len(p.Ratios) == 0 {
		_, err := fmt.Fprintf(w, "\nno ratio: it needs %d whole pairs\n%s\n", minPairs, verdicts[p.Exit()])
		return err
	}
	fmt.Fprintf(w, "\n%-26s %12s %12s %8s  95 %% interval\n", "median", "target", "baseline", "ratio")
	for _, r := range p.Ratios {
		show := func(v float64) string {
			if r.Unit == "µs" {
				return micros(v)
			}
			return fmt.Sprintf("%.4g", v)
		}
		fmt.Fprintf(w, "%-26s %12s %12s %8.3f  %.3f to %.3f\n", r.Figure, show(r.Target), show(r.Baseline), r.Ratio, r.Low, r.High)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", verdicts[p.Exit()])
	return err
}
