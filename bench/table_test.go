package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var (
	tableFlag = flag.String("table", "", "measure mobilegate beside the baseline and print a table: full, or quick for under five minutes")
	tableJSON = flag.String("table-json", "", "write the table to this file as JSON too")
	tableBase = flag.String("table-base", "", "compare with this binary of mobilegate in place of the baseline")
	tableName = flag.String("table-base-name", "base", "what the other binary is called in the table")
)

// TestTable takes every figure that has a goal, of the gateway and of what it is compared with, and prints them side by side.
// It fails when something goes wrong, not when a goal is missed: times depend on the machine.
func TestTable(t *testing.T) {
	if *tableFlag == "" {
		t.Skip("only with -table: make bench")
	}
	require.Contains(t, []string{"full", "quick"}, *tableFlag)
	yardstick(t)
	c := &contest{t: t, programs: [2]program{gateway, baseline}, full: *tableFlag == "full"}
	if *tableBase != "" {
		c.programs[1] = program{*tableName, func() (string, error) { return *tableBase, nil }, []string{"serve"}}
	}
	for _, measure := range []func(){c.sameWords, c.pacedTurns, c.saturatedTurns, c.connects, c.voices, c.storms, c.memories} {
		measure() // what fails leaves its lines out
	}
	r := c.report()
	fmt.Print("\n", r.table(), "\n")
	if *tableJSON != "" {
		b, err := json.MarshalIndent(r, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(*tableJSON, append(b, '\n'), 0o644))
	}
}

// report is the table as JSON.
type report struct {
	Commit  string    `json:"commit"` // with + when files were changed since
	Date    time.Time `json:"date"`
	CPU     string    `json:"cpu"`
	CPUs    int       `json:"cpus"`
	Kernel  string    `json:"kernel"`
	Go      string    `json:"go"`
	Profile string    `json:"profile"`
	Other   string    `json:"compared_with"`
	Lines   []line    `json:"figures"`
}

type line struct {
	Name      string    `json:"name"`
	Unit      string    `json:"unit"`
	GoalRatio float64   `json:"goal_ratio,omitempty"` // at most so much of the other's
	Goal      float64   `json:"goal,omitempty"`       // at most so much in Unit
	Ours      spread    `json:"ours"`
	Other     spread    `json:"other"`
	Ratio     spread    `json:"ratio"`
	Pairs     int       `json:"pairs"`
	Met       bool      `json:"met"`
	OursSeen  []float64 `json:"ours_seen"`
	OtherSeen []float64 `json:"other_seen"`
}

func (c *contest) report() *report {
	r := &report{Commit: commit(), Date: time.Now().UTC().Truncate(time.Second), CPU: processor(), CPUs: runtime.NumCPU(), Kernel: kernel(),
		Go: runtime.Version(), Profile: *tableFlag, Other: c.programs[1].name}
	for _, f := range c.figures {
		l := line{Name: f.name, Unit: f.unit, GoalRatio: f.maxRatio, Goal: f.max, Ours: spreadOf(f.seen[0]), Other: spreadOf(f.seen[1]),
			Ratio: f.ratio(), Pairs: len(f.seen[0]), Met: f.met(), OursSeen: f.seen[0], OtherSeen: f.seen[1]}
		if *tableBase != "" {
			l.GoalRatio, l.Goal, l.Met = 0, 0, true // the goals are about the baseline
		}
		r.Lines = append(r.Lines, l)
	}
	return r
}

// table is the report for people.
func (r *report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mobilegate %s beside %s, %s profile, %s\n%d × %s, Linux %s, %s\n\n", r.Commit, r.Other, r.Profile, r.Date.Format(time.DateOnly), r.CPUs, r.CPU, r.Kernel, r.Go)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "figure\tgoal\tmobilegate\t%s\tratio (spread)\tpairs\t\n", r.Other)
	for _, l := range r.Lines {
		fmt.Fprintf(w, "%s, %s\t%s\t%s\t%s\t%s\t%d\t%s\n", l.Name, l.Unit, l.goal(), number(l.Ours.Median), number(l.Other.Median), l.ratio(), l.Pairs, l.verdict())
	}
	w.Flush()
	return b.String()
}

func (l *line) goal() string {
	var goals []string
	if l.GoalRatio > 0 {
		goals = append(goals, fmt.Sprintf("≤ %.2f of it", l.GoalRatio))
	}
	if l.Goal > 0 {
		goals = append(goals, "≤ "+number(l.Goal))
	}
	return strings.Join(goals, ", ")
}

func (l *line) ratio() string {
	switch {
	case l.Ratio.Median == 0:
		return "–"
	case l.Pairs == 1:
		return fmt.Sprintf("%.3f", l.Ratio.Median)
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", l.Ratio.Median, l.Ratio.Low, l.Ratio.High)
}

func (l *line) verdict() string {
	switch {
	case l.Goal == 0 && l.GoalRatio == 0:
		return ""
	case l.Met:
		return "ok"
	}
	return "MISSED"
}

// number has three digits that count.
func number(v float64) string {
	switch {
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// commit is that of the code that is measured.
func commit() string {
	git := func(args ...string) string {
		out, _ := exec.Command("git", append([]string{"--no-optional-locks"}, args...)...).Output()
		return strings.TrimSpace(string(out))
	}
	at := git("rev-parse", "--short", "HEAD")
	if at == "" {
		return "unknown"
	}
	if git("status", "--porcelain", "--untracked-files=no", ":/") != "" {
		at += "+"
	}
	return at
}

func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for l := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(l, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	var u unix.Utsname
	unix.Uname(&u)
	return unix.ByteSliceToString(u.Release[:])
}
