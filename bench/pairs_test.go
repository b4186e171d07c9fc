package bench

import (
	"slices"
	"testing"
	"time"
)

// contest measures two programs side by side. Both run all the time and are measured in turn, in short windows, so that what
// else happens on the machine befalls both alike.
type contest struct {
	t        *testing.T
	programs [2]program // ours, and the one that it is compared with
	full     bool       // long windows and large fleets
	figures  []*figure
}

// figure is a line of the table: what is counted, the goal, and what was seen.
type figure struct {
	name, unit string
	maxRatio   float64      // ours to the other's; 0: no such goal
	max        float64      // ours, in unit; 0: no such goal
	seen       [2][]float64 // of each program, pair by pair
}

// pick is small, or large for the full table.
func pick[T any](c *contest, small, large T) T {
	if c.full {
		return large
	}
	return small
}

// window measures a program once: a value for each figure.
type window func() []float64

// pairs measures n windows of each program, alternately, with a rest after each pair. The first of a pair changes from pair to
// pair. What open starts ends with the subtest that it gets.
func (c *contest) pairs(name string, n int, rest time.Duration, open func(t *testing.T, p program) window, figures ...*figure) {
	c.t.Run(name, func(t *testing.T) {
		var windows [2]window
		for i, p := range c.programs {
			windows[i] = open(t, p)
			windows[i]() // the first is not counted
		}
		for pair := range n {
			time.Sleep(rest)
			for turn := range 2 {
				i := (pair + turn) % 2
				for k, value := range windows[i]() {
					figures[k].seen[i] = append(figures[k].seen[i], value)
				}
			}
		}
		c.figures = append(c.figures, figures...)
	})
}

// spread is the middle of some values and where most of them lie: without the lowest and the highest when there are ten or
// more, which then holds the true median with 98 %.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return spread{}
	}
	cut := 0
	if n >= 10 {
		cut = 1
	}
	return spread{(v[(n-1)/2] + v[n/2]) / 2, v[cut], v[n-1-cut]}
}

// ratio compares pair by pair.
func (f *figure) ratio() spread {
	var ratios []float64
	for i, ours := range f.seen[0] {
		if other := f.seen[1][i]; other > 0 {
			ratios = append(ratios, ours/other)
		}
	}
	return spreadOf(ratios)
}

// met tells whether ours reaches the goal.
func (f *figure) met() bool {
	return (f.maxRatio == 0 || f.ratio().Median <= f.maxRatio) && (f.max == 0 || spreadOf(f.seen[0]).Median <= f.max)
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
