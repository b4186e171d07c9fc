package hermes

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// askAgain is how long nobody asks what the agent can after that had failed.
const askAgain = 30 * time.Second

// features are what the agent says that it can. The zero value is an agent that says nothing of itself.
type features struct {
	receipts bool // a request with the same Idempotency-Key is not done twice
	sessions bool // a session has a stream, which takes images
}

// capability knows what the agent can.
type capability struct {
	turn  chan struct{} // room for one: whoever has put something in owns the fields below
	known features
	valid bool      // it was asked
	until time.Time // nobody asks before that

	stale atomic.Bool // something was missing since
}

// features returns what the agent can; the first turn asks, and the next one after something was missing. What cannot be
// asked counts as it was before.
func (a *Agent) features(ctx context.Context) features {
	c := &a.can
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return features{}
	}
	defer func() { <-c.turn }()
	if c.valid && !c.stale.Load() || time.Now().Before(c.until) {
		return c.known
	}
	var answer struct {
		Features  map[string]json.RawMessage `json:"features"`
		Endpoints map[string]struct {
			Path text `json:"path"`
		} `json:"endpoints"`
	}
	err := a.service.Once(ctx, func() error { return a.call(ctx, http.MethodGet, "/v1/capabilities", nil, &answer) })
	if code := status(err); err != nil && code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
		if ctx.Err() == nil {
			c.until = time.Now().Add(askAgain)
		}
		return c.known
	}
	known := features{sessions: string(answer.Features["session_chat_streaming"]) == "true"}
	for _, e := range answer.Endpoints {
		known.sessions = known.sessions || strings.HasSuffix(string(e.Path), "/chat/stream")
	}
	var receipts struct {
		Supported bool `json:"supported"`
	}
	known.receipts = json.Unmarshal(answer.Features["runs_idempotency"], &receipts) == nil && receipts.Supported
	c.known, c.valid = known, true
	c.stale.Store(false)
	return known
}
