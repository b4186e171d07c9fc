package session

import "sync"

// pool is the fixed set of workers and the queue of sessions that have something to do. A session is in it once at most.
type pool struct {
	mu     sync.Mutex
	wake   sync.Cond
	queue  []*Session
	closed bool
	done   sync.WaitGroup
}

func (p *pool) start(workers int) {
	p.wake.L = &p.mu
	for range workers {
		p.done.Go(p.work)
	}
}

func (p *pool) add(s *Session) {
	p.mu.Lock()
	p.queue = append(p.queue, s)
	p.mu.Unlock()
	p.wake.Signal()
}

func (p *pool) work() {
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && !p.closed {
			p.wake.Wait()
		}
		if len(p.queue) == 0 {
			p.mu.Unlock()
			return
		}
		s := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		if len(p.queue) == 0 {
			p.queue = nil // a burst leaves nothing behind
		}
		p.mu.Unlock()
		s.run(elsewhere)
	}
}

// stop ends the workers once the queue is empty.
func (p *pool) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake.Broadcast()
	p.done.Wait()
}
