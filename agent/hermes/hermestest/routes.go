package hermestest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const runKeepalive = 30 * time.Second

func (s *Server) health(*call) reply {
	return reply{http.StatusOK, map[string]any{"status": "ok", "platform": "hermes-agent", "version": "0.0.0-fake"}}
}

func (s *Server) models(*call) reply {
	return reply{http.StatusOK, map[string]any{
		"object": "list", "data": []any{map[string]any{"id": model, "object": "model", "owned_by": "hermes"}},
	}}
}

func (s *Server) capabilities(c *call) reply {
	features := map[string]any{
		"chat_completions": false, "responses_api": false, "cors": false, "reasoning_streaming": s.cfg.Features.ReasoningDelta,
		"run_submission": true, "run_status": true, "run_events_sse": true, "run_stop": true, "run_steer": true,
		"session_resources": true, "session_chat_streaming": true, "session_key_header": "X-Hermes-Session-Key",
	}
	if s.cfg.Features.Idempotency {
		features["runs_idempotency"] = map[string]any{
			"supported": true, "durable": true, "retention_seconds": int(keyTTL.Seconds()),
		}
	}
	if s.cfg.Features.Journal { // the name in the documentation, and that in the code
		features["run_approval"] = true
	} else {
		features["run_approval_response"], features["approval_events"] = true, true
	}
	endpoints := map[string]any{}
	for name, route := range map[string]string{
		"health": "GET /health", "runs": "POST /v1/runs", "run_status": "GET /v1/runs/{run_id}",
		"run_events": "GET /v1/runs/{run_id}/events", "run_approval": "POST /v1/runs/{run_id}/approval",
		"run_steer": "POST /v1/runs/{run_id}/steer", "run_stop": "POST /v1/runs/{run_id}/stop",
		"session_create":      "POST /api/sessions",
		"session_chat_stream": "POST /api/sessions/{session_id}/chat/stream",
	} {
		method, path, _ := strings.Cut(route, " ")
		endpoints[name] = map[string]any{"method": method, "path": path}
	}
	key, _ := s.key(c.profile)
	return reply{http.StatusOK, map[string]any{
		"object": "hermes.api_server.capabilities", "platform": "hermes-agent", "model": model,
		"auth":     map[string]any{"type": "bearer", "required": key != ""},
		"runtime":  map[string]any{"mode": "server_agent", "tool_execution": "server"},
		"features": features, "endpoints": endpoints,
	}}
}

// receipt is what an Idempotency-Key stands for.
type receipt struct {
	key  string
	sum  string // of the request
	at   time.Time
	id   string // of the run
	last string // its status when it was forgotten
}

// receipt makes one for the request if it has a key, or answers it if the key was seen before. s.mu is held.
func (s *Server) receipt(c *call, body map[string]any, session bool) (*receipt, reply) {
	key := strings.TrimSpace(c.r.Header.Get("Idempotency-Key"))
	if !s.cfg.Features.Idempotency || key == "" {
		return nil, reply{}
	}
	if len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < 33 || r > 126 }) {
		return nil, fail(http.StatusBadRequest, "invalid_idempotency_key", "Idempotency-Key must be 1-255 visible ASCII characters")
	}
	whole, err := json.Marshal([]any{body, c.r.Header.Get("X-Hermes-Session-Key"), session})
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(whole)
	rc := &receipt{key: c.profile + "\n" + key, sum: hex.EncodeToString(sum[:]), at: time.Now()}
	old := s.keys[rc.key]
	if old == nil || rc.at.Sub(old.at) > keyTTL {
		return rc, reply{}
	}
	if old.sum != rc.sum {
		return nil, fail(http.StatusConflict, "idempotency_key_conflict",
			"Idempotency-Key was already used with a different request payload")
	}
	c.note.RunID = old.id
	told := map[string]any{"run_id": old.id, "status": old.last, "replayed": true}
	if r := s.runs[old.id]; r != nil {
		r.replays++
		told["status"] = r.state()
	}
	if session {
		told["session_stream"] = true
	}
	c.w.Header().Set("Idempotency-Replayed", "true")
	return nil, reply{http.StatusAccepted, told}
}

// keep remembers a receipt. s.mu is held.
func (s *Server) keep(rc *receipt) {
	if s.keys[rc.key] == nil {
		s.keyOrder = append(s.keyOrder, rc.key)
	}
	s.keys[rc.key] = rc
}

// refused says why a run may not start, if so. s.mu is held.
func (s *Server) refused(c *call, text string) reply {
	s.sweep()
	if r, _ := s.find(text, s.started+1); r != nil && r.refuse != nil && r.refuse.hits() {
		f := r.refuse
		if f.RetryAfter != "" {
			c.w.Header().Set("Retry-After", f.RetryAfter)
		}
		return fail(f.Status, f.Code, http.StatusText(f.Status))
	}
	switch status := s.admit(); status {
	case 0:
		return reply{}
	case http.StatusTooManyRequests:
		c.w.Header().Set("Retry-After", "1")
		return fail(status, "rate_limit_exceeded", "Too many concurrent runs (max "+strconv.Itoa(s.cfg.MaxConcurrentRuns)+")")
	default:
		c.w.Header().Set("Retry-After", "1")
		return fail(status, "gateway_draining", "Gateway is draining existing work")
	}
}

