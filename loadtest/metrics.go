package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// Bounds of what a server's metrics may cost.
const (
	metricsInterval = time.Second
	metricsTimeout  = 2 * time.Second
	maxMetrics      = 4 << 20 // bytes of the page
)

// WatchMetrics begins to watch a server by its page of metrics, in the text format of Prometheus. It needs the memory and the
// processor time there, under the names that the clients for Go and most others give them.
func WatchMetrics(address string) (*Watch, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, usagef("the address of metrics must be like http://127.0.0.1:9090/metrics")
	}
	if u.Path == "" {
		u.Path = "/metrics"
	}
	client := &http.Client{
		Timeout:       metricsTimeout,
		Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true}, // nothing is left open between looks
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	w := &Watch{every: metricsInterval, look: func(ctx context.Context) (Sample, error) { return scrape(ctx, client, u.String()) }}
	if err := w.start(); err != nil {
		return nil, unreachable{fmt.Errorf("the server's metrics cannot be read: %w", err)}
	}
	return w, nil
}

func scrape(ctx context.Context, client *http.Client, address string) (s Sample, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return s, err
	}
	response, err := client.Do(request)
	if err != nil {
		return s, plainly(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return s, fmt.Errorf("status %d", response.StatusCode)
	}
	page, err := io.ReadAll(io.LimitReader(response.Body, maxMetrics+1))
	switch {
	case err != nil:
		return s, plainly(err)
	case len(page) > maxMetrics:
		return s, fmt.Errorf("the page is longer than %d bytes", maxMetrics)
	}
	return parseMetrics(page, time.Now())
}

// plainly is what went wrong without the words of the other end, which an error of net/http may hold.
func plainly(err error) error {
	var code syscall.Errno
	var name *net.DNSError
	var late net.Error
	switch {
	case errors.As(err, &code):
		return code
	case errors.As(err, &name):
		return errors.New("the host has no address")
	case errors.As(err, &late) && late.Timeout():
		return fmt.Errorf("no answer in %s", metricsTimeout)
	}
	return errors.New("the answer is not one of an HTTP server")
}

// metricNames are what is looked for; the first two must be there.
var metricNames = [...]string{"process_resident_memory_bytes", "process_cpu_seconds_total", "go_goroutines", "process_open_fds"}

const maxMetric = 1 << 53 // beyond it a float is no count

// parseMetrics finds the few values that are wanted in a page; all others are passed over.
func parseMetrics(page []byte, now time.Time) (Sample, error) {
	var values [len(metricNames)]float64
	var seen [len(metricNames)]bool
	for line := range bytes.Lines(page) {
		for i, name := range metricNames {
			rest, named := bytes.CutPrefix(line, []byte(name))
			if !named || len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' {
				continue
			}
			words := bytes.Fields(rest) // a value, and perhaps a time
			if len(words) < 1 || len(words) > 2 || seen[i] {
				return Sample{}, fmt.Errorf("%s is not there once, with a value", name)
			}
			v, err := strconv.ParseFloat(string(words[0]), 64)
			if err != nil || !(v >= 0 && v < maxMetric) {
				return Sample{}, fmt.Errorf("%s has no value that can be", name)
			}
			values[i], seen[i] = v, true
		}
	}
	for i, name := range metricNames[:2] {
		if !seen[i] {
			return Sample{}, fmt.Errorf("the page has no %s", name)
		}
	}
	return Sample{At: now, RSS: int64(values[0]), CPU: time.Duration(min(values[1], 1e9) * float64(time.Second)), Goroutines: int64(values[2]), Files: int64(values[3])}, nil
}
