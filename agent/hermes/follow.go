package hermes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"time"

	"github.com/tmaxmax/go-sse"

	"mobilegate/agent"
	"mobilegate/internal/upstream"
)

const (
	maxEvent   = maxRaw + 64<<10 // bytes of one event
	maxSeen    = 1024            // ids of events that are remembered; Hermes keeps 256
	reconnects = 5               // in a row that bring nothing new
	firstWait  = time.Second     // for a free place, or before a reconnect; the next ones double
	lastWait   = 15 * time.Second
)

// follower does the requests that begin a run, and reads its events. It is one goroutine for each turn, and owns all of its
// fields but those in the first group. It ends when the run has ended, when the stream is lost for good, which Ask then
// replaces by asking for the run's status, or with net.
type follower struct {
	events chan event         // closed at the end
	cancel context.CancelFunc // ends net

	a       *Agent
	turn    *agent.Turn
	ctx     context.Context // the turn's
	net     context.Context // of requests: it outlives the turn when a run has to be stopped whose id is not known yet
	can     features
	in      *input
	session bool // by the session's stream, which takes images
	attempt int

	maybe  bool            // a request of this attempt may have begun the run, so the next one may find it
	run    string          // its id, when that is known
	stamp  seconds         // of the event that is told
	lastID string          // of the stream
	seen   map[string]bool // ids of events
	order  []string        // of seen
}

func (a *Agent) follow(ctx context.Context, t *agent.Turn, in *input, can features, attempt int) *follower {
	f := &follower{
		events: make(chan event, 16), a: a, turn: t, ctx: ctx, can: can, in: in, attempt: attempt,
		session: in.image != "" && can.sessions, seen: map[string]bool{},
	}
	f.net, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go f.work()
	return f
}

// end lets the goroutine end, and waits for that.
func (f *follower) end() {
	f.cancel()
	for range f.events {
	}
}

func (f *follower) tell(e event) {
	e.stamp, e.heard = f.stamp, time.Now()
	select {
	case f.events <- e:
	case <-f.net.Done():
	}
}

func (f *follower) work() {
	defer close(f.events)
	defer f.cancel()
	stream, err := f.submit()
	f.in = nil // a large body is of no more use
	if err != nil {
		f.tell(event{kind: ended, err: err})
		return
	}
	for tries, heard := 0, false; ; tries++ {
		if stream == nil {
			err = f.a.service.Once(f.ctx, func() (err error) {
				stream, err = f.open(http.MethodGet, "/v1/runs/"+f.run+"/events", nil)
				return err
			})
		}
		heard = heard || err == nil || sent(err)
		if err == nil {
			before := f.lastID
			over := f.read(stream)
			stream.Close()
			if stream = nil; over || f.session {
				return
			}
			if f.lastID != before {
				tries = 0
			}
		}
		// Without ids one cannot ask for what was missed: a second reader may hear nothing for ever.
		if heard && f.lastID == "" || tries >= reconnects || status(err) != 0 && !upstream.Fault(err) || !f.wait(pause(tries, err)) {
			return
		}
	}
}

// pause is how long to wait after so many failures: growing, never less than the agent asked for, and not the same for all.
func pause(n int, err error) time.Duration {
	d := min(firstWait<<min(n, 10), lastWait)
	var a *answered
	if errors.As(err, &a) {
		d = max(d, a.After)
	}
	return d + rand.N(d/4+1)
}

// wait waits for d; false means that the turn is over.
func (f *follower) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.ctx.Done():
		return false
	case <-f.net.Done():
		return false
	}
}

// submit begins the run, and returns its stream if it comes with the answer.
func (f *follower) submit() (stream io.ReadCloser, err error) {
	path, body := "/v1/runs", []byte(nil)
	if f.session {
		path, body = "/api/sessions/"+sessionID(f.turn.Owner)+"/chat/stream", f.in.streamBody()
	} else {
		body = f.in.runBody(sessionID(f.turn.Owner))
	}
	created := false
	patience := time.Now().Add(f.a.cfg.Capacity)
	for n := 0; ; n++ {
		var last error // of what is not to be tried again at once
		err := f.a.service.Do(f.ctx, func() (err error) {
			stream, err = f.post(path, body)
			f.maybe = f.maybe || err != nil && (sent(err) || status(err) >= http.StatusInternalServerError)
			if last = nil; crowded(err) || err != nil && sent(err) && !f.can.receipts {
				last, err = err, nil // it has no room; or it may have begun the run, and would begin another one
				if !crowded(last) {
					f.a.service.Failed()
				}
			}
			return err
		})
		if err == nil {
			err = last
		}
		switch {
		case f.session && status(err) == http.StatusNotFound && !created:
			created = true
			if err := f.createSession(); err != nil {
				return nil, err
			}
		case crowded(err):
			wait := pause(n, err)
			if time.Now().Add(wait).After(patience) {
				return nil, fmt.Errorf("%w: %w", errBusy, err)
			}
			if !f.wait(wait) {
				return nil, context.Cause(f.ctx)
			}
		default:
			return stream, err
		}
	}
}

