// Package loadtest is a fleet of simulated devices: it loads a gateway of Hermes Mobile protocol v1, checks every answer, and
// measures how long each takes. It is a client: of this project it knows the words of the protocol and the client side of the
// event loop.
//
// One event loop holds all devices of a process; a device costs some 300 bytes. The way through: Run → fleet.turn, which does
// what is due and goes from phase to phase → device (its life) → judge.go (what it hears) → Report.
//
// The model is open: every message has a time at which it is due, whatever became of those before it, and its latency counts
// from then. A gateway that stalls for half a second is so seen by all messages that were due in it.
//
// Every text begins with the name of the run, the number of the device and that of the message. The gateway's echo agent sends
// it back, and so the answer itself says whether it came to the right device, in order, and once.
package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"syscall"
	"time"

	"mobilegate/engine"
)

// Run does what cfg says and returns what came of it. When ctx ends, devices leave early and the report is about what was done
// so far. The error is about the run itself: a Config that cannot be, a gateway that cannot be found.
func Run(ctx context.Context, cfg Config) (*Report, error) { return runOne(ctx, cfg, newRun(), nil) }

func runOne(ctx context.Context, cfg Config, run string, g gate) (*Report, error) {
	if err := cfg.fill(1); err != nil {
		return nil, err
	}
	var series []Moment
	second := cfg.Second
	cfg.Second = func(m Moment) {
		series = thin(append(series, m), Moment.with)
		if second != nil {
			second(m)
		}
	}
	f, err := newFleet(cfg, run)
	if err != nil {
		return nil, err
	}
	f.gate = g
	began := time.Now()
	before := cpuTime()
	if err := f.work(ctx); err != nil {
		return nil, err
	}
	r := f.report(ctx.Err() != nil, began, cpuTime()-before)
	r.Series = series
	return r, nil
}

// cpuTime is what this process has used of the processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func appendQuoted(b []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // of a string: it does not fail
	return append(b, quoted...)
}

// ExitOf is the exit status for an error of Run.
func ExitOf(err error) int {
	var usage usageError
	var nobody unreachable
	var shard shardError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage), errors.Is(err, engine.ErrFamily):
		return ExitUsage
	case errors.As(err, &nobody):
		return ExitUnreachable
	case errors.As(err, &shard):
		return shard.exit
	}
	return ExitWrong
}
