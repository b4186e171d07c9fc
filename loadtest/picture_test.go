package loadtest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pictured is a report with everything in it that a picture shows.
func pictured() *Report {
	r := newReport()
	r.Config.URL, r.Config.Scenario, r.Config.Devices = `ws://x/<script>alert(1)</script>`, "chat", 7
	r.Began = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 100 {
		r.Series = append(r.Series, Moment{At: time.Duration(i+1) * time.Second, Connected: min(i, 7), Answered: int64(i % 5), P50: float64(i), P99: float64(i * i)})
		r.Samples = append(r.Samples, Sample{At: r.Began.Add(time.Duration(i) * time.Second), RSS: int64(i) << 20})
	}
	for i := range 1000 {
		for _, span := range []int{Whole, Ready, Reply, Last} {
			record(r.Figures.Spans[span], time.Duration(1+i*(span+1))*time.Microsecond)
		}
	}
	r.Figures.Counts[Online], r.Figures.Counts[Sent] = 7, 200
	r.Figures.note(`closed with 1013 <u>`)
	return r
}

// phasedPicture is pictured as a run of a file, with names that try to get out of their place.
func phasedPicture() *Report {
	r := pictured()
	r.Took = 100 * time.Second
	r.Config.Name = `"><img src=x onerror=alert(1)>.yaml`
	for i, from := range []int{0, 10, 11, 60} {
		w := Window{From: r.Began.Add(time.Duration(from) * time.Second), Measured: 9 * time.Second, There: 7, Figures: newFigures()}
		r.Phases = append(r.Phases, PhaseReport{Window: w, Began: w.From, Does: Phase{Name: []string{"come", `</title><script>alert(2)</script>`, "short", strings.Repeat("long name ", 4)}[i]}})
	}
	r.Phases[1].Failed = []string{`reply.p99<1ms (2ms)`}
	r.Use(r.Samples, "")
	return r
}

func TestPage(t *testing.T) {
	for _, x := range []struct {
		r             *Report
		plots, phases int
	}{{pictured(), 6, 0}, {newReport(), 0, 0}, {phasedPicture(), 6, 4}} {
		var b bytes.Buffer
		require.NoError(t, x.r.WriteHTML(&b))
		html := b.String()
		require.NotContains(t, html, "<script>")
		require.NotContains(t, html, "<img")
		require.NotContains(t, html, "<u>")
		require.NotRegexp(t, `(?i)<[^>]*\b(src|href)=|@import|url\(`, html, "it needs nothing else")
		require.NotContains(t, html, "NaN")
		require.NotContains(t, html, "Inf")
		plots := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(html, -1)
		require.Equal(t, x.plots, len(plots))
		for _, p := range plots {
			requireInside(t, p)
		}
		require.Equal(t, 5*x.phases, strings.Count(html, `<rect class="band`), "on all plots over time")
	}
}

// A plot of very many points is thinned, and loses no peak; one with a gap shows it.
func TestChart(t *testing.T) {
	c := &chart{Title: "x", x: timeAxis(1e5), y: axis{show: whole}}
	c.line("many", 0, 100_000, func(i int) (float64, float64) { return float64(i), map[bool]float64{true: 99, false: 1}[i == 77_777] })
	require.LessOrEqual(t, len(c.Lines[0].points), drawn)
	require.Equal(t, 1, strings.Count(string(c.SVG()), " 20.1L"), "the peak, just below 100")
	gap := &chart{x: timeAxis(10), y: axis{show: micros, log: true}}
	gap.line("p99", 0, 10, func(i int) (float64, float64) { return float64(i), float64(i % 5) })
	require.Equal(t, 2, strings.Count(string(gap.SVG()), "M")-len(gap.y.ticks))
}

func TestAxes(t *testing.T) {
	told := func(a axis) (all []string) {
		for _, v := range a.ticks {
			all = append(all, a.show(v))
		}
		return all
	}
	require.Equal(t, []string{"0s", "5s", "10s", "15s", "20s", "25s"}, told(timeAxis(27)))
	require.Equal(t, []string{"0s", "15m", "30m", "45m", "1h", "1h15m", "1h30m"}, told(timeAxis(95*60)))
	require.Equal(t, []string{"0s", "24h", "48h", "72h", "96h"}, told(timeAxis(100*3600)))
	for _, x := range []struct {
		least, most float64
		log         bool
		want        []string
	}{
		{0, 800, false, []string{"0", "200", "400", "600", "800"}},
		{3, 7, false, []string{"0", "2", "4", "6", "8"}},
		{0, 0, false, []string{"0", "0"}},
		{150, 151, true, []string{"100µs", "200µs"}},
		{100, 1000, true, []string{"100µs", "200µs", "500µs", "1.00ms"}},
		{70, 2e6, true, []string{"10µs", "100µs", "1.00ms", "10ms", "100ms", "1.00s", "10.00s"}},
	} {
		a := axis{show: whole, log: x.log}
		if x.log {
			a.show = micros
		}
		a.cover([]chartLine{{points: []point{{y: x.least}, {y: x.most}}}})
		require.Equal(t, x.want, told(a))
		require.Equal(t, []float64{0, 1}, []float64{a.part(a.ticks[0]), a.part(a.ticks[len(a.ticks)-1])})
	}
}

