package loadtest

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is due at a rate that changes is the area below it.
func TestPace(t *testing.T) {
	for _, x := range []struct{ rate, rise float64 }{{10, 0}, {10, 5}, {0, 20}, {100, -10}, {0.5, 0.001}} {
		p := pace{from: time.Second, rate: x.rate, rise: x.rise}
		last := time.Duration(0)
		for p.n = 0; p.n < 600; p.n++ {
			due := p.due()
			require.GreaterOrEqual(t, due, last)
			if last = due; due == never {
				break
			}
			s := (due - p.from).Seconds()
			require.InDelta(t, float64(p.n), x.rate*s+x.rise*s*s/2, 1e-5, "%v", x)
		}
		require.Equal(t, x.rise < 0, last == never, "%v", x)
	}
	p := pace{rate: 100, rise: -10} // nothing is due any more after 10 s
	p.n = 499
	require.Less(t, p.due(), 10*time.Second)
	p.n = 501
	require.Equal(t, never, p.due())
	p.n = 100
	require.Equal(t, int64(400), p.left(10*time.Second))
}

// phases is a run of a file: devices come, talk, become more, talk in another way, and break off.
func phased(url string) Config {
	cfg := brief(url)
	cfg.Name = "a file.yaml"
	cfg.Phases = []Phase{
		{Name: "come", Devices: 4, ConnectRate: 1e4},
		{Name: "talk", Devices: 4, Scenario: "chat", Rate: 100, Duration: 300 * time.Millisecond, MinSize: 40, MaxSize: 60},
		{Name: "louder", Devices: 4, Scenario: "chat", Rate: 0, Rise: 400, Duration: 500 * time.Millisecond, MinSize: 700, MaxSize: 900},
		{Name: "more", Devices: 6, ConnectRate: 1e4},
		{Name: "storm", Devices: 6, Scenario: "storm", Duration: 300 * time.Millisecond},
	}
	return cfg
}

// Phases run one after another on the same fleet, and each has figures of its own, which add up to those of the run.
func TestPhases(t *testing.T) {
	t.Parallel()
	cfg := phased(startLiar(t, &liar{}))
	reply, err := ParseThreshold("reply.p99<5s")
	require.NoError(t, err)
	few, err := ParseThreshold("answered<10")
	require.NoError(t, err)
	cfg.Phases[1].Fail = []Threshold{reply, few}
	cfg.Phases[3].Fail = []Threshold{reply}
	r := runBrief(t, cfg)
	require.Len(t, r.Phases, 5)
	var whole [counts]int64
	for i, want := range []struct{ online, answered, calls, there int }{{4, 0, 4, 4}, {0, 30, 0, 4}, {0, 100, 0, 4}, {2, 0, 2, 6}, {6, 0, 6, 6}} {
		p := r.Phases[i]
		c := p.Figures.Counts
		require.Equal(t, []int64{int64(want.online), int64(want.answered), int64(want.calls)}, []int64{c[Online], c[Answered], c[Calls]}, p.Does.Name)
		require.Equal(t, want.there, p.There, p.Does.Name)
		require.Equal(t, int64(want.answered), p.Figures.Spans[Last].TotalCount())
		require.Equal(t, int64(want.online), p.Figures.Spans[Whole].TotalCount())
		require.Equal(t, cfg.Phases[i].Duration, p.Measured)
		for k := range whole {
			whole[k] += c[k]
		}
		if i > 0 {
			end := r.Phases[i-1].From.Add(r.Phases[i-1].Measured)
			require.True(t, end.Equal(p.Began), "there is no gap")
		}
	}
	require.Equal(t, whole, r.Figures.Counts)
	require.Equal(t, int64(130), r.Figures.Spans[Reply].TotalCount())
	require.Equal(t, 1100*time.Millisecond, r.Measured)

	r.Hold(nil)
	require.Equal(t, []string{"talk: answered<10 (30)", "more: reply.p99<5s (not measured)"}, r.failed())
	if r.Generator.Saturated == "" {
		require.Equal(t, ExitThreshold, r.Exit())
	}
	requirePhasesTold(t, r)
}

