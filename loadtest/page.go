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
	plots := []*chart{r.plotDevices(), r.plotMessages(), r.plotTimes(), r.plotSpectrum()}
	if len(r.Samples) > 1 {
		plots = append(plots, r.plotMemory(), r.plotCores())
	}
	var phases [][]string
	if r.phased() {
		phases = r.phaseTable()
	}
	wrong := r.failed()
	if g := r.Generator.Saturated; g != "" {
		wrong = append(wrong, "the generator was the bottleneck: "+g)
	}
	return page.Execute(w, map[string]any{
		"Title": fmt.Sprintf("%s, %d devices", r.Config.title(), r.Config.Devices), "URL": r.Config.URL, "Began": r.Began.UTC().Format("2006-01-02 15:04:05 UTC"),
		"Took": r.Took.Round(time.Second).String(), "Verdict": verdicts[r.Exit()], "Good": r.Exit() == ExitOK, "Wrong": wrong,
		"Tiles": r.tiles(), "Plots": plots, "Phases": phases, "Text": text.String(),
	})
}

// tile is one figure, large.
type tile struct {
	Name, Value string
	Bad         bool
}

func (r *Report) tiles() (all []tile) {
	for _, f := range []struct{ name, figure string }{
		{"came online", "online"}, {"until online, p99", "online.p99"}, {"answered", "answered"}, {"answered a second", "rate"},
		{"answer, p50", "reply.p50"}, {"answer, p99", "reply.p99"}, {"server memory", "server.rss"}, {"server processors", "server.cores"},
	} {
		if v := r.figure(f.figure); !v.none && v.value > 0 {
			all = append(all, tile{Name: f.name, Value: v.unit.show(v.value)})
		}
	}
	faults := r.Figures.faults()
	return append(all, tile{Name: "faults", Value: fmt.Sprint(faults), Bad: faults > 0})
}

// overTime is a chart of which the axis is the time of the run, with its phases.
func (r *Report) overTime(title string, y axis) *chart {
	end := r.Took.Seconds()
	for _, m := range r.Series {
		end = max(end, m.At.Seconds())
	}
	c := &chart{Title: title, x: timeAxis(end), y: y}
	if r.phased() {
		for i := range r.Phases {
			p := &r.Phases[i]
			c.bands = append(c.bands, band{from: p.Began.Sub(r.Began).Seconds(), name: p.Does.Name})
		}
	}
	return c
}

func (r *Report) series(c *chart, name string, color int, of func(m Moment) float64) {
	c.line(name, color, len(r.Series), func(i int) (float64, float64) { return r.Series[i].At.Seconds(), of(r.Series[i]) })
}

func (r *Report) plotDevices() *chart {
	c := r.overTime("Devices that are ready", axis{show: whole})
	r.series(c, "ready", 0, func(m Moment) float64 { return float64(m.Connected) })
	return c
}

func (r *Report) plotMessages() *chart {
	c := r.overTime("Messages a second", axis{show: whole})
	if r.Figures.Counts[Sent] > 0 {
		r.series(c, "sent", 1, func(m Moment) float64 { return float64(m.Sent) })
		r.series(c, "answered", 0, func(m Moment) float64 { return float64(m.Answered) })
	}
	return c
}

func (r *Report) plotTimes() *chart {
	c := r.overTime("Time to the first frame of an answer", axis{show: micros, log: true})
	r.series(c, "p99", 1, func(m Moment) float64 { return m.P99 })
	r.series(c, "p50", 0, func(m Moment) float64 { return m.P50 })
	return c
}

// plotSpectrum draws each span by its percentiles: the axis has as much room from 90 to 99 as from 99 to 99.9.
func (r *Report) plotSpectrum() *chart {
	c := &chart{Title: "Times by percentile", y: axis{show: micros, log: true}, x: axis{show: func(nines float64) string { return fmt.Sprintf("%.6g %%", 100*(1-math.Pow(10, -nines))) }}}
	for k, span := range []int{Reply, Last, Whole, Ready} {
		h := r.Figures.Spans[span]
		n := float64(h.TotalCount())
		if n == 0 || span == Last && !differ(h, r.Figures.Spans[Reply]) {
			continue
		}
		most := math.Log10(n) + 0.3 // beyond that each is the greatest
		c.x.least, c.x.most = 0, max(c.x.most, most)
		const steps = 240
		c.line(spanNames[span], k, steps+1, func(i int) (float64, float64) {
			nines := most * float64(i) / steps
			return nines, float64(h.ValueAtQuantile(100 * (1 - math.Pow(10, -nines))))
		})
	}
	c.x.ticks = []float64{0, math.Log10(2)}
	for nines := 1.0; nines <= c.x.most; nines++ {
		c.x.ticks = append(c.x.ticks, nines)
	}
	return c
}

func (r *Report) plotMemory() *chart {
	c := r.overTime("Memory of the server", axis{show: func(v float64) string { return plain(v) + " MiB" }})
	c.line("RSS", 2, len(r.Samples), func(i int) (float64, float64) {
		return r.Samples[i].At.Sub(r.Began).Seconds(), mib(r.Samples[i].RSS)
	})
	return c
}

func (r *Report) plotCores() *chart {
	c := r.overTime("Processors that the server uses", axis{show: plain})
	each := len(r.Samples)/200 + 1 // of shorter times the kernel's clock ticks are seen
	for each < len(r.Samples)-1 && r.Samples[each].At.Sub(r.Samples[0].At) < 900*time.Millisecond {
		each++
	}
	c.line("processors", 3, max((len(r.Samples)-1)/each, 0), func(i int) (float64, float64) {
		a, b := r.Samples[i*each], r.Samples[(i+1)*each]
		return b.At.Sub(r.Began).Seconds(), float64(b.CPU-a.CPU) / float64(max(b.At.Sub(a.At), 1))
	})
	return c
}
