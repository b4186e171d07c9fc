package hermestest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// The causes of a run's end from outside.
var (
	errStopped = errors.New("stopped")
	errGone    = errors.New("the process is gone")
)

// run is one turn of the agent. Server.mu guards all that changes, but quiet.
type run struct {
	id, profile  string
	sessionID    string
	key          string // its receipt, if it was started with an Idempotency-Key
	sessionKey   string
	session      bool // its events are those of a session stream
	journaled    bool
	text         string
	images       []Image
	number       int // of the run in its server, from 1
	turn         int // of the conversation, from 1
	size         int // bytes of its texts
	conversation *conversation
	created      time.Time
	life         <-chan struct{} // of the process
	ctx          context.Context // ends when the run is stopped, over, or dead with the process
	end          context.CancelCauseFunc

	status  map[string]any // what GET tells
	last    string         // name of the last event
	over    bool
	ended   time.Time
	pending []*question // in the order in which they were asked
	answers []Answer
	stops   int
	steers  []string
	replays int

	seq        uint64
	newest     frame // the last event
	journal    []frame
	kept       int // bytes of journal
	queue      *pipe
	readers    map[*pipe]struct{}
	read       bool          // somebody subscribed, ever
	subscribed chan struct{} // closed then
	quiet      atomic.Bool   // no keep-alives
}

// question is a dangerous command that waits for an answer.
type question struct {
	id     string
	answer chan string // room for one; it gets one at most, under Server.mu
}

// start begins a run, which belongs to receipt if there is one. s.mu is held.
func (s *Server) start(r *run, receipt *receipt) {
	s.started++
	s.live++
	r.id = "run_" + token(16)
	r.number = s.started
	r.created = time.Now()
	r.life = s.life
	r.ctx, r.end = context.WithCancelCause(context.Background())
	r.status = map[string]any{}
	r.subscribed = make(chan struct{})
	r.journaled = s.cfg.Features.Journal && !r.session
	if r.journaled {
		r.readers = map[*pipe]struct{}{}
	} else {
		r.queue = newPipe()
	}
	if r.sessionID == "" {
		r.sessionID = r.id
	}
	r.conversation = s.converse(r.profile, r.sessionID)
	r.turn = s.said(r.conversation, "user", r.text)
	r.size = len(r.text)
	r.set("queued", map[string]any{"session_id": r.sessionID, "model": model})
	if receipt != nil {
		r.key, receipt.id = receipt.key, r.id
		s.keep(receipt)
	}
	s.runs[r.id] = r
	s.order = append(s.order, r)
	s.running.Go((&player{s: s, r: r}).play)
}

// set changes what GET tells.
func (r *run) set(status string, fields map[string]any) {
	maps.Copy(r.status, fields)
	r.status["status"] = status
	r.status["updated_at"] = seconds(time.Now())
	if status != "waiting_for_approval" {
		delete(r.status, "approval")
	}
}

func (r *run) state() string { return r.status["status"].(string) }

// tell is the body of GET.
func (r *run) tell() map[string]any {
	all := maps.Clone(r.status)
	all["object"], all["run_id"], all["created_at"] = "hermes.run", r.id, seconds(r.created)
	if r.last != "" {
		all["last_event"] = r.last
	}
	return all
}

// ask opens a question. s.mu is held.
func (r *run) ask(s *Server, q *question, fields map[string]any) {
	r.pending = append(r.pending, q)
	var field map[string]any
	if s.cfg.Features.ApprovalField {
		whole := maps.Clone(fields)
		whole["event"], whole["run_id"], whole["timestamp"] = "approval.request", r.id, seconds(time.Now())
		field = map[string]any{"approval": whole}
	}
	r.set("waiting_for_approval", field)
	r.event("approval.request", fields)
}

// resolve answers the question that id names, the oldest one if it is empty, or all; and says how many these were.
// s.mu is held.
func (r *run) resolve(choice, id string, all bool) (n int) {
	rest := r.pending[:0:0]
	for _, q := range r.pending {
		if all || n == 0 && (id == "" || id == q.id) {
			q.answer <- choice
			n++
			r.answers = append(r.answers, Answer{Choice: choice, RequestID: q.id})
			continue
		}
		rest = append(rest, q)
	}
	r.pending = rest
	return n
}

// withdraw takes a question back that nobody answered in time. s.mu is held.
func (r *run) withdraw(q *question) {
	r.pending = slices.DeleteFunc(r.pending, func(p *question) bool { return p == q })
}
