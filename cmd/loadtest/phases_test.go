package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/loadtest"
)

const twoPhases = `
phases:
  - name: come
    devices: 6
  - name: talk
    for: 500ms
    rate: 100
    fail: [lost==0, "answered<10"]
`

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A file of phases is run, alone and in shards, and each phase is told of.
func TestFile(t *testing.T) {
	url := startGateway(t)
	env := func(name string) string { return map[string]string{"MOBILE_TOKEN": secretToken}[name] }
	file := write(t, "two.yaml", twoPhases)
	for _, args := range [][]string{{"-f", file}, {"--file", file, "--shards", "3"}, {"-n", "5", "-d", "400ms", "-f", file}} {
		status, out, errOut := command(context.Background(), env, append(args, "-o", "json", url)...)
		require.Contains(t, []int{loadtest.ExitThreshold, loadtest.ExitSaturated}, status, errOut)
		var report struct {
			Name    string
			Devices int
			Phases  []struct {
				Name   string
				Counts map[string]int
				Failed []string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(out), &report))
		answered, devices := 50, 6
		if args[0] == "-n" {
			answered, devices = 40, 5
		}
		require.Equal(t, []any{"two.yaml", devices}, []any{report.Name, report.Devices})
		require.Len(t, report.Phases, 2)
		require.Equal(t, devices, report.Phases[0].Counts["online"])
		require.InDelta(t, answered, report.Phases[1].Counts["answered"], 2)
		require.Len(t, report.Phases[1].Failed, 1)
		require.Contains(t, errOut, "talk: ")
	}

	for want, args := range map[string][]string{
		"line 3: there is no key fro; a phase may have name":                        {"-f", write(t, "x.yaml", "phases:\n- name: x\n  fro: 3\n")},
		"cannot be read: no such file or directory":                                 {"-f", "/no/such/file"},
		"cannot be read: is a directory":                                            {"-f", "/"},
		"the file is longer than 65536 bytes":                                       {"-f", "/dev/zero"},
		"the most devices and the longest phase must be over 0":                     {"-f", file, "-d", "-1s"},
		"--scenario and --baseline do not go with -f":                               {"-f", file, "--scenario", "chat"},
		"the phase x has a condition about the server":                              {"-f", write(t, "x.yaml", "phases:\n- {name: x, devices: 1, fail: server.rss<1GiB}\n")},
		"a condition about the server needs --server-pid or --server-metrics":       {"--fail", "server.rss<1GiB"},
		"a server is looked at by its pid or by its metrics, not both":              {"--server-pid", "1", "--server-metrics", "http://127.0.0.1"},
		"the address of metrics must be like http://127.0.0.1:9090/metrics":         {"--server-metrics", "127.0.0.1:9090"},
		"there must be a device for each of 7 shards":                               {"-f", file, "--shards", "7"},
		"the page cannot be written: no such file or directory":                     {"--html", "/no/such/directory/x.html"},
		"the server's metrics cannot be read: connection refused":                   {"--server-metrics", "http://127.0.0.1:1"},
		"-r: must be messages a second, as 200, or 10..500 for a rate that changes": {"-r", "fast"},
		"--size: must be bytes, as 32..512 or 100":                                  {"--size", "0"},
	} {
		status, out, errOut := command(context.Background(), env, append(args, url)...)
		require.Contains(t, errOut, want)
		require.Equal(t, 1, strings.Count(errOut, "\n"))
		require.Empty(t, out)
		exit := loadtest.ExitUsage
		if strings.HasPrefix(want, "the server's metrics cannot") {
			exit = loadtest.ExitUnreachable
		}
		require.Equal(t, exit, status, errOut)
	}
}

// A server may be watched by its metrics: they are in the line a second, in the report, and in conditions.
func TestServerMetrics(t *testing.T) {
	url := startGateway(t)
	env := func(name string) string { return map[string]string{"MOBILE_TOKEN": secretToken}[name] }
	var looks atomic.Int64
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := looks.Add(1)
		fmt.Fprintf(w, "# TYPE go_goroutines gauge\ngo_goroutines 12\nprocess_open_fds %d\nprocess_cpu_seconds_total %g\nprocess_resident_memory_bytes %d\n", 10+n, float64(n)/4, 20<<20+n<<20)
	}))
	defer metrics.Close()
	page := filepath.Join(t.TempDir(), "x.html")
	for _, shards := range []string{"1", "2"} {
		looks.Store(0)
		status, out, errOut := command(context.Background(), env, "-n", "4", "-r", "20", "-d", "2500ms", "--shards", shards, "--server-metrics", metrics.URL+"/metrics", "--html", page,
			"--fail", "server.rss<1GiB", "--fail", "server.rss<1MiB", "--fail", "server.goroutines==12", "--fail", "server.cores>0", url)
		require.Contains(t, []int{loadtest.ExitThreshold, loadtest.ExitSaturated}, status, errOut)
		require.Regexp(t, `server: \d\d\.\d MiB before, .* up to 12 goroutines, up to 1\d descriptors; while measuring .* processors`, out)
		require.Equal(t, 1, strings.Count(out, "does not hold"), out)
		require.Regexp(t, `server 2\d\.\d MiB, 0\.\d\d processors`, errOut)
		html, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Contains(t, string(html), "Memory of the server")
	}
	status, out, errOut := command(context.Background(), env, "-q", "-n", "4", "-r", "100", "-d", "100ms", "--pairs", "6", "--baseline", url, "--server-metrics", metrics.URL, "--baseline-metrics", metrics.URL, url)
	require.Contains(t, []int{loadtest.ExitOK, loadtest.ExitSaturated}, status, errOut)
	require.Contains(t, out, "server memory")
}

// The help tells of every flag.
func TestUsageIsComplete(t *testing.T) {
	new(options).flags().VisitAll(func(f *flag.Flag) {
		require.Regexp(t, `(?m)(^|[ ,(])`+dashed(f.Name)+`[ ,)]`, usage, f.Name)
	})
	names, _ := loadtest.Scenarios()
	for _, name := range names {
		require.Regexp(t, `(?m)^  `+name+` `, usage)
	}
	for _, line := range strings.Split(usage, "\n") {
		require.LessOrEqual(t, len([]rune(line)), 130, line)
	}
}

// TestNumbersOfTheGateway: what the gateway itself serves to operators is what --server-metrics reads.
func TestNumbersOfTheGateway(t *testing.T) {
	url, metrics := startGatewayWithNumbers(t)
	env := func(name string) string { return map[string]string{"MOBILE_TOKEN": secretToken}[name] }
	status, out, errOut := command(context.Background(), env, "-n", "4", "-r", "20", "-d", "1500ms", "--server-metrics", metrics,
		"--fail", "server.rss>1MiB", "--fail", "server.goroutines>2", "--fail", "server.fds>4", "--fail", "server.cores>0", url)
	require.Contains(t, []int{loadtest.ExitOK, loadtest.ExitSaturated}, status, errOut+out)
	require.Regexp(t, `server: \d+\.\d MiB before`, out)
	require.NotContains(t, out, "does not hold")
}
