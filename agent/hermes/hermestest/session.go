package hermestest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	keptMessages = 200      // of a conversation
	keptText     = 64 << 20 // bytes of all conversations
	maxTitle     = 1000     // bytes of what the client calls a session

	sessionKeepalive = 10 * time.Second
)

// conversation is a transcript. It outlives a restart. Server.mu guards it.
type conversation struct {
	id, title string
	created   time.Time
	active    *run // of its session stream
	turns     int
	messages  []message
	in, out   int // words, of all its runs
	size      int // bytes of messages
	forgotten bool
}

type message struct {
	ID        int     `json:"id"`
	Role      string  `json:"role"`
	Content   string  `json:"content"`
	Timestamp float64 `json:"timestamp"`
}

// converse finds or opens a conversation of a profile. s.mu is held.
func (s *Server) converse(profile, id string) *conversation {
	key := profile + "\n" + id
	c := s.conversations[key]
	if c == nil {
		c = &conversation{id: id, created: time.Now()}
		s.conversations[key] = c
		s.convOrder = append(s.convOrder, key)
		if len(s.convOrder) > maxConversations {
			s.forget()
		}
	}
	return c
}

// said adds a message, and gives the number of the turn. When all conversations have said too much, the oldest ones are
// forgotten. s.mu is held.
func (s *Server) said(c *conversation, role, text string) int {
	words := len(strings.Fields(text))
	if role == "user" {
		c.turns++
		c.in += words
	} else {
		c.out += words
	}
	id := 1
	if n := len(c.messages); n > 0 {
		id = c.messages[n-1].ID + 1
	}
	c.messages = append(c.messages, message{ID: id, Role: role, Content: text, Timestamp: seconds(time.Now())})
	c.add(s, len(text))
	if len(c.messages) > keptMessages {
		c.add(s, -len(c.messages[0].Content))
		c.messages = c.messages[1:]
	}
	for s.textSize > keptText && len(s.convOrder) > 1 {
		s.forget()
	}
	return c.turns
}

// add counts bytes of text.
func (c *conversation) add(s *Server, n int) {
	if c.size += n; !c.forgotten {
		s.textSize += n
	}
}

// forget drops the oldest conversation. A run that still belongs to it has it for itself. s.mu is held.
func (s *Server) forget() {
	old := s.convOrder[0]
	c := s.conversations[old]
	c.forgotten = true
	s.textSize -= c.size
	delete(s.conversations, old)
	s.convOrder = s.convOrder[1:]
}

// usage counts the whole conversation, not one run.
func (c *conversation) usage() map[string]any {
	return map[string]any{"input_tokens": c.in, "output_tokens": c.out, "total_tokens": c.in + c.out}
}

func (c *conversation) tell() map[string]any {
	return map[string]any{
		"id": c.id, "title": c.title, "started_at": seconds(c.created), "message_count": len(c.messages),
	}
}

// declared is the session that belongs to an X-Hermes-Session-Key.
func declared(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "api-" + hex.EncodeToString(sum[:8])
}