// requirePhasesTold wants every form of the report to tell of all phases.
func requirePhasesTold(t *testing.T, r *Report) {
	t.Helper()
	var text, asJSON, asCSV, html bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.NoError(t, r.WriteJSON(&asJSON))
	require.NoError(t, r.WriteCSV(&asCSV))
	require.NoError(t, r.WriteHTML(&html))
	require.Contains(t, text.String(), "does not hold: talk: answered<10 (30)")
	require.NotContains(t, asJSON.String()+text.String()+html.String(), "secret")
	var back struct {
		Name   string
		Phases []struct {
			Name   string
			Rate   float64
			Counts map[string]int64
			Failed []string
		}
	}
	require.NoError(t, json.Unmarshal(asJSON.Bytes(), &back))
	require.Equal(t, "a file.yaml", back.Name)
	rows, err := csv.NewReader(&asCSV).ReadAll()
	require.NoError(t, err)
	require.Contains(t, rows, []string{"answered", "130", ""})
	require.Contains(t, rows, []string{"answered", "30", "talk"})
	require.Equal(t, []string{"answered<10 (30)"}, back.Phases[1].Failed)
	for i, p := range r.Phases {
		require.Regexp(t, `(?m)^`+string(rune('1'+i))+`  `+p.Does.Name, text.String())
		require.Equal(t, p.Does.Name, back.Phases[i].Name)
		require.Equal(t, p.Figures.Counts[Answered], back.Phases[i].Counts["answered"])
		require.Contains(t, html.String(), p.Does.Name)
	}
}

// What is answered after its phase is over counts in that phase, under the sizes of that phase.
func TestAnswersAcrossPhases(t *testing.T) {
	f, d := still(t)
	second := Phase{Name: "second", Scenario: "chat", MinSize: 900, MaxSize: 950}
	second.defaults()
	f.phases[0].Phase.MinSize, f.phases[0].Phase.MaxSize = 50, 60
	f.phases = append(f.phases, stint{Phase: &second})
	f.at(0)
	f.say(d, 0)
	f.say(d, 0)
	f.say(d, 0)
	first := f.figures
	f.phase = &f.phases[0]
	f.phase.upTo = 100 * time.Millisecond
	now := f.at(200 * time.Millisecond)
	require.Same(t, &f.phases[1], f.phase)
	f.state, f.phase.upTo, f.pace.rate = measure, time.Hour, 0
	f.say(d, f.now)
	require.Less(t, len(f.appendContent(nil, d, &d.asked[0])), 61)
	require.Greater(t, len(f.appendContent(nil, d, &d.asked[3])), 890)
	d.Message(d.link, f.answerTo(d, 1), now)
	require.Equal(t, []int64{1, 0, 0}, []int64{first.Counts[Answered], f.figures.Counts[Answered], f.figures.Counts[Corrupted]})
	require.Equal(t, int64(1), first.Spans[Reply].TotalCount())
	f.at(1100 * time.Millisecond)
	require.Equal(t, []int64{2, 0}, []int64{first.Counts[Lost], f.figures.Counts[Lost]})
	d.Message(d.link, f.answerTo(d, 3), now)
	require.Equal(t, []int64{1, 1, 0}, []int64{first.Counts[Lost], first.Counts[Late], f.figures.Counts[Lost]})
	require.Equal(t, int64(4), f.total()[Sent])
}

// An interrupt in a phase ends the run there; those behind it are not told of.
func TestInterruptedInAPhase(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg := phased(startLiar(t, &liar{}))
	cfg.Phases[2].Duration = time.Hour
	cfg.Second = func(m Moment) {
		if m.Phase == "louder" {
			cancel()
		}
	}
	r, err := Run(ctx, cfg)
	require.NoError(t, err)
	require.Equal(t, ExitInterrupted, r.Exit())
	require.Len(t, r.Phases, 3)
	require.Less(t, r.Phases[2].Measured, 5*time.Second)
	require.Zero(t, r.Figures.faults())
}

// Devices that go astray in one phase stay so, and others do in the next.
func TestAstrayInPhases(t *testing.T) {
	t.Parallel()
	l := &liar{}
	cfg := brief(startLiar(t, l))
	bad := Phase{Devices: 10, Scenario: "half-open", Bad: 0.2, Rate: 100, Duration: 200 * time.Millisecond}
	one, two := bad, bad
	one.Name, two.Name = "one", "two"
	two.Bad = 0.3
	cfg.Phases = []Phase{one, two}
	r := runBrief(t, cfg)
	require.Equal(t, []int64{2, 3}, []int64{r.Phases[0].Figures.Counts[Astray], r.Phases[1].Figures.Counts[Astray]})
	require.Equal(t, r.Figures.Counts[Sent], r.Figures.Counts[Answered]+r.Figures.Counts[Given])
	require.Equal(t, []int{10, 8}, []int{r.Phases[0].There, r.Phases[1].There})
}

// The ramp has an end, also where devices that are refused try again for ever.
func TestGatheringEnds(t *testing.T) {
	t.Parallel()
	f, _ := still(t)
	f.phase.from, f.phase.upTo, f.phase.Gathers, f.phase.Duration = 0, 0, true, time.Second
	f.state, f.coming = gather, 1
	f.at(1900 * time.Millisecond) // the time-out is a second
	require.Equal(t, gather, f.state)
	f.at(2100 * time.Millisecond)
	require.Equal(t, measure, f.state)
	require.Equal(t, 1, f.phase.there)
}
