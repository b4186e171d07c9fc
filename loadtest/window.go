package loadtest

import (
	"fmt"
	"time"
)

// Window is what was measured in a time: of one phase, or of all together.
type Window struct {
	From      time.Time // when measuring began
	Measured  time.Duration
	There     int // devices that were ready then
	Figures   *Figures
	Generator Generator
	Server    *ServerUse // nil: it was not looked at
	Failed    []string   // conditions that did not hold
}

// Generator is how the generator itself fared.
type Generator struct {
	Busy      float64       // share of the measured time in which the loop was not waiting
	Missed    int64         // messages that were due and never sent, for want of time
	StartLag  time.Duration // how late the last connection was begun
	Saturated string        // why it was the bottleneck; empty when it was not
}

// window is what the phase measured.
func (p *stint) window(start time.Time) Window {
	w := Window{From: start.Add(p.from), Measured: max(p.upTo-p.from, 0), There: p.there, Figures: p.figures, Generator: Generator{Busy: p.busy, Missed: p.missed, StartLag: p.startLag}}
	if p.from == 0 {
		w.Measured = 0 // not everybody came
	}
	w.Generator.Saturated = w.saturated(p.ConnectRate)
	return w
}

// From here on the generator is the bottleneck.
const (
	maxLag      = 20 * time.Millisecond // of sends, at p99
	maxBusy     = 0.95                  // of the loop
	maxStartLag = time.Second           // of connections
)

func (w *Window) saturated(connectRate float64) string {
	lag, _ := stat(w.Figures.Spans[Lag], "p99")
	switch g := w.Generator; {
	case g.Missed > 0:
		return fmt.Sprintf("%d messages were due and never sent", g.Missed)
	case lag > float64(maxLag.Microseconds()):
		return fmt.Sprintf("1 %% of the messages left over %s late", micros(lag))
	case g.Busy > maxBusy:
		return fmt.Sprintf("its loop was busy for %.0f %% of the time", 100*g.Busy)
	case g.StartLag > maxStartLag:
		return fmt.Sprintf("it could not begin %g connections a second: the last was %s late", connectRate, micros(float64(g.StartLag.Microseconds())))
	}
	return ""
}

// beside adds the window of another shard, which was measured at the same time.
func (w *Window) beside(o *Window) {
	if w.Figures == nil {
		w.Figures = newFigures()
	}
	w.Figures.merge(o.Figures)
	w.Measured = max(w.Measured, o.Measured)
	w.There += o.There
	if o.From.After(w.From) {
		w.From = o.From
	}
	w.Generator.add(o.Generator)
}

// behind adds a window that was measured later.
func (w *Window) behind(o *Window) {
	w.Figures.merge(o.Figures)
	w.Measured += o.Measured
	if o.There > w.There {
		w.From, w.There = o.From, o.There
	}
	w.Generator.add(o.Generator)
}

func (g *Generator) add(o Generator) {
	g.Busy, g.StartLag = max(g.Busy, o.Busy), max(g.StartLag, o.StartLag)
	g.Missed += o.Missed
	if g.Saturated == "" {
		g.Saturated = o.Saturated
	}
}

// rate is how many measured messages a second were answered.
func (w *Window) rate() float64 {
	if w.Measured <= 0 {
		return 0
	}
	return float64(w.Figures.Spans[Last].TotalCount()) / w.Measured.Seconds()
}

// maxPoints bounds what is kept of how a run went.
const maxPoints = 8192

// thin makes one of each two points once there are too many.
func thin[T any](all []T, merge func(a, b T) T) []T {
	if len(all) < maxPoints {
		return all
	}
	for i := range len(all) / 2 {
		all[i] = merge(all[2*i], all[2*i+1])
	}
	return all[:len(all)/2]
}

// with is m together with the moment before it: rates are the mean of both, times the worse.
func (m Moment) with(next Moment) Moment {
	next.Sent, next.Answered = (m.Sent+next.Sent)/2, (m.Answered+next.Answered)/2
	next.P50, next.P99, next.Lateness = max(m.P50, next.P50), max(m.P99, next.P99), max(m.Lateness, next.Lateness)
	return next
}
