// Package openai is the agent that puts turns to a model behind the chat completions of the OpenAI API, which many services
// and programs offer. What it remembers of a conversation belongs to its Owner and is bounded.
package openai

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"mobilegate/agent"
	"mobilegate/internal/upstream"
)

// Config says which model answers, and how much of what. The zero value of a field is its default.
type Config struct {
	BaseURL         string   // of the API, up to and with /v1 (https://api.openai.com/v1)
	APIKey          string   // secret; empty for services that want none
	Model           string   // required
	System          string   // what the model is told before every conversation
	TranscribeModel string   // makes text of recordings that come without; empty: such recordings are not taken
	Temperature     *float64 // nil: the service's own
	MaxTokens       int      // of an answer; 0: the service's own

	MaxCalls int // turns that its caller runs at a time: so many connections are kept for the next ones (256)
	MaxFiles int // how many turns may hold a picture or a recording, some 15 MB each (16)
	MaxImage int // bytes of a picture; a larger one is made smaller (2.5 MiB, which every known service takes)

	FirstTimeout time.Duration // until the first sign of an answer (90 s)
	IdleTimeout  time.Duration // silence within an answer (60 s)
	TurnTimeout  time.Duration // for a turn as a whole (10 min)

	HistoryTurns     int    // questions with their answers that an owner's conversation holds (40)
	HistoryBytes     int    // and bytes of them (64 KiB)
	HistoryMemory    int    // bytes of all conversations in memory; the oldest are forgotten (64 MiB)
	HistoryFile      string // where conversations are kept instead, so that they outlive a restart
	HistoryFileBytes int    // of all conversations there (1 GiB)

	Client *http.Client // for tests; nil: one of the agent's own
	Log    *slog.Logger
}

// Agent implements agent.Agent, Stopper and Reporter.
type Agent struct {
	agent.StopCommand

	cfg      Config
	client   openai.Client
	service  *upstream.Service
	history  history
	pictures *shelf[shown]
	files    chan struct{}
	form     atomic.Int32 // of requests; see forms
	settled  atomic.Bool  // the service took one of that form
}

var (
	_ agent.Stopper  = (*Agent)(nil)
	_ agent.Instant  = (*Agent)(nil)
	_ agent.Reporter = (*Agent)(nil)
)

// New makes an Agent and opens its history; whoever calls it calls Close.
func New(cfg Config) (*Agent, error) {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, "https://api.openai.com/v1")
	cfg.MaxCalls = cmp.Or(cfg.MaxCalls, 256)
	cfg.MaxFiles = cmp.Or(cfg.MaxFiles, 16)
	cfg.MaxImage = cmp.Or(cfg.MaxImage, 5<<19)
	cfg.FirstTimeout = cmp.Or(cfg.FirstTimeout, 90*time.Second)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, time.Minute)
	cfg.TurnTimeout = cmp.Or(cfg.TurnTimeout, 10*time.Minute)
	cfg.HistoryTurns = cmp.Or(cfg.HistoryTurns, 40)
	cfg.HistoryBytes = cmp.Or(cfg.HistoryBytes, 64<<10)
	cfg.HistoryMemory = cmp.Or(cfg.HistoryMemory, 64<<20)
	cfg.HistoryFileBytes = cmp.Or(cfg.HistoryFileBytes, 1<<30)
	if cfg.Model == "" {
		return nil, errors.New("openai: no model is set")
	}
	if u, err := url.Parse(cfg.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("openai: the base URL must be one such as https://HOST/v1") // it may hold a secret
	}
	cfg.Client = upstream.Client(cfg.Client, cfg.MaxCalls)
	a := &Agent{
		cfg:      cfg,
		service:  upstream.New("openai", cfg.Log),
		pictures: newShelf(maxPictures, shown.size),
		files:    make(chan struct{}, cfg.MaxFiles),
	}
	// Not openai.NewClient, which takes keys and addresses out of the environment.
	a.client.Options = []option.RequestOption{
		option.WithBaseURL(cfg.BaseURL),
		option.WithHTTPClient(cfg.Client),
		option.WithMaxRetries(0), // upstream retries, and knows of each attempt
		option.WithMiddleware(onlySuccess),
	}
	if cfg.APIKey != "" {
		a.client.Options = append(a.client.Options, option.WithAPIKey(cfg.APIKey))
	}
	a.client.Audio = openai.NewAudioService(a.client.Options...)
	b := bounds{turns: cfg.HistoryTurns, bytes: cfg.HistoryBytes}
	if cfg.HistoryFile == "" {
		a.history = newMemory(b, cfg.HistoryMemory)
		return a, nil
	}
	d, err := openDisk(cfg.HistoryFile, b, cfg.HistoryFileBytes)
	if err != nil {
		return nil, err
	}
	a.history = d
	return a, nil
}

// Close ends the use of the history. No turn runs any more.
func (a *Agent) Close() error {
	a.cfg.Client.CloseIdleConnections()
	return a.history.close()
}

// Health implements agent.Reporter.
func (a *Agent) Health() agent.Health { return agent.Health(a.service.Stats()) }

// Ask implements agent.Agent.
func (a *Agent) Ask(ctx context.Context, t *agent.Turn, emit func(agent.Event)) (string, error) {
	if reply, ok := a.Instant(t); ok {
		return reply, nil
	}
	if t.File == nil && strings.EqualFold(strings.TrimSpace(t.Text), "/new") {
		a.pictures.update(t.Owner, func(shown) shown { return shown{} })
		if err := a.history.forget(t.Owner); err != nil {
			return "", &agent.Failure{Tell: "The conversation could not be forgotten. Please try again.", Err: err}
		}
		return "A new conversation begins.", nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, a.cfg.TurnTimeout, errLimit)
	defer cancel()
	reply, err := a.turn(limited, t, emit)
	if err != nil && ctx.Err() == nil {
		err = failure(err, t.File)
	}
	return reply, err
}
