package hermes

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrOffline is what [Session.Send] returns while there is no ready connection.
var ErrOffline = errors.New("not connected to the gateway")

// Lost is the event of a [Session] that has no connection (any more) and will try again.
type Lost struct {
	Err  error         // why
	Wait time.Duration // until the next attempt
}

// Session keeps one device connected. Send may be called from any goroutine.
type Session struct {
	cfg       Config
	readyWait time.Duration // from the start of an attempt to ready
	beat      time.Duration // between two WebSocket pings, which find a dead link
	pong      time.Duration // until the answer to one

	mu   sync.Mutex
	conn *Conn // nil unless ready
}

// NewSession checks cfg and does no more; Events connects.
func NewSession(cfg Config) (*Session, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.MaxBackoff <= 0 {
		cfg.MaxBackoff = maxBackoff
	}
	return &Session{cfg: cfg, readyWait: 20 * time.Second, beat: 45 * time.Second, pong: 15 * time.Second}, nil
}

// Send writes one frame to the ready connection, as [Conn.Send] does, or returns ErrOffline. A frame that was written
// just before a connection broke may not have arrived; sending it again with the same id is safe.
func (s *Session) Send(ctx context.Context, f Outgoing) error {
	c := s.current()
	if c == nil {
		return ErrOffline
	}
	return c.Send(ctx, f)
}

func (s *Session) current() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// Events connects and is the reader loop over all connections, one goroutine at a time. Each connection begins with
// Ready; between two there is at least one Lost. The last pair has a non-nil error: a refusal for good (see [Final]),
// or the cause of ctx. Leaving the loop early drops the connection.
func (s *Session) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		pause := backoff{max: s.cfg.MaxBackoff}
		for {
			up, err := s.live(ctx, yield)
			switch {
			case err == nil:
				return // the caller left the loop
			case ctx.Err() != nil:
				yield(Event{}, context.Cause(ctx))
				return
			case Final(err) && !(s.cfg.ReconnectWhenReplaced && replaced(err)):
				yield(Event{}, err)
				return
			}
			lost := &Lost{Err: err, Wait: pause.next(up)}
			if !yield(Event{Frame: lost}, nil) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(lost.Wait):
			}
		}
	}
}

// live is one connection from the attempt to its end. It says how long the connection was ready, and a nil error when
// the caller left the loop.
func (s *Session) live(ctx context.Context, yield func(Event, error) bool) (up time.Duration, err error) {
	silent := fmt.Errorf("the gateway did not answer within %v", s.readyWait)
	attempt, cancel := context.WithTimeout(ctx, s.readyWait)
	defer cancel()
	c, err := open(attempt, &s.cfg)
	if err != nil {
		if errors.Is(attempt.Err(), context.DeadlineExceeded) {
			err = silent
		}
		return 0, err
	}
	var beating sync.WaitGroup
	defer beating.Wait()
	defer c.ws.CloseNow()
	late := time.AfterFunc(s.readyWait, func() { c.abort(silent) })
	defer late.Stop()
	defer s.online(nil)

	var since time.Time
	for ev, err := range c.Events(ctx) {
		if err != nil {
			if !since.IsZero() {
				up = time.Since(since)
			}
			return up, err
		}
		if _, ok := ev.Frame.(*Ready); ok && since.IsZero() {
			late.Stop()
			since = time.Now()
			s.online(c)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			beating.Go(func() { c.heartbeat(ctx, s.beat, s.pong) })
		}
		if !yield(ev, nil) {
			return 0, nil
		}
	}
	return 0, nil
}

func (s *Session) online(c *Conn) {
	s.mu.Lock()
	s.conn = c
	s.mu.Unlock()
}

// heartbeat finds a link that died without a word: nobody tells the application, and what it sends goes nowhere.
func (c *Conn) heartbeat(ctx context.Context, every, pong time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ping, cancel := context.WithTimeout(ctx, pong)
		err := c.ws.Ping(ping)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				c.abort(errors.New("the gateway stopped answering"))
			}
			return
		}
	}
}

// backoff makes the pauses between attempts: exponential with full jitter, so that a fleet does not come back at once.
type backoff struct {
	max   time.Duration
	tries int
}

const firstBackoff = 500 * time.Millisecond

// next takes how long the last connection was ready: only one that outlived the longest pause counts as a success,
// so a gateway that takes devices and drops them at once is left alone as well.
func (b *backoff) next(up time.Duration) time.Duration {
	if up > b.max {
		b.tries = 0
	}
	ceiling := min(b.max, firstBackoff<<min(b.tries, 16))
	b.tries++
	return rand.N(ceiling)
}
