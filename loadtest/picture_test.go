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
	r.Figures.Counts[Online] = 7
	r.Figures.note(`closed with 1013 <b>`)
	return r
}

func TestPage(t *testing.T) {
	full, empty := pictured(), newReport()
	for _, x := range []struct {
		r     *Report
		plots int
	}{{full, 4}, {empty, 3}} {
		var b bytes.Buffer
		require.NoError(t, x.r.WriteHTML(&b))
		html := b.String()
		require.NotContains(t, html, "<script>")
		require.NotContains(t, html, "<b>")
		require.NotRegexp(t, `(?i)\b(src|href)=|@import|url\(`, html, "it needs nothing else")
		require.NotContains(t, html, "NaN")
		require.NotContains(t, html, "Inf")
		plots := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(html, -1)
		require.Len(t, plots, x.plots)
		for _, p := range plots {
			requireInside(t, p)
		}
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
	long := make([]float64, 1000)
	long[500] = 1
	line := spark(long, 1)
	require.LessOrEqual(t, len([]rune(line)), plotWidth)
	require.Equal(t, 1, strings.Count(line, "█"), "no peak is lost")
	var b bytes.Buffer
	require.NoError(t, pictured().WritePlot(&b))
	require.Contains(t, b.String(), "connected, at most 7\n")
	require.Contains(t, b.String(), "reply p99, at most 9.80ms\n")
}
