// Package session holds the devices: who is let in, what each of them says and hears, its turns with the agent, and what
// is remembered of it while it is away.
//
// Reading order: inbox.go (the one place where order is made), session.go (the life of a device), hello.go, turn.go,
// stream.go, say.go (all that a device hears).
package session

import (
	"container/list"
	"context"
	"hash/maphash"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mobilegate/agent"
	"mobilegate/engine"
	"mobilegate/internal/wheel"
	"mobilegate/media"
)

// Config is what a Hub needs. Zero values mean the default that stands behind each field.
type Config struct {
	Agent      agent.Agent // required
	Access     Access      // required: at least one token
	AvatarURL  string      // ready.avatar_url
	HomeDevice string      // target of a delivery that names none (spec 9)
	RemoteOnly bool        // a connection from this host needs a deliver token too, to deliver (spec 9)
	Quota      *Quota      // DefaultQuota
	QuotaOff   bool        // switches rates off, never a bound on memory
	Workers    int         // for session logic that is too much for an event loop; one less than GOMAXPROCS
	MaxTurns   int         // turns that run at a time, over all devices; 10 000
	MaxOffline int         // offline devices that something is remembered of; 100 000
	MaxFiles   int64       // bytes of files that are held for all devices, whole ones and those in parts each; 512 MiB
	Log        *slog.Logger
	Now        func() time.Time
}

// Hub holds all devices. It implements engine.Handler.
type Hub struct {
	cfg       Config
	instant   agent.Instant // cfg.Agent, if it is one
	stopper   agent.Stopper // likewise
	access    *access
	farewells farewells
	start     time.Time
	wheel     *wheel.Wheel[*Session]
	pool      pool
	slots     slots
	names     messageNames
	cards     cardOwners
	budget    *media.Budget // of files that come whole: Config.MaxFiles
	uploads   *media.Budget // of files that come in parts: the same again, or those who never finish would keep all others out
	texts     *media.Budget // of messages that wait for their turn
	quota     *Quota
	tokens    []share // by owner
	addresses shares
	inboxes   atomic.Int64 // bytes that wait in the sessions' inboxes

	failures struct { // of turns, that were logged
		sync.Mutex
		counter
	}
	stop     context.CancelFunc
	timer    sync.WaitGroup
	draining atomic.Bool
	stats    counters

	shards [64]shard // devices by id
	seed   maphash.Seed

	away struct { // the offline devices
		sync.Mutex
		list   list.List // of *Session, who left first comes first
		places map[*Session]*list.Element
	}
}

type shard struct {
	mu      sync.Mutex
	devices map[string]*Session
}

type counters struct{ online, frames, unknown, errors, refused, turns, failed, panics atomic.Int64 }

// Stats are counters since the start; Online and Devices are numbers of now. Released is how many bytes of files and waiting
// messages were let go.
type Stats struct {
	Online, Devices, Frames, Unknown, Errors, Refused, Turns, Failed, Panics, Released int64
}

// maxTexts is how many bytes of messages may wait for their turn, over all devices.
const maxTexts = 64 << 20

// tick is the grain of the session's deadlines.
const tick = 50 * time.Millisecond

// New makes a Hub. It works once Start was called; until then a test may drive it by hand.
func New(cfg Config) (*Hub, error) {
	if cfg.Workers == 0 {
		cfg.Workers = max(1, runtime.GOMAXPROCS(0)-1) // the loops must always find a processor
	}
	if cfg.MaxTurns == 0 {
		cfg.MaxTurns = 10_000
	}
	if cfg.MaxOffline == 0 {
		cfg.MaxOffline = 100_000
	}
	if cfg.Quota == nil {
		cfg.Quota = &DefaultQuota
	}
	if cfg.MaxFiles == 0 {
		cfg.MaxFiles = 512 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a, err := newAccess(cfg.Access)
	if err != nil {
		return nil, err
	}
	h := &Hub{cfg: cfg, access: a, farewells: newFarewells(), start: cfg.Now(), seed: maphash.MakeSeed()}
	h.instant, _ = cfg.Agent.(agent.Instant)
	h.stopper, _ = cfg.Agent.(agent.Stopper)
	h.quota, h.tokens = cfg.Quota, make([]share, len(cfg.Access.Tokens))
	h.budget, h.uploads, h.texts = media.NewBudget(cfg.MaxFiles), media.NewBudget(cfg.MaxFiles), media.NewBudget(maxTexts)
	h.names.init()
	h.away.places = map[*Session]*list.Element{}
	h.wheel = wheel.New[*Session](tick, h.start)
	h.slots.free, h.slots.most = cfg.MaxTurns, cfg.MaxTurns
	for i := range h.shards {
		h.shards[i].devices = map[string]*Session{}
	}
	h.pool.start(cfg.Workers)
	return h, nil
}

// Start lets the hub's time run.
func (h *Hub) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	h.timer.Go(func() { h.wheel.Run(ctx, h.cfg.Now, h.fire) })
}

// Tick does what is due at now, for tests that drive the time.
func (h *Hub) Tick(now time.Time) { h.fire(now, h.wheel.Advance(now, nil)) }

