package hermes

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// State is how a [Client] stands with the gateway.
type State string

const (
	Idle         State = "idle"         // Events is not running
	Connecting   State = "connecting"   // for the first time
	Connected    State = "connected"    // ready: frames can be sent
	Reconnecting State = "reconnecting" // the connection was lost, or the first attempt failed
	Failed       State = "failed"       // refused for good
)

// StateChange is the event of a [Client] whose state has changed, or whose next attempt has failed as well.
type StateChange struct {
	State   State
	Attempt int           // Reconnecting: number of the attempt that comes, from 1
	Wait    time.Duration // Reconnecting: until that attempt
	Err     error         // Reconnecting, Failed: why
}

// Client keeps one device connected, as a [Session] does, and takes the protocol's details off the application: it makes
// ids, cuts files and puts them together, joins long messages and waits for the answers to pings and deliveries. All
// methods may be called from any goroutine, also from the loop over Events.
type Client struct {
	session  *Session
	patience time.Duration // for an answer
	pings    atomic.Int64  // how many were sent

	mu      sync.Mutex
	state   State
	waiting map[waitsFor]chan answer // room for one
}

// NewClient checks cfg and does no more; Events connects.
func NewClient(cfg Config) (*Client, error) {
	s, err := NewSession(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{session: s, patience: 30 * time.Second, state: Idle, waiting: map[waitsFor]chan answer{}}, nil
}

// State says how things stand now; Events tells the changes in order.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

var errTwice = errors.New("there is a loop over the events of this client already")

// Events connects and stays connected while the loop over it runs; it returns no sooner than all is closed and no
// goroutine of the client is left. Frames are of these types:
//
//   - *[StateChange], also before each *[Ready]
//   - *[Message], a piece as it came, and in Whole all of its message so far
//   - *[Media]: one whole file, whose Part, Parts and Final say nothing more
//   - *[Prompt], *[PromptDone], *[Avatar], *[Typing] and *[Error] as they came; so too a *[Pong] or *[Delivered] that
//     no Ping or Deliver waits for
//
// Raw is nil: frames of other types are left out. A loop that is busy for a while misses nothing: some events are kept
// for it; when those are too many, the client reads no further, and in the end the gateway gives such a device up.
//
// The last pair has a non-nil error: a refusal for good (see [Final]), or the cause of ctx.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if !c.begin() {
			yield(Event{}, errTwice)
			return
		}
		live, cancel := context.WithCancel(ctx)
		q := newQueue()
		var reading sync.WaitGroup
		reading.Go(func() { c.read(live, q) })
		defer func() {
			cancel()
			reading.Wait()
		}()
		for {
			frame, err := q.take()
			if !yield(Event{Frame: frame}, err) || err != nil {
				return
			}
		}
	}
}

func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != Idle && c.state != Failed {
		return false
	}
	c.state = Connecting
	return true
}

// read is the goroutine between the session and the queue. It waits for the application only while the queue is full.
func (c *Client) read(ctx context.Context, q *queue) {
	q.put(ctx, &StateChange{State: Connecting}, 0)
	var texts Transcript
	var files Downloads
	attempt := 0
	for ev, err := range c.session.Events(ctx) {
		if err != nil {
			c.end(ctx, q, err)
			return
		}
		size := len(ev.Raw)
		switch f := ev.Frame.(type) {
		case nil:
			continue
		case *Ready:
			attempt, texts, files = 0, Transcript{}, Downloads{}
			c.enter(ctx, q, StateChange{State: Connected})
		case *Lost:
			attempt++
			c.giveUp(f.Err)
			c.enter(ctx, q, StateChange{State: Reconnecting, Attempt: attempt, Wait: f.Wait, Err: f.Err})
			continue
		case *Message:
			f.Whole, _ = texts.Add(f)
			size = max(size, len(f.Whole))
		case *Media:
			content, done := files.Add(f)
			if !done {
				continue
			}
			f.Data, size = content, len(content)
		default:
			if c.answered(f) {
				continue
			}
		}
		q.put(ctx, ev.Frame, size)
	}
}

// enter tells a state; the loop hears of it in its place between the frames.
func (c *Client) enter(ctx context.Context, q *queue, s StateChange) {
	c.set(s.State)
	q.put(ctx, &s, 0)
}

func (c *Client) set(s State) {
	c.mu.Lock()
	c.state = s
	c.mu.Unlock()
}

// end is the last word of a loop: a refusal for good, or the end of its context.
func (c *Client) end(ctx context.Context, q *queue, err error) {
	c.giveUp(err)
	if ctx.Err() == nil {
		c.enter(ctx, q, StateChange{State: Failed, Err: err})
	} else {
		c.set(Idle)
	}
	q.end(err)
}
