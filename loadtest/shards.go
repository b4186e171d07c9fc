package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Shards are processes that share the devices of a run. Each begins to measure a phase when all have their devices:
//
//	parent                       shard
//	  order ──────────────────▶    its part of the Config, and the run
//	        ◀────────────────── news: a Moment, every second
//	        ◀────────────────── news: Ready, the number of the phase for which its devices are there
//	  start ──────────────────▶    when that phase begins, once all are ready for it
//	  (end of the input) ─────▶    it is interrupted
//	        ◀────────────────── news: its Report, or an Error; it ends

// ShardVariable, set in the environment, makes the command a shard: main then calls ServeShard and nothing else.
const ShardVariable = "LOADTEST_SHARD"

// order is what a shard is told first on its input; the token goes this way too, and so is seen by nobody.
type order struct {
	Config Config
	Run    string
}

// start says when a phase begins, for all shards at once. They are on one machine and have one clock.
type start struct{ At time.Time }

// news is what a shard says on its output, one JSON text after another; the last has a Report or an Error.
type news struct {
	Moment *Moment `json:",omitempty"`
	Ready  *uint8  `json:",omitempty"`
	Report *Report `json:",omitempty"`
	Error  string  `json:",omitempty"`
	Exit   int     `json:",omitempty"`
}

// ServeShard is the whole life of a shard. It is interrupted when its input ends: its parent wants it so, or is gone.
func ServeShard(ctx context.Context, in io.Reader, out io.Writer) error {
	var o order
	input := json.NewDecoder(in)
	if err := input.Decode(&o); err != nil {
		return fmt.Errorf("a shard without an order: %w", err)
	}
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	said, written := make(chan news, 16), make(chan struct{})
	g := &shardGate{said: said, starts: make(chan start, 1)}
	go func() {
		defer interrupt()
		for {
			var s start
			if input.Decode(&s) != nil {
				return
			}
			select {
			case g.starts <- s:
			case <-ctx.Done():
			}
		}
	}()
	enc := json.NewEncoder(out)
	go func() {
		defer close(written)
		for n := range said {
			enc.Encode(n)
		}
	}()
	o.Config.Second = func(m Moment) {
		select {
		case said <- news{Moment: &m}:
		default:
		}
	}
	report, err := runOne(ctx, o.Config, o.Run, g)
	close(said)
	<-written
	if err != nil {
		return enc.Encode(news{Error: err.Error(), Exit: ExitOf(err)})
	}
	report.Figures, report.Series = nil, nil // the parent makes them of what it has
	return enc.Encode(news{Report: report})
}

// shardGate is the gate of a shard's fleet: its parent opens it.
type shardGate struct {
	said   chan<- news
	starts chan start
	asked  bool // for the phase that is to begin
}

func (g *shardGate) open(phase uint8) (at time.Time, ok bool) {
	if !g.asked {
		select {
		case g.said <- news{Ready: &phase}:
			g.asked = true
		default: // it is said the next time
		}
		return at, false
	}
	select {
	case s := <-g.starts:
		g.asked = false
		return s.At, true
	default:
		return at, false
	}
}
