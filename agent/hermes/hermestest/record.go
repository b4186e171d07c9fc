package hermestest

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"
)

const keptRequests = 1024

// Request is one that the server was asked, as far as the record keeps it.
type Request struct {
	At         time.Time
	Route      string // "POST /v1/runs/{id}/approval", without a profile's prefix; empty: no such route
	Path       string // as it was asked for
	Query      string
	Profile    string
	Header     http.Header // without Authorization
	Authorized bool        // the right key was shown
	Body       []byte      // the first Config.RecordBody bytes
	Size       int         // bytes of the body; one more than the server takes: too many
	RunID      string      // the run it was about, if there is one
	Status     int         // of the answer, also of one that Fault.Lose lost; 0: none yet, or never one
}

// Run is what became of one run.
type Run struct {
	ID, SessionID, SessionKey, Profile string
	Text                               string
	Images                             []Image
	Status                             string
	Session                            bool     // of a session stream
	Answers                            []Answer // that took effect, in their order
	Stops                              int
	Steers                             []string
	Replays                            int // further requests with its Idempotency-Key
}

// Answer is an approval that took effect.
type Answer struct{ Choice, RequestID string }

// record holds the latest requests. Server.mu guards it.
type record struct {
	all     []*Request
	changed chan struct{} // closed, and made anew, at every change that somebody waits for
	waited  bool
}

func (rec *record) add(c *call, route string, authorized bool, bodyLimit int) *Request {
	h := c.r.Header.Clone()
	h.Del("Authorization")
	n := &Request{
		At: time.Now(), Route: route, Path: c.r.URL.Path, Query: c.r.URL.RawQuery, Profile: c.profile, Header: h,
		Authorized: authorized, Body: bytes.Clone(c.body[:min(bodyLimit, len(c.body))]), Size: len(c.body),
	}
	if rec.all = append(rec.all, n); len(rec.all) > keptRequests {
		rec.all[0] = nil
		rec.all = rec.all[1:]
	}
	rec.tell()
	return n
}

func (rec *record) tell() {
	if rec.waited {
		rec.waited = false
		close(rec.changed)
		rec.changed = make(chan struct{})
	}
}

// Requests gives the record, the oldest first: the latest 1024.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Request, len(s.record.all))
	for i, r := range s.record.all {
		all[i] = *r
	}
	return all
}

// Await waits until the record holds a request that match likes: one of those that came already, or one that comes.
// match is asked when a request came and again when its answer begins; it asks nothing of s.
func (s *Server) Await(ctx context.Context, match func(Request) bool) (Request, error) {
	for {
		s.mu.Lock()
		for _, r := range s.record.all {
			if match(*r) {
				s.mu.Unlock()
				return *r, nil
			}
		}
		s.record.waited = true
		changed := s.record.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Request{}, ctx.Err()
		}
	}
}

// Runs gives all runs that the server knows, as they were started.
func (s *Server) Runs() []Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Run, len(s.order))
	for i, r := range s.order {
		all[i] = Run{
			ID: r.id, SessionID: r.sessionID, SessionKey: r.sessionKey, Profile: r.profile, Text: r.text, Images: r.images,
			Status: r.state(), Session: r.session, Answers: slices.Clone(r.answers), Stops: r.stops,
			Steers: slices.Clone(r.steers), Replays: r.replays,
		}
	}
	return all
}