func (h *Hub) fire(_ time.Time, due []*Session) {
	for _, s := range due {
		s.post(newEvent(evDeadline), elsewhere)
	}
}

// Drain lets no new turn begin, waits until the running ones are over or ctx ends, and then closes every device with 1001.
func (h *Hub) Drain(ctx context.Context) {
	h.draining.Store(true)
	select {
	case <-h.slots.idle():
	case <-ctx.Done():
	}
	for i := range h.shards {
		sh := &h.shards[i]
		sh.mu.Lock()
		all := make([]*Session, 0, len(sh.devices))
		for _, s := range sh.devices {
			all = append(all, s)
		}
		sh.mu.Unlock()
		for _, s := range all {
			s.post(newEvent(evShutdown), elsewhere)
		}
	}
}

// Close ends the hub's goroutines, after the engine has stopped.
func (h *Hub) Close() {
	if h.stop != nil {
		h.stop()
		h.timer.Wait()
	}
	h.pool.stop()
}

// Stats may be called at any time.
func (h *Hub) Stats() Stats {
	st := Stats{Online: h.stats.online.Load(), Frames: h.stats.frames.Load(), Unknown: h.stats.unknown.Load(), Errors: h.stats.errors.Load(), Refused: h.stats.refused.Load(),
		Turns: h.stats.turns.Load(), Failed: h.stats.failed.Load(), Panics: h.stats.panics.Load(), Released: h.Released()}
	for i := range h.shards {
		h.shards[i].mu.Lock()
		st.Devices += int64(len(h.shards[i].devices))
		h.shards[i].mu.Unlock()
	}
	return st
}

// Released is Stats.Released without the rest, which takes longer to count.
func (h *Hub) Released() int64 {
	return h.budget.Returned() + h.uploads.Returned() + h.texts.Returned()
}

// MaxMemory is what the budgets for files and waiting messages allow together, in bytes.
func (h *Hub) MaxMemory() int64 { return 2*h.cfg.MaxFiles + maxTexts + maxInboxes }

// letGo ends a connection's use of its address.
func (h *Hub) letGo(from *share) {
	if from != nil {
		h.addresses.put(from, h.second(h.cfg.Now()))
	}
}

// since is now as the sessions keep it: 8 bytes instead of 24.
func (h *Hub) since(now time.Time) time.Duration { return now.Sub(h.start) + 1 } // never 0, which means none

func (h *Hub) second(now time.Time) uint32 { return uint32(now.Sub(h.start) / time.Second) }

func (h *Hub) shard(device string) *shard {
	return &h.shards[maphash.String(h.seed, device)%uint64(len(h.shards))]
}

func (h *Hub) find(device string) *Session {
	sh := h.shard(device)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.devices[device]
}

// deliverHello posts a hello to the session of the device, which is made if there is none. The event is put into the inbox
// under the registry's lock, so that a session that ends at this moment either sees it or is not found any more.
func (h *Hub) deliverHello(device string, e *event) {
	sh := h.shard(device)
	sh.mu.Lock()
	s := sh.devices[device]
	if s == nil {
		s = &Session{hub: h, id: strings.Clone(device), owner: e.owner}
		sh.devices[s.id] = s
	}
	if e.name == device {
		e.name = s.id
	}
	start, _ := s.inbox.put(e, &h.inboxes) // only frames find it full
	sh.mu.Unlock()
	if start {
		s.run(here)
	}
}

// postTo posts e to the session of a device; false when there is none. As with a hello, no session ends in between.
func (h *Hub) postTo(device string, e *event) bool {
	sh := h.shard(device)
	sh.mu.Lock()
	s := sh.devices[device]
	if s == nil {
		sh.mu.Unlock()
		return false
	}
	start, _ := s.inbox.put(e, &h.inboxes)
	sh.mu.Unlock()
	if start {
		h.pool.add(s)
	}
	return true
}

// forget takes a session out of the registry, unless a hello has just found it.
func (h *Hub) forget(s *Session) bool {
	sh := h.shard(s.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	if s.inbox.last != nil {
		return false
	}
	s.inbox.gone = true
	delete(sh.devices, s.id)
	h.wheel.Stop(s)
	h.away.Lock()
	h.back(s)
	h.away.Unlock()
	return true
}

// gone counts s among the offline devices. When there are too many, the one that left first is forgotten: ids are the
// clients' to choose, so their number is not bounded by anything else.
func (h *Hub) gone(s *Session) {
	h.stats.online.Add(-1)
	h.away.Lock()
	h.away.places[s] = h.away.list.PushBack(s)
	var oldest *Session
	if h.away.list.Len() > h.cfg.MaxOffline {
		oldest = h.away.list.Front().Value.(*Session)
		h.back(oldest)
	}
	h.away.Unlock()
	if oldest != nil {
		oldest.post(newEvent(evEvict), elsewhere)
	}
}

// online takes s out of the offline devices, if it is among them.
func (h *Hub) online(s *Session) {
	h.stats.online.Add(1)
	h.away.Lock()
	h.back(s)
	h.away.Unlock()
}

func (h *Hub) back(s *Session) {
	if place := h.away.places[s]; place != nil {
		h.away.list.Remove(place)
		delete(h.away.places, s)
	}
}

var _ engine.Handler = (*Hub)(nil)
