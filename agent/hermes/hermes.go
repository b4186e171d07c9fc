// Package hermes puts a running Hermes agent behind the gateway, by its HTTP API.
//
//	a turn        POST /v1/runs                          the message, as a run
//	              GET  /v1/runs/{id}/events              its answer piece by piece, and its questions
//	              GET  /v1/runs/{id}                     its status, where the stream was lost or says nothing
//	              POST /v1/runs/{id}/approval            the user's answer to a question
//	              POST /v1/runs/{id}/stop                /stop
//	an image      POST /api/sessions/{id}/chat/stream    instead of the first two, where the agent has it
//
// What the agent can do is asked (GET /v1/capabilities), never concluded from its version.
package hermes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mobilegate/agent"
	"mobilegate/internal/upstream"
)

const (
	longest     = 24 * time.Hour // a turn may take: then its place is worth more than a run that does not end
	maxAttempts = 8              // at one turn that had failed before
	maxPictures = 8              // images that are on their way to the agent at a time: each is held in memory, some times over
	maxIdle     = 64             // connections that are kept for the next calls
	maxLater    = 256            // runs that are stopped as soon as their id is known
)

// Config says where the agent is. The zero value of every field is useful.
type Config struct {
	URL      string // of the agent's API server, with /p/<profile> if it is for one; default http://127.0.0.1:8642
	Key      string // API_SERVER_KEY of the agent
	MediaDir string // folder for the files of devices, which the agent reads as the same user; "": it gets images only
	// MediaRoots are the folders whose files the agent may send to devices, by naming them in its answer. They must exist.
	MediaRoots []string
	MaxMedia   int // bytes of a file for a device; default 8 MiB

	Timeout         time.Duration // of a short call; default 30 s
	Idle            time.Duration // silence after which a stream counts as lost; default 90 s, at least 60 s: Hermes says something every 30 s
	Capacity        time.Duration // how long a turn waits for a free place at the agent; default 5 min
	ApprovalTimeout time.Duration // approvals.timeout of the agent; default, and at most, 300 s

	Client *http.Client // default: one with a transport of its own
	Log    *slog.Logger // default: none
}

// Agent is agent.Agent for a Hermes.
type Agent struct {
	agent.StopCommand

	cfg     Config
	base    string
	client  *http.Client
	service *upstream.Service
	can     capability
	failed  failures
	exact   atomic.Bool // the agent looked at the id of the last approval
	share   share
	spool   *spool // nil: there is none
	picture chan struct{}

	mu     sync.Mutex
	late   int // runs that wait to be stopped
	closed bool
	wait   sync.WaitGroup
}

var (
	_ agent.Stopper  = (*Agent)(nil)
	_ agent.Instant  = (*Agent)(nil)
	_ agent.Reporter = (*Agent)(nil)
)

// New makes an Agent. Its errors are those of the configuration; whether the agent is there, the first turn sees.
func New(cfg Config) (*Agent, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&cfg.Timeout, 30*time.Second)
	def(&cfg.Idle, 90*time.Second)
	def(&cfg.Capacity, 5*time.Minute)
	def(&cfg.ApprovalTimeout, 300*time.Second)
	cfg.ApprovalTimeout = min(cfg.ApprovalTimeout, 300*time.Second)
	cfg.Idle = max(cfg.Idle, time.Minute)
	if cfg.URL == "" {
		cfg.URL = "http://127.0.0.1:8642"
	}
	if cfg.MaxMedia <= 0 {
		cfg.MaxMedia = 8 << 20
	}
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("hermes: the URL must be http://HOST:PORT or https://HOST:PORT, with no more than a path behind it")
	}
	if strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("hermes: the key must be of visible ASCII characters")
	}
	a := &Agent{
		cfg: cfg, base: strings.TrimRight(cfg.URL, "/"), client: upstream.Client(cfg.Client, maxIdle),
		service: upstream.New("hermes", cfg.Log), can: capability{turn: make(chan struct{}, 1)},
		share: share{max: cfg.MaxMedia}, picture: make(chan struct{}, maxPictures),
	}
	for _, dir := range cfg.MediaRoots {
		resolved, err := filepath.EvalSymlinks(dir)
		if err == nil {
			var info os.FileInfo
			if info, err = os.Stat(resolved); err == nil && !info.IsDir() {
				err = errors.New("not a folder")
			}
		}
		if err != nil || !filepath.IsAbs(resolved) {
			return nil, errors.New("hermes: a media root must be the absolute path of a folder: " + dir)
		}
		a.share.roots = append(a.share.roots, resolved)
	}
	if cfg.MediaDir != "" {
		if a.spool, err = openSpool(cfg.MediaDir, []byte(cfg.Key), spoolBounds); err != nil {
			return nil, fmt.Errorf("hermes: the folder for media: %w", err)
		}
		a.share.spool = a.spool
	}
	return a, nil
}

