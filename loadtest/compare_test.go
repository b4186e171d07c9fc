package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newReport() *Report { return &Report{Window: Window{Figures: newFigures()}} }

func TestAt(t *testing.T) {
	start := time.Now()
	all := []Sample{{start, 100, time.Second, 10, 5, 7}, {start.Add(time.Second), 200, 3 * time.Second, 30, 9, 8}, {start.Add(2 * time.Second), 200, 3 * time.Second, 40, 6, 9}}
	for after, want := range map[time.Duration]Sample{
		-time.Second:            {RSS: 100, CPU: time.Second, Switches: 10, Goroutines: 5, Files: 7},
		0:                       {RSS: 100, CPU: time.Second, Switches: 10, Goroutines: 5, Files: 7},
		500 * time.Millisecond:  {RSS: 150, CPU: 2 * time.Second, Switches: 20, Goroutines: 5, Files: 7},
		1500 * time.Millisecond: {RSS: 200, CPU: 3 * time.Second, Switches: 35, Goroutines: 9, Files: 8},
		time.Hour:               {RSS: 200, CPU: 3 * time.Second, Switches: 40, Goroutines: 6, Files: 9},
	} {
		want.At = start.Add(after)
		require.Equal(t, want, at(all, start.Add(after)))
	}
	r := newReport()
	r.Began, r.From, r.Measured, r.There = start, start.Add(500*time.Millisecond), time.Second, 25
	for range 4 {
		record(r.Figures.Spans[Last], time.Millisecond)
	}
	r.Use(all[:2], "")
	require.Equal(t, &ServerUse{Before: 100, Ready: 150, Most: 200, Goroutines: 9, Files: 8, CPU: time.Second, Switches: 10, Seen: 500 * time.Millisecond}, r.Server)
	require.Equal(t, 2.0, r.Server.cores(), "of the time in which it was seen")
	r.Use(all, "")
	require.Equal(t, &ServerUse{Before: 100, Ready: 150, Most: 200, Goroutines: 9, Files: 9, CPU: time.Second, Switches: 15, Seen: time.Second}, r.Server)
	require.Equal(t, 2.0, r.perDevice())
	cpu, switches, ok := r.perMessage()
	require.Equal(t, []any{250 * time.Millisecond, 3.75, true}, []any{cpu, switches, ok})
}

// A process is seen as it is, and its end is no failure.
func TestWatch(t *testing.T) {
	s, err := sample(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, s.RSS, int64(1<<20))
	later := s
	for began := time.Now(); later.CPU == s.CPU && time.Since(began) < 10*time.Second; { // to look at it is work enough
		later, err = sample(os.Getpid())
		require.NoError(t, err)
	}
	require.Greater(t, later.CPU, s.CPU)
	require.Greater(t, later.Switches, int64(0))

	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	w, err := NewWatch(child.Process.Pid)
	require.NoError(t, err)
	require.NoError(t, child.Process.Kill())
	child.Wait()
	w.done.Wait() // it ends by itself
	samples, lost := w.Stop()
	require.Equal(t, "the server's process ended meanwhile", lost)
	require.NotEmpty(t, samples)
	_, err = NewWatch(child.Process.Pid)
	require.Equal(t, ExitUsage, ExitOf(err))
}

