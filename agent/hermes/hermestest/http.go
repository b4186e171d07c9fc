package hermestest

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

const (
	model   = "hermes-agent"
	maxText = 65_536 // characters of a text part; the rest is cut off silently
	maxPart = 1000   // parts of a message
	maxRead = 64 << 20
)

// call is one request on its way through.
type call struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	profile string
	body    []byte
	note    *Request
	life    <-chan struct{} // of the process
}

// table has every route, as Fault.Route names it.
func (s *Server) table() map[string]func(*call) reply {
	return map[string]func(*call) reply{
		"GET /health":                         s.health,
		"GET /v1/health":                      s.health,
		"GET /v1/models":                      s.models,
		"GET /v1/capabilities":                s.capabilities,
		"POST /v1/runs":                       s.submit,
		"GET /v1/runs/{id}":                   s.getRun,
		"GET /v1/runs/{id}/events":            s.events,
		"POST /v1/runs/{id}/approval":         s.approval,
		"POST /v1/runs/{id}/steer":            s.steer,
		"POST /v1/runs/{id}/stop":             s.stop,
		"POST /api/sessions":                  s.createSession,
		"GET /api/sessions/{id}":              s.getSession,
		"GET /api/sessions/{id}/messages":     s.messages,
		"POST /api/sessions/{id}/chat/stream": s.chatStream,
	}
}

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	for route, h := range s.table() {
		method, path, _ := strings.Cut(route, " ")
		s.mux.HandleFunc(route, s.handle(route, h))
		s.mux.HandleFunc(method+" /p/{profile}"+path, s.handle(route, h))
	}
	s.mux.HandleFunc("/", s.handle("", func(*call) reply { return fail(http.StatusNotFound, "", "Not Found") }))
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// reply is what a handler answers. Code 0: it has already.
type reply struct {
	code int
	body any
}

// fail makes a reply with the agent's error object.
func fail(status int, code, message string) reply {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status >= 500:
		kind = "server_error"
	}
	e := map[string]any{"message": message, "type": kind, "param": nil, "code": nil}
	if code != "" {
		e["code"] = code
	}
	return reply{status, map[string]any{"error": e}}
}

// handle is what all routes do first, and last.
func (s *Server) handle(route string, h func(*call) reply) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{s: s, w: w, r: r, profile: r.PathValue("profile")}
		c.body, _ = io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if len(c.body) > maxBody {
			_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxRead)) // so that the client reads the answer
		}
		key, known := s.key(c.profile)
		authorized := subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+key)) == 1
		s.mu.Lock()
		c.life = s.life
		c.note = s.record.add(c, route, authorized, s.cfg.RecordBody)
		f := s.struck(route, r.PathValue("id"))
		s.mu.Unlock()
		answer := func() reply { return c.answer(route, key, known, authorized, h) }
		if f != nil {
			c.suffer(*f, answer)
			return
		}
		c.send(answer())
	}
}

// answer does what was asked, if it may be asked.
func (c *call) answer(route, key string, known, authorized bool, h func(*call) reply) reply {
	open := route == "GET /health" || route == "GET /v1/health"
	switch {
	case !known:
		return fail(http.StatusNotFound, "profile_not_found", "Profile not found")
	case open:
		return h(c)
	case key != "" && !authorized:
		return fail(http.StatusUnauthorized, "gateway_auth_failed", "Invalid API key")
	case len(c.body) > maxBody:
		return fail(http.StatusRequestEntityTooLarge, "body_too_large", "Request body too large")
	}
	for _, name := range []string{"X-Hermes-Session-Id", "X-Hermes-Session-Key"} {
		v := c.r.Header.Get(name)
		switch {
		case v == "":
			continue
		case !safeID(v):
			return fail(http.StatusBadRequest, "", "Invalid "+name)
		case name == "X-Hermes-Session-Id" && key == "":
			return fail(http.StatusForbidden, "", name+" needs an API key")
		}
		c.w.Header().Set(name, v)
	}
	return h(c)
}

func (c *call) send(rep reply) {
	if rep.code == 0 {
		return
	}
	b, err := json.Marshal(rep.body)
	if err != nil {
		panic(err)
	}
	c.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	c.status(rep.code)
	_, _ = c.w.Write(b)
}

func (s *Server) key(profile string) (key string, known bool) {
	if profile == "" {
		return s.cfg.Key, true
	}
	key, known = s.cfg.Profiles[profile]
	return key, known
}

func safeID(id string) bool {
	return id != "" && len(id) <= 256 && !strings.ContainsAny(id, "\r\n\x00")
}

func (c *call) status(code int) {
	c.s.mu.Lock()
	c.note.Status = code
	c.s.record.tell()
	c.s.mu.Unlock()
	c.w.WriteHeader(code)
}

// object is the body, if it is a JSON object.
func (c *call) object() (map[string]any, bool) {
	d := json.NewDecoder(bytes.NewReader(c.body))
	d.UseNumber()
	var all map[string]any
	return all, d.Decode(&all) == nil && all != nil
}
