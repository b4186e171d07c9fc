package loadtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recorded is what a gateway's page of metrics looks like; the two numbers are for the memory and the processor time.
const recorded = `# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 23
go_memstats_heap_alloc_bytes 4.194304e+06
mobilegate_connections{state="ready"} 12000
process_cpu_seconds_total %g
process_cpu_seconds_total_of_another 5
process_max_fds 20000
process_open_fds 12017 1395066363000
process_resident_memory_bytes %d
process_start_time_seconds 1.7e+09
`

func TestParseMetrics(t *testing.T) {
	now := time.Now()
	s, err := parseMetrics(fmt.Appendf(nil, recorded, 1.25, 3<<20), now)
	require.NoError(t, err)
	require.Equal(t, Sample{At: now, RSS: 3 << 20, CPU: 1250 * time.Millisecond, Goroutines: 23, Files: 12017}, s)
	s, err = parseMetrics([]byte("process_resident_memory_bytes\t2.5e+10\r\nprocess_cpu_seconds_total   7"), now) // those that must be there
	require.NoError(t, err)
	require.Equal(t, Sample{At: now, RSS: 25_000_000_000, CPU: 7 * time.Second}, s)
	for page, want := range map[string]string{
		"":                                  "the page has no process_resident_memory_bytes",
		"process_resident_memory_bytes 5\n": "the page has no process_cpu_seconds_total",
		"process_resident_memory_bytes{a=\"b\"} 5\nprocess_cpu_seconds_total 1\n":    "the page has no process_resident_memory_bytes",
		"process_resident_memory_bytes x\nprocess_cpu_seconds_total 1\n":             "process_resident_memory_bytes has no value that can be",
		"process_resident_memory_bytes NaN\n":                                        "process_resident_memory_bytes has no value that can be",
		"process_resident_memory_bytes -1\n":                                         "process_resident_memory_bytes has no value that can be",
		"process_resident_memory_bytes +Inf\n":                                       "process_resident_memory_bytes has no value that can be",
		"process_resident_memory_bytes \n":                                           "process_resident_memory_bytes is not there once, with a value",
		"process_resident_memory_bytes 1 2 3\n":                                      "process_resident_memory_bytes is not there once, with a value",
		"process_resident_memory_bytes 1\nprocess_resident_memory_bytes 1\n":         "process_resident_memory_bytes is not there once, with a value",
		"<html>\x1b[31m process_resident_memory_bytes 5 process_cpu_seconds_total 1": "the page has no process_resident_memory_bytes",
	} {
		_, err := parseMetrics([]byte(page), now)
		require.EqualError(t, err, want)
	}
}

// A server that cannot be looked at is told of at once, in words of our own.
func TestWatchMetricsFails(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"": "", "127.0.0.1:9090": "", "ftp://x/": "", "http://user:secret@127.0.0.1/metrics": "", "http://": ""} {
		_, err := WatchMetrics(address)
		require.Equal(t, ExitUsage, ExitOf(err), address)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = WatchMetrics("http://" + l.Addr().String())
	require.EqualError(t, err, "the server's metrics cannot be read: connection refused")
	_, err = WatchMetrics("http://no-such-host.invalid/metrics")
	require.EqualError(t, err, "the server's metrics cannot be read: the host has no address")
	for want, answer := range map[string]http.HandlerFunc{
		"status 404": http.NotFound,
		"status 302": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
		"the page is longer than 4194304 bytes": func(w http.ResponseWriter, r *http.Request) {
			io.Copy(w, io.LimitReader(endless{}, maxMetrics+1<<20))
		},
		"the page has no process_resident_memory_bytes": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<title>\x1b[31m</title>") },
		"no answer in 2s": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"the answer is not one of an HTTP server": func(w http.ResponseWriter, r *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(c, "SSH-2.0-secret\r\n")
			c.Close()
		},
	} {
		server := httptest.NewServer(answer)
		_, err := WatchMetrics(server.URL)
		require.EqualError(t, err, "the server's metrics cannot be read: "+want)
		require.Equal(t, ExitUnreachable, ExitOf(err))
		server.Close()
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, strings.Repeat("# x\n", len(b)/4+1)), nil }

// Looks that fail later are told of, and those before and after count; a server that was started anew goes on from where it was.
func TestWatchMetrics(t *testing.T) {
	var looks atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := looks.Add(1)
		require.Equal(t, "/metrics", r.URL.Path)
		cpu := float64(n)
		switch {
		case n == 3:
			w.WriteHeader(http.StatusBadGateway)
			return
		case n > 3:
			cpu = float64(n) / 100
		}
		fmt.Fprintf(w, recorded, cpu, n<<20)
	}))
	defer server.Close()
	w, err := WatchMetrics(server.URL)
	require.NoError(t, err)
	w.quit() // the test looks by itself
	w.done.Wait()
	for range 3 {
		w.take(context.Background())
	}
	var m Moment
	w.Tell(&m)
	require.Equal(t, int64(4<<20), m.RSS)
	require.Positive(t, m.Cores)
	require.Contains(t, m.String(), "server 4.0 MiB")
	samples, lost := w.Stop()
	require.Equal(t, "looks at the server that failed: 1, the last with: status 502", lost)
	require.Len(t, samples, 4)
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 2040 * time.Millisecond, 2050 * time.Millisecond} {
		require.Equal(t, want, samples[i].CPU, i)
	}
	w.failed = 0
	_, lost = w.Stop()
	require.Equal(t, "the server was started anew meanwhile", lost)
}

