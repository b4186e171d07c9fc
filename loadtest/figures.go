package loadtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// The spans of time that are measured, each in a histogram of its own, to three digits.
const (
	Connect   = iota // from when the connection was due to TCP being there
	Upgrade          // from there to the 101
	Ready            // from the hello to ready
	Whole            // all of that: from when the connection was due to ready
	Reply            // from when the message was due to the first frame of its answer
	Last             // to the last frame of it
	Expulsion        // from when a device went astray to the end that the gateway made
	Lag              // from when a message was due to when it was sent: the generator's own lateness
	spans
)

var spanNames = [spans]string{"connect", "upgrade", "ready", "online", "reply", "last", "expulsion", "lag"}

// longest is what a histogram holds; anything above counts as this.
const longest = 10 * time.Minute

// What is counted. A message is under way from when it is sent; what becomes of it is counted once, except that a lost one may
// still come late.
const (
	Calls      = iota // connections that were begun
	Online            // of them, that heard ready
	Failed            // of them, that never did
	Missing           // devices that should be ready at the end, and are not
	Dropped           // those that the gateway ended although nobody had asked it to
	Sent              // messages
	Answered          // of them, in full and right
	Lost              // of them, never answered: not in time, or the gateway ended the connection
	Late              // of the lost, answered after all
	Refused           // of them, answered with an error
	Given             // of them, given up: the device itself left before the answer
	Unsent            // messages that were due while no device was ready
	Duplicated        // answers to what was answered already
	Reordered         // answers that came behind the answer to a later message
	Misrouted         // answers, or a ready, that belong to another device
	Corrupted         // answers that are not what was said
	Churned           // devices that left on purpose, to come back
	TakeOvers         // second connections of a device that is connected
	Replaced          // first ones that were closed with 4001 then
	Stale             // first ones that were not
	Astray            // devices that stopped to read on purpose
	Expelled          // of them, that the gateway got rid of
	Malformed         // frames that are none, or that the protocol does not allow there
	counts
)

var countNames = [counts]string{"calls", "online", "failed", "missing", "dropped", "sent", "answered", "lost", "late", "refused", "given_up", "unsent",
	"duplicated", "reordered", "misrouted", "corrupted",
	"churned", "takeovers", "replaced", "stale", "astray", "expelled", "malformed"}

// wrong are the counts that mean the gateway did wrong.
var wrong = [...]int{Dropped, Lost, Duplicated, Reordered, Misrouted, Corrupted, Stale, Malformed}

// Figures are what a run, or a part of it, measured and counted.
type Figures struct {
	Spans  [spans]*hdr.Histogram
	Counts [counts]int64
	Notes  map[string]int64 // why connections ended and messages were refused, in words
}

func newHistogram() *hdr.Histogram { return hdr.New(1, longest.Microseconds(), 3) }

func newFigures() *Figures {
	f := &Figures{Notes: map[string]int64{}}
	for i := range f.Spans {
		f.Spans[i] = newHistogram()
	}
	return f
}

func record(h *hdr.Histogram, d time.Duration) {
	h.RecordValue(min(max(d, time.Microsecond), longest).Microseconds()) // in range, so it does not fail
}

// maxNotes bounds what a gateway can make us remember.
const maxNotes = 50

func (f *Figures) note(what string) {
	if _, known := f.Notes[what]; !known && len(f.Notes) >= maxNotes {
		what = "anything else"
	}
	f.Notes[what]++
}

// merge adds what another part of the same run counted.
func (f *Figures) merge(o *Figures) {
	for i, h := range o.Spans {
		f.Spans[i].Merge(h)
	}
	for i, n := range o.Counts {
		f.Counts[i] += n
	}
	for what, n := range o.Notes {
		f.Notes[what] += n
	}
}

// faults is the number of things that the gateway did wrong.
func (f *Figures) faults() int64 { return faults(&f.Counts) }

func faults(counted *[counts]int64) (n int64) {
	for _, i := range wrong {
		n += counted[i]
	}
	return n
}

// statNames are what is told of a histogram, in the order of the report.
var statNames = []string{"count", "min", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"}

// stat is one of statNames: a number for count, else microseconds.
func stat(h *hdr.Histogram, name string) (float64, bool) {
	switch name {
	case "count":
		return float64(h.TotalCount()), true
	case "min":
		return float64(h.Min()), true
	case "mean":
		return h.Mean(), true
	case "max":
		return float64(h.Max()), true
	}
	var q float64
	if n, err := fmt.Sscanf(name, "p%g", &q); n != 1 || err != nil || q <= 0 || q > 100 || name != fmt.Sprintf("p%g", q) {
		return 0, false
	}
	return float64(h.ValueAtQuantile(q)), true
}

// sortedNotes are the notes, most frequent first.
func (f *Figures) sortedNotes() []string {
	return slices.SortedFunc(maps.Keys(f.Notes), func(a, b string) int {
		if d := f.Notes[b] - f.Notes[a]; d != 0 {
			return int(min(max(d, -1), 1))
		}
		if a < b {
			return -1
		}
		return 1
	})
}