// Close waits for the runs that are yet to be stopped. Nobody may be in Ask any more.
func (a *Agent) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.wait.Wait()
	if a.spool != nil {
		a.spool.close()
	}
	a.client.CloseIdleConnections()
}

// later does something short after its turn; false means that there is no room for it.
func (a *Agent) later(do func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.late >= maxLater {
		return false
	}
	a.late++
	a.wait.Go(func() {
		do()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.late--
	})
	return true
}

// Health implements agent.Reporter. Hermes counts tokens for a whole conversation, so there are none for a call.
func (a *Agent) Health() agent.Health {
	s := a.service.Stats()
	return agent.Health{Down: s.Down, Calls: s.Calls, Failures: s.Failures, Retries: s.Retries, Refused: s.Refused}
}

// Ask implements agent.Agent.
func (a *Agent) Ask(ctx context.Context, t *agent.Turn, emit func(agent.Event)) (string, error) {
	if reply, ok := a.Instant(t); ok {
		return reply, nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, longest, errLimit)
	defer cancel()
	first := a.failed.next(t, time.Now())
	for n := first; ; n++ {
		reply, replayed, err := a.attempt(limited, t, n, emit)
		switch {
		case err == nil:
			return reply, nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case replayed && n+1 < first+maxAttempts:
			continue
		case replayed || died(err) || status(err) != 0 && !errors.Is(err, errStream):
			a.failed.add(t, n, time.Now())
		}
		a.can.stale.Store(true)
		return "", a.failure(err)
	}
}

// attempt runs the turn once. If replayed is set, nothing of it was shown and it ended before: the key of this attempt
// belongs to a run without an answer, or to another message. The user sent this one, so there is another attempt.
func (a *Agent) attempt(ctx context.Context, t *agent.Turn, n int, emit func(agent.Event)) (reply string, replayed bool, err error) {
	release := func() {}
	if t.File != nil && t.File.Kind == "image" {
		if release, err = a.place(ctx); err != nil {
			return "", false, err
		}
		defer release()
	}
	in, reply, err := a.input(ctx, t)
	if err != nil || reply != "" {
		return reply, false, err
	}
	r := &run{a: a, speech: newSpeech(&a.share, t.Owner, emit), over: make(chan struct{})}
	r.begun = func() {
		in.image = "" // it was sent
		release()
	}
	r.follower = a.follow(ctx, t, &in, a.features(ctx), n)
	r.speech.late = r.follower.session
	reply, err = r.live(ctx)
	return reply, is(err, "idempotency_key_conflict") || r.replayed && died(err) && r.speech.said.Len() == 0, err
}

// place waits for one of the places for images; release may be called more than once.
func (a *Agent) place(ctx context.Context) (release func(), err error) {
	full := time.NewTimer(a.cfg.Capacity)
	defer full.Stop()
	select {
	case a.picture <- struct{}{}:
		return sync.OnceFunc(func() { <-a.picture }), nil
	case <-full.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
