package loadtest

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// WriteHist draws how the times of each span that was measured are spread, in steps of a factor of two.
func (r *Report) WriteHist(w io.Writer) error {
	for _, i := range []int{Whole, Reply, Last} {
		if h := r.Figures.Spans[i]; h.TotalCount() > 0 && (i != Last || differ(h, r.Figures.Spans[Reply])) {
			if _, err := fmt.Fprintf(w, "\n%s\n%s", spanNames[i], bars(h)); err != nil {
				return err
			}
		}
	}
	return nil
}

// differ tells whether two spans are worth two drawings: an answer in one frame has a first and a last one.
func differ(a, b *hdr.Histogram) bool {
	return a.TotalCount() != b.TotalCount() || a.ValueAtQuantile(99) != b.ValueAtQuantile(99) || a.Max() != b.Max()
}

const barWidth = 50

func bars(h *hdr.Histogram) string {
	var n [64]int64
	first, last, most := 63, 0, int64(1)
	for _, b := range h.Distribution() {
		if b.Count == 0 {
			continue
		}
		step := int(math.Log2(float64(max(b.To, 1))))
		n[step] += b.Count
		first, last, most = min(first, step), max(last, step), max(most, n[step])
	}
	var out strings.Builder
	for step := first; step <= last; step++ {
		bar := strings.Repeat("█", int(math.Ceil(float64(n[step])/float64(most)*barWidth)))
		fmt.Fprintf(&out, "%8s.. %9d %5.1f %% %s\n", micros(math.Exp2(float64(step))), n[step], 100*float64(n[step])/float64(h.TotalCount()), bar)
	}
	return out.String()
}

// plotWidth is how many columns a plot has at most: of a longer run each shows the worst of several seconds.
const plotWidth = 72

// WritePlot draws how the run went, second by second: connections, answers, and the replies' p99.
func (r *Report) WritePlot(w io.Writer) error {
	for _, p := range []struct {
		name string
		of   func(m Moment) float64
		show func(float64) string
	}{
		{"connected", func(m Moment) float64 { return float64(m.Connected) }, whole},
		{"answers a second", func(m Moment) float64 { return float64(m.Answered) }, whole},
		{"reply p99", func(m Moment) float64 { return m.P99 }, micros},
	} {
		values, most := columns(r.Series, p.of)
		if most == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s, at most %s\n%s\n", p.name, p.show(most), spark(values, most)); err != nil {
			return err
		}
	}
	return nil
}

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

// spark is a line of blocks, as high as the values.
func spark(values []float64, most float64) string {
	const blocks = " ▁▂▃▄▅▆▇█"
	var out strings.Builder
	for _, v := range values {
		out.WriteRune([]rune(blocks)[int(math.Ceil(v/most*8))])
	}
	return out.String()
}

// columns divides a run into at most plotWidth parts, each as long as the others, and is the most of each and of all.
func columns(series []Moment, of func(Moment) float64) (values []float64, most float64) {
	if len(series) == 0 {
		return nil, 0
	}
	each := series[len(series)-1].At/plotWidth + 1
	if len(series) < plotWidth {
		each = max(each, time.Second)
	}
	values = make([]float64, min(int(series[len(series)-1].At/each)+1, plotWidth))
	for _, m := range series {
		v := &values[min(int(m.At/each), len(values)-1)]
		*v = max(*v, of(m))
		most = max(most, *v)
	}
	return values, most
}
