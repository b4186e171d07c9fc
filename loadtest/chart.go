package loadtest

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// chart is a plot of some lines in one frame, as SVG. Its title and legend are of the page.
type chart struct {
	Title string
	Lines []chartLine
	x, y  axis
	bands []band // in the order of time, each up to the next one
}

// axis is a direction: what it shows, and where. Without ticks it finds round ones.
type axis struct {
	show        func(float64) string
	log         bool
	least, most float64
	ticks       []float64
}

type chartLine struct {
	Name   string
	Color  int
	points []point
}

type point struct {
	x, y  float64
	apart bool // from the point before: there was nothing between them to show
}

// band marks a phase. Its name is text of others.
type band struct {
	from float64
	name string
}

// drawn is how many points of a line are drawn at most: of more each is the highest of several.
const drawn = 1000

// line adds n points; those that a logarithmic axis cannot show are left out.
func (c *chart) line(name string, color, n int, at func(i int) (x, y float64)) {
	l := chartLine{Name: name, Color: color}
	each, apart := (n-1)/drawn+1, true
	for first := 0; first < n; first += each {
		x, y := at(first)
		for i := first + 1; i < min(first+each, n); i++ {
			if _, v := at(i); v > y {
				y = v
			}
		}
		if y <= 0 && c.y.log {
			apart = true
			continue
		}
		l.points = append(l.points, point{x, y, apart})
		apart = false
	}
	if len(l.points) > 0 {
		c.Lines = append(c.Lines, l)
	}
}

// Size of a chart, and its margins.
const (
	chartWidth, chartHeight       = 640, 260
	marginLeft, marginTop         = 76, 18
	plotAreaWidth, plotAreaHeight = chartWidth - marginLeft - 24, chartHeight - marginTop - 34
)

// SVG is the drawing: of numbers, words of our own, and names that are escaped.
func (c *chart) SVG() template.HTML {
	if len(c.Lines) == 0 {
		return `<p class="none">nothing was measured</p>`
	}
	c.y.cover(c.Lines)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, chartWidth, chartHeight, template.HTMLEscapeString(c.Title))
	c.drawBands(&b)
	for _, v := range c.y.ticks {
		y := marginTop + (1-c.y.part(v))*plotAreaHeight
		fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, marginLeft, y, plotAreaWidth, marginLeft-8, y+4, template.HTMLEscapeString(c.y.show(v)))
	}
	for i, v := range c.x.ticks {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle"%s>%s</text>`, marginLeft+c.x.part(v)*plotAreaWidth, chartHeight-10, [2]string{"", ` class="minor"`}[i%2], template.HTMLEscapeString(c.x.show(v)))
	}
	for _, l := range c.Lines {
		fmt.Fprintf(&b, `<path class="line c%d" d="`, l.Color)
		for i, p := range l.points {
			to := 'L'
			if p.apart {
				to = 'M'
			}
			fmt.Fprintf(&b, "%c%.1f %.1f", to, marginLeft+c.x.part(p.x)*plotAreaWidth, marginTop+(1-c.y.part(p.y))*plotAreaHeight)
			if p.apart && (i+1 == len(l.points) || l.points[i+1].apart) {
				b.WriteString("h2") // one alone would not be seen
			}
		}
		b.WriteString(`"/>`)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// drawBands shades every second phase, and numbers those that have room for it as the table of phases does.
func (c *chart) drawBands(b *strings.Builder) {
	for i, phase := range c.bands {
		from, upTo := c.x.part(phase.from), 1.0
		if i+1 < len(c.bands) {
			upTo = c.x.part(c.bands[i+1].from)
		}
		left, width := marginLeft+from*plotAreaWidth, (upTo-from)*plotAreaWidth
		fmt.Fprintf(b, `<g><title>%d %s</title><rect class="band b%d" x="%.1f" y="%d" width="%.1f" height="%d"/>`, i+1, template.HTMLEscapeString(phase.name), i%2, left, marginTop, width, plotAreaHeight)
		if width >= 18 {
			fmt.Fprintf(b, `<text class="phase" x="%.1f" y="%d" text-anchor="middle">%d</text>`, left+width/2, marginTop-5, i+1)
		}
		b.WriteString("</g>")
	}
}

// part is where v lies on the axis, from 0 to 1.
func (a *axis) part(v float64) float64 {
	least, most := a.least, a.most
	if a.log {
		least, most, v = math.Log(least), math.Log(most), math.Log(v)
	}
	return min(max((v-least)/(most-least), 0), 1)
}

// cover makes a vertical axis that shows all of the lines, with round ticks at both ends.
func (a *axis) cover(lines []chartLine) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, p := range l.points {
			least, most = min(least, p.y), max(most, p.y)
		}
	}
	if a.log {
		a.logarithmic(least, most)
		return
	}
	step := roundStep(max(most, 1e-3)/4, decimal)
	for v := 0.0; ; v += step {
		a.ticks = append(a.ticks, v)
		if a.most = v; v >= most && v > 0 {
			return
		}
	}
}

// logarithmic has ticks at 1, 2 and 5 of each decade, or at 1 alone if there are many.
func (a *axis) logarithmic(least, most float64) {
	decades := math.Log10(most / least)
	for at := math.Pow(10, math.Floor(math.Log10(least))); ; at *= 10 {
		for _, k := range []float64{1, 2, 5} {
			v := k * at
			if k > 1 && decades > 2 {
				continue
			}
			if v <= least*1.0001 {
				a.ticks = a.ticks[:0] // the last one below is where the axis begins
			}
			a.ticks = append(a.ticks, v)
			if v >= most && len(a.ticks) > 1 {
				a.least, a.most = a.ticks[0], v
				return
			}
		}
	}
}

// Round steps, within a factor of ten for numbers; for seconds, further ones for minutes and hours.
var (
	decimal = []float64{1, 2, 5, 10}
	clock   = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400}
)

// roundStep is the least round step that is not below least.
func roundStep(least float64, steps []float64) float64 {
	scale := 1.0
	if len(steps) == len(decimal) {
		scale = math.Pow(10, math.Floor(math.Log10(least)))
	}
	for _, s := range steps {
		if s*scale >= least {
			return s * scale
		}
	}
	last := steps[len(steps)-1]
	return math.Ceil(least/last) * last
}

// timeAxis is one of seconds, from 0 to end.
func timeAxis(end float64) axis {
	a := axis{most: max(end, 1), show: func(s float64) string {
		text := time.Duration(s * float64(time.Second)).String()
		for _, none := range []string{"m0s", "h0m"} { // 10m and not 10m0s
			if short, ok := strings.CutSuffix(text, none); ok {
				text = short + none[:1]
			}
		}
		return text
	}}
	step := roundStep(a.most/7, clock)
	for v := 0.0; v <= a.most; v += step {
		a.ticks = append(a.ticks, v)
	}
	return a
}
