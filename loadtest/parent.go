package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Bounds of what the parent of shards waits for.
const (
	patience = 15 * time.Second       // with a shard that says nothing, though it speaks every second, or is to end and does not
	notice   = 250 * time.Millisecond // in which all shards learn of a start
)

// RunShards divides cfg over so many processes, each of which is command with ShardVariable set, and puts their reports together.
func RunShards(ctx context.Context, cfg Config, shards int, command func() *exec.Cmd) (*Report, error) {
	return runShards(ctx, cfg, shards, command, patience)
}

func runShards(ctx context.Context, cfg Config, shards int, command func() *exec.Cmd, patience time.Duration) (*Report, error) {
	if shards < 1 || shards > 256 {
		return nil, usagef("the number of shards must be from 1 to 256")
	}
	if err := cfg.fill(shards); err != nil { // before a process is begun
		return nil, err
	}
	if cfg.Phases[0].Devices < shards {
		return nil, usagef("there must be a device for each of %d shards", shards)
	}
	if _, err := cfg.dial(); err != nil {
		return nil, err
	}
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	run, began := newRun(), time.Now()
	p := &parent{patience: patience, quit: quit, second: cfg.Second, shards: make([]shard, shards), report: &Report{Run: run, Began: began}}
	heard := make(chan shardNews)
	var all sync.WaitGroup
	for i := range p.shards {
		if err := p.shards[i].begin(command()); err != nil {
			p.fail(fmt.Errorf("a shard cannot be started: %w", err))
			p.shards = p.shards[:i]
			break
		}
	}
	for i := range p.shards {
		all.Go(func() {
			err := p.shards[i].live(ctx, patience, order{cfg.share(i, shards), run}, func(n news) { heard <- shardNews{i, n} })
			if err != nil {
				heard <- shardNews{i, news{Error: fmt.Sprintf("shard %d of %d %s", i+1, shards, err), Exit: ExitWrong}}
			}
		})
	}
	go func() {
		all.Wait()
		close(heard)
	}()
	p.gather(heard)
	if p.failure != nil {
		return nil, p.failure
	}
	cfg.Token, cfg.Second = "", nil
	r := p.report
	for i := range r.Phases {
		r.Phases[i].Does = cfg.Phases[i]
	}
	r.Config, r.Took = cfg, time.Since(began)
	r.sumUp()
	return r, nil
}

// share is the part of c that shard i of so many has.
func (c Config) share(i, shards int) Config {
	c.Start += c.Devices/shards*i + min(i, c.Devices%shards)
	c.Phase = c.Phase.share(i, shards)
	c.Phases = slices.Clone(c.Phases)
	for k := range c.Phases {
		c.Phases[k] = c.Phases[k].share(i, shards)
	}
	c.Second = nil
	return c
}

// shard is a process of its parent's.
type shard struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader

	// The parent's own.
	heard  time.Time // when it last said something
	moment *Moment   // of this second
	last   Moment    // the one before
	ready  bool      // for the next phase
	ended  bool
}

type shardNews struct {
	shard int
	news
}

func (s *shard) begin(cmd *exec.Cmd) (err error) {
	cmd.Env = append(cmd.Environ(), ShardVariable+"=1")
	cmd.Stderr = os.Stderr
	// A group of its own: an interrupt at the terminal comes to the parent alone, which passes it on as the end of the input.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd, s.heard = cmd, time.Now()
	if s.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if s.out, err = cmd.StdoutPipe(); err != nil {
		return err
	}
	return cmd.Start()
}

// live hands on what the shard says, to its end. When ctx ends it is told to end, and made to after a while.
func (s *shard) live(ctx context.Context, patience time.Duration, o order, say func(news)) error {
	err := json.NewEncoder(s.in).Encode(o)
	defer context.AfterFunc(ctx, func() {
		s.in.Close()
		time.AfterFunc(patience, func() { s.cmd.Process.Kill() }) // one that has ended is not there any more
	})()
	ended := false
	for d := json.NewDecoder(s.out); err == nil && !ended; {
		var n news
		if err = d.Decode(&n); err == nil {
			ended = n.Report != nil || n.Error != ""
			say(n)
		}
	}
	s.in.Close()
	failed := s.cmd.Wait()
	switch {
	case ended:
		return nil
	case failed != nil:
		err = failed
	}
	return fmt.Errorf("ended without a report: %w", err)
}

