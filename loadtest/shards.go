package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// ShardVariable, set in the environment, makes the command a shard: main then calls ServeShard and nothing else.
const ShardVariable = "LOADTEST_SHARD"

// order is what a shard is told on its input, in one JSON text; the token goes this way too, and so is seen by nobody.
type order struct {
	Config Config
	Run    string
}

// news is what a shard says on its output, one JSON text after another; the last has a Report or an Error.
type news struct {
	Moment *Moment `json:",omitempty"`
	Report *Report `json:",omitempty"`
	Error  string  `json:",omitempty"`
	Exit   int     `json:",omitempty"`
}

// ServeShard is the whole life of a shard. It is interrupted when its input ends: its parent wants it so, or is gone.
func ServeShard(ctx context.Context, in io.Reader, out io.Writer) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("a shard without an order: %w", err)
	}
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	go func() {
		io.Copy(io.Discard, in)
		interrupt()
	}()
	moments, written := make(chan Moment, 16), make(chan struct{})
	enc := json.NewEncoder(out)
	go func() {
		defer close(written)
		for m := range moments {
			enc.Encode(news{Moment: &m})
		}
	}()
	o.Config.Second = func(m Moment) {
		select {
		case moments <- m:
		default:
		}
	}
	report, err := runOne(ctx, o.Config, o.Run)
	close(moments)
	<-written
	if err != nil {
		return enc.Encode(news{Error: err.Error(), Exit: ExitOf(err)})
	}
	report.Series = nil // the parent has it
	return enc.Encode(news{Report: report})
}

// RunShards divides cfg over so many processes, each of which is command with ShardVariable set, and puts their reports together.
func RunShards(ctx context.Context, cfg Config, shards int, command func() *exec.Cmd) (*Report, error) {
	if shards < 1 || shards > 256 || shards > max(cfg.Devices, 1) {
		return nil, usagef("the number of shards must be from 1 to 256, and at most that of the devices")
	}
	cfg.defaults()
	whole := cfg
	whole.Devices = (cfg.Devices-1)/shards + 1
	if err := whole.fill(); err != nil { // before a process is begun
		return nil, err
	}
	run, began := newRun(), time.Now()
	heard := make(chan shardNews)
	var all sync.WaitGroup
	for i := range shards {
		all.Go(func() {
			err := runShard(ctx, order{cfg.share(i, shards), run}, command(), func(n news) { heard <- shardNews{i, n} })
			if err != nil {
				heard <- shardNews{i, news{Error: err.Error(), Exit: ExitWrong}}
			}
		})
	}
	go func() {
		all.Wait()
		close(heard)
	}()
	report, err := gather(heard, shards, cfg.Second)
	if err != nil {
		return nil, err
	}
	cfg.Token, cfg.Second = "", nil
	report.Config, report.Run, report.Began, report.Took = cfg, run, began, time.Since(began)
	return report, nil
}

// share is the part of c that shard i of so many has.
func (c Config) share(i, shards int) Config {
	first, end := c.Devices*i/shards, c.Devices*(i+1)/shards
	part := float64(end-first) / float64(c.Devices)
	c.Start, c.Devices = c.Start+first, end-first
	c.ConnectRate *= part
	c.Rate *= part
	c.Churn *= part
	c.Second = nil
	return c
}

type shardNews struct {
	shard int
	news
}

// runShard runs one shard to its end and hands on what it says.
func runShard(ctx context.Context, o order, cmd *exec.Cmd, say func(news)) error {
	cmd.Env = append(cmd.Environ(), ShardVariable+"=1")
	cmd.Stderr = os.Stderr
	// A group of its own: an interrupt at the terminal comes to the parent alone, which passes it on as the end of the input.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = json.NewEncoder(in).Encode(o)
	defer context.AfterFunc(ctx, func() { in.Close() })()
	ended := false
	for d := json.NewDecoder(out); err == nil && !ended; {
		var n news
		if err = d.Decode(&n); err == nil {
			ended = n.Report != nil || n.Error != ""
			say(n)
		}
	}
	in.Close()
	if failed := cmd.Wait(); !ended {
		return fmt.Errorf("a shard ended without a report: %w", errors.Join(err, failed))
	}
	return nil
}

// gather puts together what the shards say, until all have ended.
func gather(heard <-chan shardNews, shards int, second func(Moment)) (*Report, error) {
	report := newReport()
	moments := make([]*Moment, shards)
	var failure error
	for n := range heard {
		switch {
		case n.Error != "":
			failure = shardError{n.Error, n.Exit}
		case n.Report != nil:
			report.add(n.Report)
		case n.Moment != nil:
			if moments[n.shard] != nil { // it is the next second
				report.Series = append(report.Series, sum(moments))
				if second != nil {
					second(report.Series[len(report.Series)-1])
				}
				clear(moments)
			}
			moments[n.shard] = n.Moment
		}
	}
	return report, failure
}

// shardError is what a shard failed with.
type shardError struct {
	text string
	exit int
}

func (e shardError) Error() string { return e.text }

// add adds the report of a shard.
func (r *Report) add(o *Report) {
	r.Figures.merge(o.Figures)
	r.Measured = max(r.Measured, o.Measured)
	if o.From.After(r.From) {
		r.From = o.From
	}
	r.Interrupted = r.Interrupted || o.Interrupted
	g, h := &r.Generator, &o.Generator
	g.CPU += h.CPU
	g.Busy, g.StartLag = max(g.Busy, h.Busy), max(g.StartLag, h.StartLag)
	g.Missed += h.Missed
	if g.Saturated == "" {
		g.Saturated = h.Saturated
	}
}

// sum is how all shards are: the percentiles are those of the slowest.
func sum(moments []*Moment) (all Moment) {
	for _, m := range moments {
		if m == nil {
			continue
		}
		all.Phase, all.At = m.Phase, max(all.At, m.At)
		all.Connected += m.Connected
		all.Sent, all.Answered, all.TotalSent = all.Sent+m.Sent, all.Answered+m.Answered, all.TotalSent+m.TotalSent
		all.P50, all.P99 = math.Max(all.P50, m.P50), math.Max(all.P99, m.P99)
		all.Faults, all.Refused, all.Pending = all.Faults+m.Faults, all.Refused+m.Refused, all.Pending+m.Pending
		all.Lateness = max(all.Lateness, m.Lateness)
	}
	return all
}

// wireFigures are Figures on their way from a shard: histograms in the format of the HdrHistogram project.
type wireFigures struct {
	Spans  [spans][]byte
	Counts [counts]int64
	Notes  map[string]int64
}

// MarshalJSON and UnmarshalJSON carry Figures from a shard.
func (f *Figures) MarshalJSON() ([]byte, error) {
	w := wireFigures{Counts: f.Counts, Notes: f.Notes}
	for i, h := range f.Spans {
		var err error
		if w.Spans[i], err = h.Encode(hdr.V2CompressedEncodingCookieBase); err != nil {
			return nil, err
		}
	}
	return json.Marshal(w)
}

func (f *Figures) UnmarshalJSON(b []byte) error {
	var w wireFigures
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*f = *newFigures()
	f.Counts = w.Counts
	for what, n := range w.Notes {
		f.Notes[what] = n
	}
	for i, encoded := range w.Spans {
		h, err := hdr.Decode(encoded)
		if err != nil {
			return err
		}
		f.Spans[i].Merge(h)
	}
	return nil
}
