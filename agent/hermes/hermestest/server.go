package hermestest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"sync"
	"time"
)

// What the agent's documentation says of itself, and how much the fake keeps at most.
const (
	defaultConcurrentRuns = 10
	defaultThink          = 50 * time.Millisecond
	defaultRecordBody     = 64 << 10
	maxBody               = 10_000_000        // bytes of a request
	queueTTL              = 300 * time.Second // of a queue that nobody reads
	statusTTL             = time.Hour         // of a finished run
	keyTTL                = 24 * time.Hour    // of an Idempotency-Key
	approvalTTL           = 300 * time.Second

	maxLive          = 1 << 16  // runs at a time, whatever the configuration says
	maxFinished      = 1024     // finished runs, the oldest goes first
	maxWeight        = 64 << 20 // bytes of what finished runs keep, likewise
	maxKeys          = 1 << 16
	maxConversations = 1 << 16
)

// Config is what a Server shall be. The zero Config is a server of generation A without a key, whose agent answers from
// its history.
type Config struct {
	Key               string            // of the header Authorization; empty: nobody has to show one
	Profiles          map[string]string // keys of further profiles, under /p/<profile>/
	Features          Features
	MaxConcurrentRuns int           // 429 above it; 0: 10; negative: as many as come
	Think             time.Duration // a run begins when somebody reads its events, or after this time; 0: 50 ms, negative: none
	Pace              time.Duration // between the words of the answer from history
	Rules             []Rule        // what a run does; the first rule that fits
	Faults            []Fault
	RecordBody        int // bytes of a request's body that the record keeps; 0: 64 KiB
}

// Features are what the versions of the agent differ in. The zero value is generation A.
type Features struct {
	Idempotency    bool `json:"idempotency"`     // Idempotency-Key is honoured
	Journal        bool `json:"journal"`         // frames have ids and may be read again and by many; else one queue, one reader
	ApprovalField  bool `json:"approval_field"`  // GET of a run that waits holds the question
	RequestID      bool `json:"request_id"`      // an approval answers the question that it names; else the oldest one
	StopFinished   bool `json:"stop_finished"`   // stop of a finished run tells its status; else 404
	Detach         bool `json:"detach"`          // a session stream's run outlives its reader; else it is interrupted
	ReasoningDelta bool `json:"reasoning_delta"` // reasoning.delta; else reasoning.available
	DeafReconnect  bool `json:"deaf_reconnect"`  // without Journal: whoever reads again hears keep-alives only; else 404
}

// A and B are the two generations.
var (
	A = Features{}
	B = Features{
		Idempotency: true, Journal: true, ApprovalField: true, RequestID: true, StopFinished: true, Detach: true,
		ReasoningDelta: true,
	}
)

// Server is the fake. Its methods may be called from any goroutine.
type Server struct {
	cfg     Config
	rules   []rule
	mux     *http.ServeMux
	running sync.WaitGroup // the goroutines of runs, and of Client's server
	memory  memory

	mu            sync.Mutex
	life          chan struct{} // closed when the process dies, which Restart and Close play
	closed        bool
	draining      bool
	live          int // runs that are not finished
	started       int // runs, ever
	runs          map[string]*run
	order         []*run // as they were started
	keys          map[string]*receipt
	keyOrder      []string
	conversations map[string]*conversation
	convOrder     []string
	textSize      int // bytes of what the conversations keep
	faults        []*armed
	record        record
}

// New starts nothing but what its clients ask for. It panics when a rule or a fault is wrong; Parse says so with an error.
func New(cfg Config) *Server {
	if cfg.MaxConcurrentRuns == 0 {
		cfg.MaxConcurrentRuns = defaultConcurrentRuns
	}
	if cfg.Think == 0 {
		cfg.Think = defaultThink
	}
	if cfg.RecordBody == 0 {
		cfg.RecordBody = defaultRecordBody
	}
	rules, err := compile(cfg.Rules, cfg.Faults)
	if err != nil {
		panic("hermestest: " + err.Error())
	}
	s := &Server{
		cfg: cfg, rules: rules, life: make(chan struct{}),
		runs: map[string]*run{}, keys: map[string]*receipt{}, conversations: map[string]*conversation{},
		record: record{changed: make(chan struct{})},
	}
	s.routes()
	s.Fault(cfg.Faults...)
	return s
}

// Close ends all runs and streams, and waits for the runs.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.life)
	}
	for _, r := range s.runs {
		r.end(errGone)
	}
	s.mu.Unlock()
	s.memory.close()
	s.running.Wait()
}

// Drain makes the server refuse new runs, as it does before it ends, or take them again.
func (s *Server) Drain(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = on
}

// Restart is what the clients see when the agent's process dies and comes back: every stream breaks off, and a run that
// has no Idempotency-Key is unknown from now on. One that has is interrupted, unless it was finished.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	close(s.life)
	s.life = make(chan struct{})
	kept := s.order[:0]
	for _, r := range s.order {
		r.end(errGone)
		if r.key == "" {
			s.over(r)
			delete(s.runs, r.id)
			continue
		}
		kept = append(kept, r)
		if !r.over {
			s.over(r)
			r.set("interrupted", map[string]any{"error": "The gateway restarted before this run settled."})
			r.last = "run.interrupted"
		}
	}
	clear(s.order[len(kept):])
	s.order = kept
}

// over takes a run out of those that count. s.mu is held.
func (s *Server) over(r *run) {
	if !r.over {
		r.over = true
		r.ended = time.Now()
		r.pending = nil
		if r.conversation.active == r {
			r.conversation.active = nil
		}
		s.live--
	}
}

// admit says whether one more run may start: 0, or the status that refuses it. s.mu is held.
func (s *Server) admit() int {
	switch limit := s.cfg.MaxConcurrentRuns; {
	case s.draining || s.closed:
		return http.StatusServiceUnavailable
	case limit > 0 && s.live >= limit, s.live >= maxLive:
		return http.StatusTooManyRequests
	}
	return 0
}

// sweep forgets what is too old or too much. s.mu is held.
func (s *Server) sweep() {
	now, finished, weight := time.Now(), len(s.order)-s.live, 0
	for _, r := range s.order {
		weight += r.weigh()
	}
	kept := s.order[:0]
	for _, r := range s.order {
		ttl := statusTTL
		if r.key != "" {
			ttl = keyTTL
		}
		if r.over && (finished > maxFinished || weight > maxWeight || now.Sub(r.ended) > ttl) {
			delete(s.runs, r.id)
			weight -= r.weigh()
			if rc := s.keys[r.key]; rc != nil && rc.id == r.id {
				rc.last = r.state()
			}
			finished--
			continue
		}
		kept = append(kept, r)
	}
	clear(s.order[len(kept):])
	s.order = kept
	for len(s.keyOrder) > 0 {
		k := s.keyOrder[0]
		if len(s.keyOrder) <= maxKeys && now.Sub(s.keys[k].at) <= keyTTL {
			break
		}
		delete(s.keys, k)
		s.keyOrder = s.keyOrder[1:]
	}
}

// pause waits for d, or says false when ctx or life ends before. For 0 it waits for these.
func pause(ctx context.Context, life <-chan struct{}, d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-after:
		return true
	case <-ctx.Done():
	case <-life:
	}
	return false
}

// token is n random bytes in hexadecimal digits.
func token(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
