package loadtest

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/codec"
)

func TestReports(t *testing.T) {
	r := runBrief(t, brief(startLiar(t, &liar{})))
	var text, asJSON, asCSV bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.Contains(t, text.String(), "answered 100 ")
	require.NoError(t, r.WriteJSON(&asJSON))
	require.NotContains(t, asJSON.String()+text.String(), "secret")
	var back struct {
		Counts map[string]int64
		Spans  map[string]map[string]float64
		Exit   int
		URL    string
	}
	require.NoError(t, json.Unmarshal(asJSON.Bytes(), &back))
	require.Equal(t, int64(100), back.Counts["answered"])
	require.Equal(t, 100.0, back.Spans["reply"]["count"])
	require.Positive(t, back.Spans["reply"]["p99.9_us"])
	require.Equal(t, r.Config.URL, back.URL)
	require.NoError(t, r.WriteCSV(&asCSV))
	rows, err := csv.NewReader(&asCSV).ReadAll()
	require.NoError(t, err)
	require.Contains(t, rows, []string{"answered", "100", ""})
	for _, row := range rows[1:] {
		_, err := ParseThreshold(row[0] + "<1s")
		_, err2 := ParseThreshold(row[0] + "<1")
		require.True(t, err == nil || err2 == nil, "%s has the name that a condition has", row[0])
	}
}

func TestThresholds(t *testing.T) {
	r := runBrief(t, brief(startLiar(t, &liar{})))
	for text, holds := range map[string]bool{
		"reply.p99<5s": true, "reply.p99<1us": false, " reply.max >= 1us ": true, "lost==0": true, "answered!=100": false, "answered>=100": true,
		"reply.count==100": true, "reply.p99.9<5s": true, "reply.p12.5<=5s": true, "rate>100": true, "online<4": false, "online<=4": true,
		"ready.mean<5s": true,
	} {
		c, err := ParseThreshold(text)
		require.NoError(t, err, text)
		r.Failed = nil
		r.Hold([]Threshold{c})
		require.Equal(t, holds, len(r.Failed) == 0, text)
		if !holds && r.Generator.Saturated == "" {
			require.Equal(t, ExitThreshold, r.Exit())
		}
	}
	none := newReport()
	c, err := ParseThreshold("reply.p99<50ms")
	require.NoError(t, err)
	none.Hold([]Threshold{c})
	require.Equal(t, []string{"reply.p99<50ms (not measured)"}, none.Failed)
	for _, bad := range []string{"", "reply", "reply.p99", "reply.p99<", "reply.p99<50", "lost==x", "lost=0", "nothing<1", "reply.p0<1s", "reply.p101<1s", "reply.px<1s", "reply<1s", "<1"} {
		_, err := ParseThreshold(bad)
		require.Equal(t, ExitUsage, ExitOf(err), bad)
	}
}

func TestUsage(t *testing.T) {
	good := brief("ws://127.0.0.1:1")
	for name, spoil := range map[string]func(*Config){
		"no token":            func(c *Config) { c.Token = "" },
		"scenario":            func(c *Config) { c.Scenario = "dance" },
		"devices":             func(c *Config) { c.Devices = -1 },
		"rate":                func(c *Config) { c.Rate = -1 },
		"duration":            func(c *Config) { c.Duration = -1 },
		"small":               func(c *Config) { c.MinSize = 1 },
		"large":               func(c *Config) { c.MaxSize = codec.MaxTextChars + 1 },
		"range":               func(c *Config) { c.MinSize, c.MaxSize = 100, 50 },
		"prefix":              func(c *Config) { c.Prefix = `a"b` },
		"long prefix":         func(c *Config) { c.Prefix = strings.Repeat("x", 120) },
		"more than one holds": func(c *Config) { c.Devices = 1 << 24 },
		"no address":          func(c *Config) { c.URL = "" },
		"no scheme":           func(c *Config) { c.URL = "127.0.0.1:8787" },
		"TLS":                 func(c *Config) { c.URL = "wss://127.0.0.1/ws" },
		"http":                func(c *Config) { c.URL = "http://127.0.0.1/ws" },
	} {
		cfg := good
		spoil(&cfg)
		_, err := Run(context.Background(), cfg)
		require.Equal(t, ExitUsage, ExitOf(err), "%s: %v", name, err)
	}
}

func TestLive(t *testing.T) {
	m := Moment{Phase: "measuring", At: 12 * time.Second, Connected: 7, Sent: 5, TotalSent: 9, Answered: 4, P50: 1500, Faults: 1}
	var plain, terminal bytes.Buffer
	for w, columns := range map[*bytes.Buffer]func() int{&plain: nil, &terminal: func() int { return 40 }} {
		l := NewLive(w, columns)
		l.Second(m)
		l.Second(Moment{Phase: "done"})
		l.Close()
	}
	require.Equal(t, fmt.Sprintf("%s\n%s\n", m, Moment{Phase: "done"}), plain.String())
	require.Contains(t, plain.String(), "connected 7  faults 1  sent 5/s  answered 4/s  p50 1.50ms")
	require.NotContains(t, terminal.String(), "\n")
	lines := strings.Split(terminal.String(), "\r")
	require.Equal(t, m.String()[:39], lines[1], "one row, and no more")
	require.Len(t, lines[2], len(lines[1]), "a shorter line covers the longer one")
}

// Each exit status has its reason, and of several the gravest counts.
func TestExit(t *testing.T) {
	r := newReport()
	require.Equal(t, ExitUnreachable, r.Exit(), "nobody was ever ready")
	r.Figures.Counts[Online] = 1
	require.Equal(t, ExitOK, r.Exit())
	for _, step := range []struct {
		spoil func()
		exit  int
	}{
		{func() { r.Phases = []PhaseReport{{Window: Window{Failed: []string{"lost==0"}}}} }, ExitThreshold},
		{func() { r.Phases, r.Failed = nil, []string{"lost==0"} }, ExitThreshold},
		{func() { r.Generator.Saturated = "late" }, ExitSaturated},
		{func() { r.Figures.Counts[Missing] = 1 }, ExitUnreachable},
		{func() { r.Figures.Counts[Lost] = 1 }, ExitWrong},
		{func() { r.Interrupted = true }, ExitInterrupted},
	} {
		step.spoil()
		require.Equal(t, step.exit, r.Exit())
		require.NotEmpty(t, verdicts[r.Exit()])
	}
	for err, exit := range map[error]int{nil: ExitOK, usagef("x"): ExitUsage, unreachable{net.ErrClosed}: ExitUnreachable, shardError{"x", ExitUnreachable}: ExitUnreachable, net.ErrClosed: ExitWrong} {
		require.Equal(t, exit, ExitOf(err))
	}
}