// The figures of the server are conditions like others, for the run and for a phase.
func TestServerFigures(t *testing.T) {
	start := time.Now()
	r := newReport()
	r.Began = start
	var samples []Sample
	for i := range 11 {
		samples = append(samples, Sample{At: start.Add(time.Duration(i) * time.Second), RSS: int64(10+10*i) << 20, CPU: time.Duration(i) * 500 * time.Millisecond, Goroutines: int64(10 + i), Files: int64(i)})
	}
	window := func(from, measured, there int) Window {
		return Window{From: start.Add(time.Duration(from) * time.Second), Measured: time.Duration(measured) * time.Second, There: there, Figures: newFigures()}
	}
	r.Phases = []PhaseReport{{Window: window(2, 3, 1024), Began: start}, {Window: window(5, 3, 1024), Began: start.Add(5 * time.Second)}, {Window: window(20, 3, 1024), Began: start.Add(20 * time.Second)}}
	for range 100 {
		record(r.Phases[0].Figures.Spans[Last], time.Millisecond)
	}
	r.sumUp()
	r.Use(samples, "")
	for text, want := range map[string][]bool{ // of the whole, and of the phases; the last was not seen
		"server.rss<60.5MiB":              {false, true, false, false},
		"server.rss<0.09GiB":              {false, true, true, false},
		"server.rss<=115343360":           {true, true, true, false},
		"server.rss_per_device<=20KiB":    {true, true, false, false},
		"server.cores==0.5":               {true, true, true, false},
		"server.cpu_per_message<15.01ms":  {false, true, false, false},
		"server.cpu_per_message>14.99ms":  {true, true, false, false},
		"server.goroutines<=15":           {false, true, false, false},
		"server.fds<=8":                   {false, true, true, false},
		"server.switches_per_message<1e9": {false, false, false, false},
	} {
		c, err := ParseThreshold(text)
		require.NoError(t, err)
		require.True(t, c.OfServer())
		for i, w := range []*Window{&r.Window, &r.Phases[0].Window, &r.Phases[1].Window, &r.Phases[2].Window} {
			w.Failed = nil
			w.hold([]Threshold{c})
			require.Equal(t, want[i], len(w.Failed) == 0, "%s of %d: %v", text, i, w.Failed)
		}
	}
	r.Failed = nil
	c, err := ParseThreshold("server.rss<1MiB")
	require.NoError(t, err)
	r.hold([]Threshold{c})
	require.Equal(t, []string{"server.rss<1MiB (110 MiB)"}, r.Failed)
	for v, want := range map[float64]string{0: "0 KiB", 700: "0.684 KiB", 1 << 19: "512 KiB", 37.25 * (1 << 20): "37.2 MiB", 5 << 30: "5120 MiB"} {
		require.Equal(t, want, size.show(v))
	}
	for v, want := range map[float64]string{0: "0", 0.01234: "0.0123", 12: "12", 99.95: "100", 1999.6: "2000", 120000: "120000"} {
		require.Equal(t, want, number.show(v))
	}
	for _, bad := range []string{"server.rss<1TB", "server.rss<1MB", "server.rss<x", "server.memory<1", "server.cores<1s", "server<1", "server.rss<NaN", "lost<NaN"} {
		_, err := ParseThreshold(bad)
		require.Equal(t, ExitUsage, ExitOf(err), bad)
	}
}
