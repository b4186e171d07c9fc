package hermes

import (
	"sync"
	"time"

	"mobilegate/agent"
)

const (
	maxFailed = 4096 // turns that are remembered
	failedFor = 600 * time.Second
)

// failures remembers which turns failed: the application may send them again, with the same id, and wants another attempt
// then. What the gateway forgets Hermes still knows, and says.
type failures struct {
	mu    sync.Mutex
	last  map[string]failure
	order []string // oldest first; a turn that failed again stands there again
}

type failure struct {
	attempt int
	at      time.Time
}

// next is the number of the next attempt at t.
func (f *failures) next(t *agent.Turn, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.last[idempotencyKey(t, 0)]; ok && now.Sub(last.at) < failedFor {
		return last.attempt + 1
	}
	return 1
}

// add notes that an attempt at t has failed.
func (f *failures) add(t *agent.Turn, attempt int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[string]failure{}
	}
	key := idempotencyKey(t, 0)
	f.last[key] = failure{attempt, now}
	f.order = append(f.order, key)
	for len(f.order) > 0 {
		oldest := f.order[0]
		if last, ok := f.last[oldest]; len(f.order) <= maxFailed && ok && now.Sub(last.at) < failedFor {
			break
		}
		f.order = f.order[1:]
		delete(f.last, oldest)
	}
}
