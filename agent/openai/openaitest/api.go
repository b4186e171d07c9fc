package openaitest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	maxRequests = 1000     // that are remembered
	maxBody     = 32 << 20 // of a request
)

// API is the service, an http.Handler. It is safe for concurrent use.
type API struct {
	script Script

	mu       sync.Mutex
	step     int
	requests []Request
}

// Request is what the service was asked.
type Request struct {
	Host, Path  string
	Key         string // that the caller showed
	Model       string
	Messages    []Message // of a chat
	Temperature *float64
	MaxTokens   int    // under either name
	Usage       bool   // was asked for
	File        string // name of a recording
	Bytes       int    // of it
}

// Message is one message of a chat.
type Message struct {
	Role  string
	Text  string
	Image string // URL of the picture, or empty
}

// New makes a service.
func New(s Script) *API { return &API{script: s} }

// Requests returns what was asked so far, at most the last thousand.
func (a *API) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Request(nil), a.requests...)
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	q := Request{Host: r.Host, Path: r.URL.Path, Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	var c chat
	var err error
	switch {
	case r.Method != http.MethodPost:
		refuse(w, http.StatusMethodNotAllowed, "POST it")
		return
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		if err = json.NewDecoder(r.Body).Decode(&c); err == nil {
			err = q.chat(&c)
		}
	case strings.HasSuffix(r.URL.Path, "/audio/transcriptions"):
		err = q.recording(r)
	default:
		refuse(w, http.StatusNotFound, "no such path")
		return
	}
	a.remember(q)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
	case a.script.Key != "" && q.Key != a.script.Key:
		refuse(w, http.StatusUnauthorized, "Incorrect API key provided: "+q.Key) // as the service itself writes it
	case a.script.NoOptions && c.Options != nil:
		refuse(w, http.StatusBadRequest, "Unrecognized request argument supplied: stream_options")
	case a.script.NewLimit && c.MaxTokens != 0:
		refuse(w, http.StatusBadRequest, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
	default:
		an := answer{w: w, ctx: r.Context(), Step: a.next(), chat: &c, request: &q}
		an.pace = time.Duration(a.script.Pace)
		if an.Pace != nil {
			an.pace = time.Duration(*an.Pace)
		}
		an.give()
	}
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "code": nil}})
}

func (a *API) remember(q Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.requests) >= maxRequests {
		a.requests = a.requests[1:]
	}
	a.requests = append(a.requests, q)
}

// next returns the step of this call.
func (a *API) next() Step {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.step >= len(a.script.Steps) {
		if !a.script.Loop || a.step == 0 {
			return Step{}
		}
		a.step = 0
	}
	a.step++
	return a.script.Steps[a.step-1]
}

// chat is the body of a request.
type chat struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Stream  bool `json:"stream"`
	Options *struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	Temperature *float64 `json:"temperature"`
	MaxTokens   int      `json:"max_tokens"`
	MaxNew      int      `json:"max_completion_tokens"`
}

func (q *Request) chat(c *chat) error {
	q.Model, q.Temperature, q.MaxTokens = c.Model, c.Temperature, cmp.Or(c.MaxTokens, c.MaxNew)
	q.Usage = c.Options != nil && c.Options.Usage
	if c.Model == "" || len(c.Messages) == 0 {
		return fmt.Errorf("model and messages are required")
	}
	for _, m := range c.Messages {
		out := Message{Role: m.Role}
		if json.Unmarshal(m.Content, &out.Text) != nil {
			var parts []struct {
				Type  string `json:"type"`
				Text  string `json:"text"`
				Image struct {
					URL string `json:"url"`
				} `json:"image_url"`
			}
			if err := json.Unmarshal(m.Content, &parts); err != nil {
				return err
			}
			for _, p := range parts {
				out.Text += p.Text
				out.Image += p.Image.URL
			}
		}
		q.Messages = append(q.Messages, out)
	}
	return nil
}

func (q *Request) recording(r *http.Request) error {
	f, h, err := r.FormFile("file")
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(io.Discard, f)
	q.Model, q.File, q.Bytes = r.FormValue("model"), h.Filename, int(n)
	return err
}

// sleep waits for d, or until the caller went away, and tells whether it is still there.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