// post sends the request that begins the run.
func (f *follower) post(path string, body []byte) (io.ReadCloser, error) {
	stream, err := f.open(http.MethodPost, path, body)
	if err != nil || f.run != "" || f.session && stream != nil {
		return stream, err
	}
	return nil, errAnswer
}

// open makes a request whose answer may be a stream; what is none is read here, for the id of the run.
func (f *follower) open(method, path string, body []byte) (stream io.ReadCloser, err error) {
	ctx, cancel := context.WithCancel(f.net)
	limit := f.a.cfg.Idle
	if method == http.MethodPost && !f.session {
		limit = f.a.cfg.Timeout
	}
	watch := time.AfterFunc(limit, cancel)
	defer func() {
		if stream == nil {
			watch.Stop()
			cancel()
		}
	}()
	r := f.a.request(ctx, method, path, body)
	r.Header.Set("X-Hermes-Session-Key", sessionKey(f.turn.Owner))
	if method == http.MethodPost {
		r.Header.Set("Idempotency-Key", idempotencyKey(f.turn, f.attempt))
	} else if f.lastID != "" {
		r.Header.Set("Last-Event-ID", f.lastID)
	}
	r.Header.Set("Accept", "text/event-stream, application/json")
	resp, err := f.a.do(r)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		watch.Stop()
		return &alive{resp.Body, watch, limit, cancel}, nil
	}
	var begun struct {
		Run      text `json:"run_id"`
		Replayed bool `json:"replayed"`
	}
	if err := decode(resp, &begun); err != nil {
		return nil, err
	}
	if method != http.MethodPost || !plainID(string(begun.Run)) {
		return nil, errAnswer
	}
	f.started(string(begun.Run), begun.Replayed && !f.maybe)
	return nil, nil
}

func (f *follower) started(run string, replayed bool) {
	f.run = run
	f.tell(event{kind: started, text: run, replayed: replayed})
}

// plainID tells whether id can stand in a path.
func plainID(id string) bool {
	for _, c := range []byte(id) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return id != "" && len(id) <= 256
}

// createSession makes the owner's session, for a stream that found none.
func (f *follower) createSession() error {
	body := struct {
		ID string `json:"id"`
	}{sessionID(f.turn.Owner)}
	err := f.a.service.Do(f.ctx, func() error { return f.a.call(f.net, http.MethodPost, "/api/sessions", body, nil) })
	if status(err) == http.StatusConflict {
		return nil // somebody was faster
	}
	return err
}

// alive is a stream that ends when it says nothing for too long; comments count as words. Who reads it may take its time.
type alive struct {
	io.ReadCloser
	watch  *time.Timer
	limit  time.Duration
	cancel context.CancelFunc
}

// Read implements io.Reader.
func (s *alive) Read(p []byte) (int, error) {
	s.watch.Reset(s.limit)
	defer s.watch.Stop()
	return s.ReadCloser.Read(p)
}

// Close implements io.Closer.
func (s *alive) Close() error {
	s.watch.Stop()
	s.cancel()
	return s.ReadCloser.Close()
}

// read tells what the stream says; over means that the run has ended.
func (f *follower) read(stream io.Reader) (over bool) {
	last := sse.Event{}
	for e, err := range sse.Read(stream, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		if err != nil {
			if f.net.Err() == nil {
				f.a.service.Failed()
			}
			return false
		}
		again := f.seen[e.LastEventID] && (e.LastEventID != last.LastEventID || e.Data == last.Data)
		last = e
		if again || e.Data == "" {
			continue
		}
		if e.LastEventID != "" {
			f.remember(e.LastEventID)
		}
		var fr frame
		if json.Unmarshal([]byte(e.Data), &fr) != nil {
			continue // what is lost with it the status brings
		}
		if fr.Event == "" {
			fr.Event = text(e.Type)
		}
		if f.hear(&fr) {
			return true
		}
	}
	return false
}

// remember notes the id of an event: a stream that is opened anew may bring it again.
func (f *follower) remember(id string) {
	f.lastID = id
	if f.seen[id] {
		return
	}
	f.seen[id] = true
	if f.order = append(f.order, id); len(f.order) > maxSeen {
		delete(f.seen, f.order[0])
		f.order = f.order[1:]
	}
}
