package hermes

import (
	"context"
	"sync"
)

const (
	maxQueued  = 16 << 20 // bytes that wait for the application; a single event may be larger
	eventBytes = 1 << 10  // what an event counts beside its content
)

// queue holds what one goroutine has read and another has not taken yet.
type queue struct {
	mu     sync.Mutex
	events []queued
	held   int
	err    error // after the last event

	more, room chan struct{} // something was put, something was taken; room for one signal
}

type queued struct {
	frame  any
	weight int
}

func newQueue() *queue {
	return &queue{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put waits until there is room for a frame that holds size bytes, or until ctx ends; then the frame is dropped.
func (q *queue) put(ctx context.Context, frame any, size int) {
	for !q.add(queued{frame, size + eventBytes}) {
		select {
		case <-q.room:
		case <-ctx.Done():
			return
		}
	}
	signal(q.more)
}

func (q *queue) add(e queued) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held > 0 && q.held+e.weight > maxQueued {
		return false
	}
	q.events, q.held = append(q.events, e), q.held+e.weight
	return true
}

// end is the last call of the goroutine that puts.
func (q *queue) end(err error) {
	q.mu.Lock()
	q.err = err
	q.mu.Unlock()
	signal(q.more)
}

// take waits for a frame; after the last one it returns the error that the queue was ended with.
func (q *queue) take() (frame any, err error) {
	for {
		q.mu.Lock()
		if len(q.events) > 0 {
			e := q.events[0]
			q.events[0] = queued{}
			q.events, q.held = q.events[1:], q.held-e.weight
			q.mu.Unlock()
			signal(q.room)
			return e.frame, nil
		}
		err := q.err
		q.mu.Unlock()
		if err != nil {
			return nil, err
		}
		<-q.more
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
