package loadtest

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes the report as one page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		return err
	}
	plots := []template.HTML{r.plotDevices(), r.plotTimes(), r.plotSpectrum()}
	if len(r.Samples) > 1 {
		plots = append(plots, r.plotMemory())
	}
	return page.Execute(w, map[string]any{
		"Title": fmt.Sprintf("%s, %d devices", r.Config.Scenario, r.Config.Devices), "URL": r.Config.URL, "Began": r.Began.UTC().Format("2006-01-02 15:04:05 UTC"),
		"Verdict": verdicts[r.Exit()], "Good": r.Exit() == ExitOK, "Plots": plots, "Text": text.String(),
	})
}

func (r *Report) plotDevices() template.HTML {
	c := chart{title: "Devices that are ready", x: seconds, y: whole}
	c.line("ready", 0, len(r.Series), func(i int) (float64, float64) { return r.Series[i].At.Seconds(), float64(r.Series[i].Connected) })
	return c.draw()
}

func (r *Report) plotTimes() template.HTML {
	c := chart{title: "Time to the first frame of an answer", x: seconds, y: micros, log: true}
	c.line("p50", 0, len(r.Series), func(i int) (float64, float64) { return r.Series[i].At.Seconds(), r.Series[i].P50 })
	c.line("p99", 1, len(r.Series), func(i int) (float64, float64) { return r.Series[i].At.Seconds(), r.Series[i].P99 })
	return c.draw()
}

// plotSpectrum draws each span by its percentiles: the axis has as much room from 90 to 99 as from 99 to 99.9.
func (r *Report) plotSpectrum() template.HTML {
	c := chart{title: "Spectrum of times", y: micros, log: true, x: func(nines float64) string { return fmt.Sprintf("%.5g %%", 100*(1-math.Pow(10, -nines))) }}
	for k, span := range []int{Reply, Last, Whole, Ready} {
		h := r.Figures.Spans[span]
		n := float64(h.TotalCount())
		if n == 0 {
			continue
		}
		most := math.Log10(n) + 0.3 // beyond that each is the greatest
		const steps = 120
		c.line(spanNames[span], k, steps+1, func(i int) (float64, float64) {
			nines := most * float64(i) / steps
			return nines, float64(h.ValueAtQuantile(100 * (1 - math.Pow(10, -nines))))
		})
	}
	return c.draw()
}

func (r *Report) plotMemory() template.HTML {
	c := chart{title: "Memory of the server", x: seconds, y: func(v float64) string { return fmt.Sprintf("%.4g MiB", v) }}
	c.line("RSS", 0, len(r.Samples), func(i int) (float64, float64) {
		return r.Samples[i].At.Sub(r.Began).Seconds(), mib(r.Samples[i].RSS)
	})
	return c.draw()
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// chart is a plot of some lines in one frame, as SVG.
type chart struct {
	title string
	log   bool // the vertical axis
	x, y  func(float64) string
	lines []chartLine
}

type chartLine struct {
	name   string
	color  int
	points [][2]float64
}

// line adds n points; those that a logarithmic axis cannot show are left out.
func (c *chart) line(name string, color, n int, at func(i int) (x, y float64)) {
	l := chartLine{name: name, color: color}
	for i := range n {
		if x, y := at(i); y > 0 || !c.log {
			l.points = append(l.points, [2]float64{x, y})
		}
	}
	if len(l.points) > 0 {
		c.lines = append(c.lines, l)
	}
}

// Size of a chart, and its margins.
const (
	chartWidth, chartHeight        = 640, 260
	marginLeft, marginTop          = 70, 40
	plotAreaWidth, plotAreaHeight  = chartWidth - marginLeft - 20, chartHeight - marginTop - 40
	ticksAcross, ticksUp, topSpare = 6, 4, 1.05
)

func (c *chart) draw() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img"><text x="%d" y="20" class="title">%s</text>`, chartWidth, chartHeight, marginLeft, template.HTMLEscapeString(c.title))
	if len(c.lines) == 0 {
		fmt.Fprintf(&b, `<text x="%d" y="%d">nothing was measured</text></svg>`, marginLeft, chartHeight/2)
		return template.HTML(b.String()) // made here, of numbers and names of our own
	}
	left, right, low, high := c.bounds()
	height := func(v float64) float64 {
		if c.log {
			return (math.Log(v) - math.Log(low)) / (math.Log(high) - math.Log(low))
		}
		return (v - low) / (high - low)
	}
	place := func(x, y float64) (float64, float64) {
		return marginLeft + (x-left)/(right-left)*plotAreaWidth, marginTop + (1-height(y))*plotAreaHeight
	}
	for i := range ticksUp + 1 {
		part := float64(i) / ticksUp
		v := low + part*(high-low)
		if c.log {
			v = math.Exp(math.Log(low) + part*(math.Log(high)-math.Log(low)))
		}
		_, y := place(left, v)
		fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, marginLeft, y, plotAreaWidth, marginLeft-6, y+4, template.HTMLEscapeString(c.y(v)))
	}
	for i := range ticksAcross + 1 {
		v := left + float64(i)/ticksAcross*(right-left)
		x, _ := place(v, low)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x, chartHeight-18, template.HTMLEscapeString(c.x(v)))
	}
	for i, l := range c.lines {
		fmt.Fprintf(&b, `<path class="line c%d" d="`, l.color)
		for k, p := range l.points {
			x, y := place(p[0], p[1])
			fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(k, 1)], x, y)
		}
		fmt.Fprintf(&b, `"/><text x="%d" y="20" text-anchor="end" class="name c%d">%s</text>`, chartWidth-20-i*70, l.color, l.name)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // made here, of numbers and names of our own
}

// bounds are those of all lines, never empty.
func (c *chart) bounds() (left, right, low, high float64) {
	left, low = math.Inf(1), math.Inf(1)
	right, high = math.Inf(-1), math.Inf(-1)
	for _, l := range c.lines {
		for _, p := range l.points {
			left, right, low, high = min(left, p[0]), max(right, p[0]), min(low, p[1]), max(high, p[1])
		}
	}
	if !c.log {
		low = 0
	}
	if high *= topSpare; high <= low {
		high = low + 1
	}
	if right <= left {
		right = left + 1
	}
	return left, right, low, high
}