// requireInside wants p to be well-formed, and its lines to lie inside of it.
func requireInside(t *testing.T, p string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(p)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		start, is := token.(xml.StartElement)
		if !is || start.Name.Local != "path" || !strings.HasPrefix(start.Attr[0].Value, "line") {
			continue
		}
		points := regexp.MustCompile(`[ML]([\d.]+) ([\d.]+)`).FindAllStringSubmatch(start.Attr[1].Value, -1)
		require.NotEmpty(t, points)
		for _, at := range points {
			x, err1 := strconv.ParseFloat(at[1], 64)
			y, err2 := strconv.ParseFloat(at[2], 64)
			require.NoError(t, errors.Join(err1, err2))
			require.True(t, marginLeft <= x && x <= marginLeft+plotAreaWidth && marginTop <= y && y <= marginTop+plotAreaHeight, "%v", at)
		}
	}
}

func TestHist(t *testing.T) {
	r := pictured()
	var b bytes.Buffer
	require.NoError(t, r.WriteHist(&b))
	for _, span := range []string{"online", "reply", "last"} {
		require.Contains(t, b.String(), "\n"+span+"\n")
	}
	h := newHistogram()
	for us, n := range map[int64]int64{10: 5, 100: 10, 1000: 1} {
		require.NoError(t, h.RecordValues(us, n))
	}
	require.Equal(t, []string{
		"     8µs..         5  31.2 % " + strings.Repeat("█", 25),
		"    16µs..         0   0.0 % ",
		"    32µs..         0   0.0 % ",
		"    64µs..        10  62.5 % " + strings.Repeat("█", 50),
		"   128µs..         0   0.0 % ",
		"   256µs..         0   0.0 % ",
		"   512µs..         1   6.2 % " + strings.Repeat("█", 5),
	}, strings.Split(strings.TrimRight(bars(h), "\n"), "\n"))
	b.Reset()
	require.NoError(t, newReport().WriteHist(&b))
	require.Empty(t, b.String())
}

func TestPlot(t *testing.T) {
	require.Equal(t, " ▁▄█", spark([]float64{0, 1, 4, 8}, 8))
	long := make([]Moment, 1000)
	for i := range long {
		long[i].At = time.Duration(i) * time.Second
	}
	long[500].P99 = 1
	values, most := columns(long, func(m Moment) float64 { return m.P99 })
	require.Equal(t, 1.0, most)
	line := spark(values, most)
	require.Len(t, []rune(line), plotWidth)
	require.Equal(t, 1, strings.Count(line, "█"), "no peak is lost")
	var b bytes.Buffer
	require.NoError(t, pictured().WritePlot(&b))
	require.Contains(t, b.String(), "connected, at most 7\n")
	require.Contains(t, b.String(), "reply p99, at most 9.80ms\n")
}

// However long a run is, what is kept of its course is bounded, and loses neither peak nor sum.
func TestThin(t *testing.T) {
	var all []Moment
	for i := range 10 * maxPoints {
		m := Moment{At: time.Duration(i) * time.Second, Sent: 100, P99: float64(i % 5000)}
		all = thin(append(all, m), Moment.with)
		require.Less(t, len(all), maxPoints)
	}
	require.Equal(t, []any{int64(100), time.Duration(10*maxPoints-1) * time.Second}, []any{all[0].Sent, all[len(all)-1].At})
	peak := 0.0
	for _, m := range all {
		peak = max(peak, m.P99)
	}
	require.Equal(t, 4999.0, peak)

	w := &Watch{}
	for i := range 3 * maxPoints {
		w.add(Sample{At: time.Unix(int64(i), 0), RSS: int64(i % 5000), CPU: time.Duration(i) * time.Millisecond})
		require.Less(t, len(w.samples), maxPoints)
	}
	most := int64(0)
	for _, s := range w.samples {
		most = max(most, s.RSS)
	}
	require.Equal(t, []any{int64(4999), time.Duration(3*maxPoints-1) * time.Millisecond}, []any{most, w.samples[len(w.samples)-1].CPU})
}
