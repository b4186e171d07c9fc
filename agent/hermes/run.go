package hermes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"mobilegate/agent"
	"mobilegate/internal/upstream"
)

const (
	pollEvery  = 2 * time.Second  // the status, where there is no stream
	checkEvery = 30 * time.Second // the status, where the stream brings nothing but comments
	outage     = 2 * time.Minute  // without an answer that a run survives where there is no stream
	stopWithin = 3 * time.Second
)

// run is one run at Hermes, as Ask's goroutine sees it.
type run struct {
	a        *Agent
	id       string
	replayed bool // it was begun by an earlier turn
	speech   *speech
	cards    approvals
	clock    clock
	since    time.Time // when the run had begun
	follower *follower
	begun    func() // called when the run has started

	output string
	missed time.Time      // since when the status has not come; zero: it comes
	stale  sync.WaitGroup // of cards that were settled elsewhere
	over   chan struct{}  // closed at the end of the run
}

// runStatus is what GET /v1/runs/{id} says.
type runStatus struct {
	Status   text            `json:"status"`
	Output   text            `json:"output"`
	Approval json.RawMessage `json:"approval"`
	Created  seconds         `json:"created_at"`
}

// approval is the request that the run waits for, nil if it does not say.
func (s *runStatus) approval() *frame {
	var fr *frame
	if json.Unmarshal(s.Approval, &fr) != nil {
		return nil
	}
	return fr
}

// errOver ends a run that has completed.
var errOver = errors.New("completed")

// live follows the run to its end and returns the reply.
func (r *run) live(ctx context.Context) (reply string, err error) {
	defer func() {
		close(r.over)
		r.stale.Wait()
	}()
	events := r.follower.events
	quiet := time.NewTimer(checkEvery)
	defer quiet.Stop()
	for err == nil {
		select {
		case e, ok := <-events:
			switch {
			case ok:
				err = r.hear(e)
			case r.id == "":
				err = errStream
			default:
				events = nil
				r.speech.whole = false
			}
			quiet.Reset(r.every(events, e.replayed || !ok))
		case <-quiet.C:
			if err = r.check(ctx, events != nil); err == nil {
				err = r.nextCard()
			}
			quiet.Reset(r.every(events, false))
		case ans := <-r.answers():
			err = r.answer(ctx, ans)
		case <-ctx.Done():
			r.leave(ctx)
			return "", context.Cause(ctx)
		}
		if ctx.Err() != nil {
			err = nil // whatever it was, the turn's end comes first
		}
	}
	r.follower.cancel()
	for e := range r.follower.events {
		if e.kind == said && err == errOver {
			_ = r.speech.delta(e.text)
		}
	}
	if err == errOver {
		return r.speech.finish(r.output)
	}
	if errors.Is(err, errLength) {
		r.a.stop(r.id)
	} else {
		_ = r.speech.pause() // what it held back belongs to what was shown
	}
	return "", err
}

func (r *run) every(events chan event, now bool) time.Duration {
	switch {
	case now:
		return 0
	case events == nil:
		return pollEvery
	}
	return checkEvery
}

func (r *run) hear(e event) error {
	r.clock.see(e.stamp, e.heard)
	switch e.kind {
	case started:
		r.id, r.replayed, r.since = e.text, e.replayed, e.heard
		r.begun()
	case said:
		return r.speech.delta(e.text)
	case worked:
		return r.speech.pause()
	case asked:
		return r.ask(e.frame, e.heard)
	case settled:
		return r.settle(e.frame)
	case whole:
		r.output = e.text
	case completed:
		r.complete(e.text)
		return errOver
	case ended:
		return e.err
	}
	return nil
}

// complete notes the whole answer. On a session's stream that came before.
func (r *run) complete(output string) {
	if output != "" {
		r.output = output
	}
}

// check asks for the status: where there is no stream, or where it has been quiet for long.
func (r *run) check(ctx context.Context, streams bool) error {
	if r.id == "" {
		return nil
	}
	var st runStatus
	err := r.a.service.Once(ctx, func() error { return r.a.call(ctx, http.MethodGet, "/v1/runs/"+r.id, nil, &st) })
	switch code := status(err); {
	case err == nil:
		r.missed = time.Time{}
		r.clock.see(st.Created, r.since)
	case code == http.StatusNotFound:
		return errGone
	case code != 0 && !upstream.Fault(err):
		return err
	case streams:
		return nil
	case r.missed.IsZero():
		r.missed = time.Now()
		return nil
	case time.Since(r.missed) > outage:
		return fmt.Errorf("%w: %w", errStream, err)
	default:
		return nil
	}
	switch st.Status {
	case "waiting_for_approval":
		if fr := st.approval(); fr != nil {
			return r.ask(fr, time.Now())
		}
	case "completed":
		r.complete(string(st.Output))
		return errOver
	case "failed":
		return errFailed
	case "cancelled":
		return errCancelled
	case "interrupted":
		return errInterrupted
	}
	return nil
}

// leave is what happens to the run when the turn is over before. If the user stopped it, or it took too long, it is stopped;
// if its id is not known yet, as soon as it is. Else it goes on: the application's repeat of the message finds it again.
func (r *run) leave(ctx context.Context) {
	f, cause := r.follower, context.Cause(ctx)
	switch {
	case cause != agent.ErrStopped && cause != errLimit:
	case r.id != "":
		f.cancel()
		r.a.stop(r.id)
	case r.a.later(func() {
		defer time.AfterFunc(r.a.cfg.Timeout, f.cancel).Stop()
		for e := range f.events {
			if e.kind == started {
				r.a.stop(e.text)
				break
			}
		}
		f.end()
	}):
		return
	default:
		r.a.service.Warn("hermes: a run may not have been stopped: too many wait for that")
	}
	f.end()
}

// stop stops a run. It does not depend on the turn, which is over.
func (a *Agent) stop(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	stop := func() error { return a.call(ctx, http.MethodPost, "/v1/runs/"+id+"/stop", nil, nil) }
	err := a.service.Do(ctx, stop)
	if errors.Is(err, upstream.ErrDown) {
		err = stop() // it may have come back by now, and the user wants it
	}
	if err != nil && status(err) != http.StatusNotFound && status(err) != http.StatusConflict { // else it is over already
		a.service.Warn("hermes: a run could not be stopped", "err", err)
	}
}