func (s *Server) submit(c *call) reply {
	body, ok := c.object()
	if !ok {
		return fail(http.StatusBadRequest, "", "Invalid JSON")
	}
	input := body["input"]
	if list, ok := input.([]any); ok && len(list) > 0 {
		last, _ := list[len(list)-1].(map[string]any)
		input = last["content"]
	} else if text, ok := input.(string); !ok || text == "" {
		return fail(http.StatusBadRequest, "", "Missing 'input' field")
	}
	text, images, _ := parts(input, false)
	if text == "" && len(images) == 0 {
		return fail(http.StatusBadRequest, "", "No user message found in input")
	}
	sessionKey := c.r.Header.Get("X-Hermes-Session-Key")
	session, _ := body["session_id"].(string)
	if session != "" && !safeID(session) {
		return fail(http.StatusBadRequest, "invalid_session_id", "Invalid session_id")
	}
	if session == "" && sessionKey != "" {
		session = declared(sessionKey)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	receipt, again := s.receipt(c, body, false)
	if again.code != 0 {
		return again
	}
	if rep := s.refused(c, text); rep.code != 0 {
		return rep
	}
	r := &run{profile: c.profile, sessionID: session, sessionKey: sessionKey, text: text, images: images}
	s.start(r, receipt)
	c.note.RunID = r.id
	return reply{http.StatusAccepted, map[string]any{"run_id": r.id, "status": "started", "replayed": false}}
}

// ofRun gives the run that the path names. s.mu is held.
func (s *Server) ofRun(c *call) (*run, reply) {
	id := c.r.PathValue("id")
	r := s.runs[id]
	if r == nil || r.profile != c.profile || r.over && r.key == "" && time.Since(r.ended) > statusTTL {
		return nil, fail(http.StatusNotFound, "run_not_found", "Run not found: "+id)
	}
	c.note.RunID = r.id
	return r, reply{}
}

func (s *Server) getRun(c *call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, missing := s.ofRun(c)
	if r == nil {
		return missing
	}
	return reply{http.StatusOK, r.tell()}
}

func (s *Server) events(c *call) reply {
	after := c.r.Header.Get("Last-Event-ID")
	if q := c.r.URL.Query().Get("after"); q != "" {
		after = q
	}
	id, _ := strconv.ParseUint(after, 10, 64)
	s.mu.Lock()
	r, missing := s.ofRun(c)
	var p *pipe
	if r != nil && !r.session {
		p = r.subscribe(id, s.cfg.Features.DeafReconnect)
	}
	s.mu.Unlock()
	if r == nil {
		return missing
	}
	if p == nil {
		return fail(http.StatusNotFound, "run_not_found", "Run not found: "+r.id)
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.unsubscribe(p)
	}()
	c.stream(r, p, runKeepalive)
	return reply{}
}

func (s *Server) stop(c *call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, missing := s.ofRun(c)
	if r == nil {
		return missing
	}
	r.stops++
	if r.over {
		if s.cfg.Features.StopFinished {
			return reply{http.StatusOK, r.tell()}
		}
		return fail(http.StatusNotFound, "run_not_found", "Run not found: "+r.id)
	}
	r.pending = nil
	r.set("stopping", nil)
	r.last = "run.stopping"
	r.end(errStopped)
	return reply{http.StatusOK, map[string]any{"run_id": r.id, "status": "stopping"}}
}

func (s *Server) steer(c *call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, missing := s.ofRun(c)
	if r == nil {
		return missing
	}
	if r.state() != "running" {
		return fail(http.StatusConflict, "run_not_accepting_steer", "Run is not currently accepting steer input: "+r.id)
	}
	body, _ := c.object()
	var text string
	for _, name := range []string{"input", "message", "text"} {
		if text == "" {
			text, _, _ = parts(body[name], false)
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return fail(http.StatusBadRequest, "invalid_steer_input", "Missing non-empty steer text")
	}
	if r.steers = append(r.steers, text); len(r.steers) > keptMessages {
		r.steers = r.steers[1:]
	}
	r.event("run.steered", map[string]any{"accepted": true})
	return reply{http.StatusOK, map[string]any{"object": "hermes.run.steer", "run_id": r.id, "accepted": true}}
}

var (
	choices = []string{"once", "session", "always", "deny"}
	aliases = map[string]string{"approve": "once", "approved": "once", "allow": "once"}
)

func (s *Server) approval(c *call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, missing := s.ofRun(c)
	if r == nil {
		return missing
	}
	body, ok := c.object()
	if !ok {
		return fail(http.StatusBadRequest, "", "Invalid JSON")
	}
	choice, _ := body["choice"].(string)
	choice = strings.ToLower(strings.TrimSpace(choice))
	if full := aliases[choice]; full != "" {
		choice = full
	}
	fields := map[string]any{"choice": choice}
	var id string
	if raw, named := body["request_id"]; named && raw != nil && s.cfg.Features.RequestID {
		id, _ = raw.(string)
		if id = strings.TrimSpace(id); id == "" || len(id) > 256 {
			return fail(http.StatusBadRequest, "invalid_approval_request", "Approval request_id is invalid.")
		}
		fields["request_id"] = id
	}
	if !slices.Contains(choices, choice) {
		return fail(http.StatusBadRequest, "invalid_approval_choice",
			"Invalid approval choice; expected one of: "+strings.Join(choices, ", "))
	}
	if r.over {
		return fail(http.StatusConflict, "approval_not_active", "Run has no active approval session: "+r.id)
	}
	n := r.resolve(choice, id, body["all"] == true || body["resolve_all"] == true)
	if n == 0 {
		return fail(http.StatusConflict, "approval_not_pending", "Run has no pending approval: "+r.id)
	}
	fields["resolved"] = n
	r.set("running", nil)
	r.event("approval.responded", fields)
	told := maps.Clone(fields)
	told["object"], told["run_id"] = "hermes.run.approval_response", r.id
	return reply{http.StatusOK, told}
}