// Two servers are measured in turns, and the ratio of what they need is found.
func TestPairs(t *testing.T) {
	var order string
	p, err := RunPairs(context.Background(), 8, func(_ context.Context, baseline bool) (*Report, error) {
		r := newReport()
		r.Figures.Counts[Online], r.Figures.Counts[Answered] = 2, 10
		noise := time.Duration(len(order)) * 100 * time.Microsecond // it rises with time, for both alike
		took := 10*time.Millisecond + noise
		if order += "T"; baseline {
			order = order[:len(order)-1] + "B"
			took = 20*time.Millisecond + noise
		}
		for range 10 {
			record(r.Figures.Spans[Reply], took)
		}
		r.Server = &ServerUse{Most: 7}
		return r, nil
	})
	require.NoError(t, err)
	require.Equal(t, "TBBTTBBTTBBTTBBT", order)
	require.Equal(t, []int64{16, 80, 80}, []int64{p.Target.Figures.Counts[Online], p.Baseline.Figures.Counts[Answered], p.Target.Figures.Spans[Reply].TotalCount()})
	found := map[string]Ratio{}
	for _, r := range p.Ratios {
		found[r.Figure] = r
	}
	require.InDelta(t, 0.52, found["reply.p50"].Ratio, 0.03)
	require.LessOrEqual(t, found["reply.p50"].Low, found["reply.p50"].Ratio)
	require.LessOrEqual(t, found["reply.p50"].Ratio, found["reply.p50"].High)
	require.Equal(t, 1.0, found["server memory"].Ratio)
	require.NotContains(t, found, "online.p50", "it was not measured")
	require.Equal(t, ExitOK, p.Exit())
	p.Baseline.Figures.Counts[Lost] = 1
	require.Equal(t, ExitWrong, p.Exit())

	var text, asJSON, asCSV bytes.Buffer
	require.NoError(t, p.WriteText(&text))
	require.NoError(t, p.WriteJSON(&asJSON))
	require.NoError(t, p.WriteCSV(&asCSV))
	require.Contains(t, text.String(), "reply.p50")
	require.True(t, json.Valid(asJSON.Bytes()))
	require.True(t, strings.HasPrefix(asCSV.String(), "figure,target"))
	_, err = RunPairs(context.Background(), 5, nil)
	require.Equal(t, ExitUsage, ExitOf(err))
}

// The interval has the chance that it is said to have, and the next narrower one has not.
func TestRank(t *testing.T) {
	for n := minPairs; n < 200; n++ {
		k := rank(n)
		require.GreaterOrEqual(t, coverage(n, k), 0.95, n)
		require.Less(t, coverage(n, k+1), 0.95, n)
	}
	require.Equal(t, 1, rank(10))
}

// coverage is the chance that of n throws of a coin more than k and less than n-k are heads.
func coverage(n, k int) (chance float64) {
	for heads := k + 1; heads < n-k; heads++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(heads + 1))
		c, _ := math.Lgamma(float64(n - heads + 1))
		chance += math.Exp(a - b - c - float64(n)*math.Ln2)
	}
	return chance
}

// What goes from a shard to its parent is what was counted, and shares add up to the whole.
func TestShares(t *testing.T) {
	f := newFigures()
	for i := range f.Spans {
		for k := range 100 * (i + 1) {
			record(f.Spans[i], time.Duration(k*k)*time.Microsecond)
		}
	}
	for i := range f.Counts {
		f.Counts[i] = int64(i)
	}
	f.note("x")
	b, err := json.Marshal(f)
	require.NoError(t, err)
	var back Figures
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, f.Counts, back.Counts)
	require.Equal(t, f.Notes, back.Notes)
	for i := range f.Spans {
		require.Equal(t, f.Spans[i].TotalCount(), back.Spans[i].TotalCount())
		require.Equal(t, f.Spans[i].ValueAtQuantile(99), back.Spans[i].ValueAtQuantile(99))
	}
	require.Error(t, back.UnmarshalJSON([]byte(`{"Spans":["AAAA"]}`)))

	p := Phase{Devices: 31, Rate: 90, Rise: 30, ConnectRate: 1000, Churn: 3, Reconnect: Backoff{Base: time.Second, Cap: time.Minute, set: true}}
	c := Config{Start: 5, Phase: p, Phases: []Phase{p}}
	next, rate := 5, 0.0
	for i := range 4 {
		s := c.share(i, 4)
		require.Equal(t, []Phase{s.Phase}, s.Phases)
		require.Equal(t, next, s.Start)
		next += s.Devices
		rate += s.Rate
		b, err := json.Marshal(s)
		require.NoError(t, err)
		var back Config
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, s, back)
	}
	require.Equal(t, 36, next)
	require.InDelta(t, 90, rate, 1e-9)
	for devices := range 100 { // from phase to phase, no shard has less
		for i := range 7 {
			require.LessOrEqual(t, Phase{Devices: devices}.share(i, 7).Devices, Phase{Devices: devices + 1}.share(i, 7).Devices)
		}
	}
}