// parent is what puts together what the shards say.
type parent struct {
	patience time.Duration
	shards   []shard
	report   *Report
	second   func(Moment)
	quit     func() // ends all shards
	failure  error  // the first
}

// gather hears all shards to their end.
func (p *parent) gather(heard <-chan shardNews) {
	tick := time.NewTicker(min(time.Second, p.patience))
	defer tick.Stop()
	for {
		select {
		case n, more := <-heard:
			if !more {
				if p.failure == nil {
					p.tell()
				}
				return
			}
			p.hear(n)
		case now := <-tick.C:
			for i := range p.shards {
				if s := &p.shards[i]; !s.ended && now.Sub(s.heard) > p.patience {
					p.fail(fmt.Errorf("shard %d of %d says nothing any more", i+1, len(p.shards)))
					s.cmd.Process.Kill()
				}
			}
		}
	}
}

func (p *parent) fail(err error) {
	if p.failure == nil {
		p.failure = err
		p.quit()
	}
}

func (p *parent) hear(n shardNews) {
	s := &p.shards[n.shard]
	s.heard = time.Now()
	switch {
	case n.Error != "":
		s.ended = true
		p.fail(shardError{n.Error, n.Exit})
	case n.Report != nil:
		s.ended = true
		p.add(n.Report)
	case n.Ready != nil:
		s.ready = true
		p.startIfReady()
	case n.Moment != nil:
		if s.moment != nil { // it is the next second
			p.tell()
		}
		s.moment = n.Moment
	}
}

func (p *parent) tell() {
	m := p.sum()
	p.report.Series = thin(append(p.report.Series, m), Moment.with)
	if p.second != nil {
		p.second(m)
	}
}

// startIfReady lets a phase begin once the devices of all shards are there.
func (p *parent) startIfReady() {
	for i := range p.shards {
		if !p.shards[i].ready {
			return
		}
	}
	at := start{time.Now().Add(notice)}
	for i := range p.shards {
		p.shards[i].ready = false
		json.NewEncoder(p.shards[i].in).Encode(at) // one that cannot be told has ended, and says so elsewhere
	}
}

// shardError is what a shard failed with.
type shardError struct {
	text string
	exit int
}

func (e shardError) Error() string { return e.text }

// add adds the report of a shard.
func (p *parent) add(o *Report) {
	r := p.report
	for i := range o.Phases {
		if i == len(r.Phases) {
			r.Phases = append(r.Phases, PhaseReport{Began: o.Phases[i].Began})
		}
		r.Phases[i].beside(&o.Phases[i].Window)
	}
	r.CPU += o.CPU
	r.Interrupted = r.Interrupted || o.Interrupted
}

// sum is how all shards are: the percentiles are those of the slowest.
func (p *parent) sum() (all Moment) {
	for i := range p.shards {
		s := &p.shards[i]
		if m := s.moment; m != nil {
			all.Phase, all.State, all.At = m.Phase, m.State, max(all.At, m.At)
			all.Sent, all.Answered = all.Sent+m.Sent, all.Answered+m.Answered
			all.P50, all.P99, all.Lateness = max(all.P50, m.P50), max(all.P99, m.P99), max(all.Lateness, m.Lateness)
			s.last, s.moment = *m, nil
		}
		all.Connected += s.last.Connected // also of one that is late with its moment
		all.TotalSent, all.Pending = all.TotalSent+s.last.TotalSent, all.Pending+s.last.Pending
		all.Faults, all.Refused = all.Faults+s.last.Faults, all.Refused+s.last.Refused
	}
	return all
}