func (s *Server) createSession(c *call) reply {
	var body struct {
		ID        string `json:"id"`
		SessionID string `json:"session_id"`
		Title     string `json:"title"`
	}
	if len(c.body) > 0 && json.Unmarshal(c.body, &body) != nil {
		return fail(http.StatusBadRequest, "", "Invalid JSON")
	}
	id := body.ID
	if id == "" {
		id = body.SessionID
	}
	if id == "" {
		id = "api-" + token(8)
	}
	if !safeID(id) || strings.ContainsAny(id, `/\`) || strings.Contains(id, "..") || len(body.Title) > maxTitle {
		return fail(http.StatusBadRequest, "invalid_session_id", "Invalid session id or title")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conversations[c.profile+"\n"+id] != nil {
		return fail(http.StatusConflict, "session_exists", "Session already exists")
	}
	conv := s.converse(c.profile, id)
	conv.title = body.Title
	return reply{http.StatusCreated, map[string]any{"object": "hermes.session", "session": conv.tell()}}
}

// ofSession gives the conversation that the path names. s.mu is held.
func (s *Server) ofSession(c *call) (*conversation, reply) {
	conv := s.conversations[c.profile+"\n"+c.r.PathValue("id")]
	if conv == nil {
		return nil, fail(http.StatusNotFound, "session_not_found", "Session not found")
	}
	return conv, reply{}
}

func (s *Server) getSession(c *call) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	conv, missing := s.ofSession(c)
	if conv == nil {
		return missing
	}
	return reply{http.StatusOK, map[string]any{"object": "hermes.session", "session": conv.tell()}}
}

func (s *Server) messages(c *call) reply {
	q := c.r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit < 1 || limit > 500 {
		limit = 500
	}
	offset, err := strconv.Atoi(q.Get("offset"))
	if err != nil || offset < 0 {
		offset = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	conv, missing := s.ofSession(c)
	if conv == nil {
		return missing
	}
	all := slices.Clone(conv.messages)
	if q.Get("order") == "latest" {
		slices.Reverse(all)
	}
	from := min(offset, len(all))
	page := all[from:min(from+limit, len(all))]
	return reply{http.StatusOK, map[string]any{
		"object": "list", "session_id": conv.id, "data": page,
		"pagination": map[string]any{"limit": limit, "offset": offset, "total": len(all), "has_more": from+len(page) < len(all)},
	}}
}

// chatStream is a turn whose events are its answer.
func (s *Server) chatStream(c *call) reply {
	body, ok := c.object()
	if !ok {
		return fail(http.StatusBadRequest, "", "Invalid JSON")
	}
	content := body["message"]
	if content == nil {
		content = body["input"]
	}
	text, images, code := parts(content, true)
	if code != "" {
		return fail(http.StatusBadRequest, code, "Invalid message content")
	}
	if text == "" && len(images) == 0 {
		return fail(http.StatusBadRequest, "missing_message", "Missing 'message' field")
	}
	r, p, rep := s.startSession(c, body, text, images)
	if r == nil {
		return rep
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.unsubscribe(p)
		if !s.cfg.Features.Detach {
			r.end(errStopped)
		}
	}()
	c.stream(r, p, sessionKeepalive)
	return reply{}
}

// startSession begins a run of a session stream and its stream, or says why not.
func (s *Server) startSession(c *call, body map[string]any, text string, images []Image) (*run, *pipe, reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	conv, missing := s.ofSession(c)
	if conv == nil {
		return nil, nil, missing
	}
	receipt, again := s.receipt(c, body, true)
	if again.code != 0 {
		return nil, nil, again
	}
	if a := conv.active; a != nil && !a.over {
		rep := fail(http.StatusConflict, "run_already_active", "A run is already active for this session")
		rep.body.(map[string]any)["run_id"] = a.id
		return nil, nil, rep
	}
	if rep := s.refused(c, text); rep.code != 0 {
		return nil, nil, rep
	}
	r := &run{
		profile: c.profile, session: true, sessionID: conv.id, sessionKey: c.r.Header.Get("X-Hermes-Session-Key"),
		text: text, images: images,
	}
	s.start(r, receipt)
	c.note.RunID = r.id
	conv.active = r
	r.event("run.started", map[string]any{"user_message": map[string]any{"role": "user", "content": text}})
	r.event("message.started", map[string]any{"message": map[string]any{"id": messageID(r), "role": "assistant"}})
	return r, r.subscribe(0, false), reply{}
}

func messageID(r *run) string { return "msg_" + strings.TrimPrefix(r.id, "run_") }

// told is an event of a session stream.
type told struct {
	name   string
	fields map[string]any
}

// sessionWords says an event of a run in the words of session streams.
func sessionWords(r *run, name string, fields map[string]any) []told {
	switch name {
	case "message.delta":
		return []told{{"assistant.delta", map[string]any{"message_id": messageID(r), "delta": fields["delta"]}}}
	case "tool.started":
		return []told{{name, map[string]any{"tool_name": fields["tool"], "preview": fields["preview"], "args": map[string]any{}}}}
	case "tool.completed":
		if fields["error"] == true {
			name = "tool.failed"
		}
		return []told{{name, map[string]any{"tool_name": fields["tool"], "preview": "", "args": map[string]any{}}}}
	case "reasoning.available", "reasoning.delta":
		text := fields["text"]
		if text == nil {
			text = fields["delta"]
		}
		return []told{{"tool.progress", map[string]any{"tool_name": "_thinking", "delta": text}}}
	case "run.completed":
		content := fields["output"]
		message := map[string]any{"role": "assistant", "content": content}
		return []told{
			{"assistant.completed", map[string]any{
				"message_id": messageID(r), "content": content, "completed": true, "partial": false, "interrupted": false,
			}},
			{name, map[string]any{"message_id": messageID(r), "completed": true, "messages": []any{message}, "usage": fields["usage"]}},
			{"done", nil},
		}
	case "run.failed", "run.cancelled":
		return []told{{name, fields}, {"done", nil}}
	}
	return []told{{name, fields}}
}
