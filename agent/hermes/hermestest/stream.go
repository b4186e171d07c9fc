package hermestest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	keptFrames = 256      // of a journal
	keptBytes  = 16 << 20 // of a journal; twice as much waits for one reader
	perFrame   = 64       // bytes that a frame counts beside its own
)

type frameKind uint8

const (
	wire frameKind = iota // bytes for the reader
	cut                   // bytes, and the connection breaks off
	eof                   // bytes, and the stream ends as it should
)

// frame is one thing that happens to the readers of a run.
type frame struct {
	kind frameKind
	id   uint64 // of a journal; 0: it is never read again
	b    []byte
}

var closing = frame{kind: eof, b: []byte(": stream closed\n\n")}

// pipe holds what waits for a reader. Several readers take from each other.
type pipe struct {
	wake chan struct{}

	mu     sync.Mutex
	frames []frame
	size   int
	broken bool
}

func newPipe() *pipe { return &pipe{wake: make(chan struct{}, 1)} }

// put adds f. A reader that is too far behind is cut off.
func (p *pipe) put(f frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return
	}
	if p.size += len(f.b) + perFrame; p.size > 2*keptBytes && len(p.frames) > 0 {
		p.broken, p.frames = true, nil
		f = frame{kind: cut}
	}
	p.frames = append(p.frames, f)
	p.signal()
}

func (p *pipe) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pipe) take() (f frame, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.frames) == 0 {
		return f, false
	}
	f, p.frames = p.frames[0], p.frames[1:]
	p.size -= len(f.b) + perFrame
	if len(p.frames) > 0 {
		p.signal() // for another reader
	}
	return f, true
}

// event tells the readers of r, in the words of its route. Server.mu is held.
func (r *run) event(name string, fields map[string]any) {
	if r.over {
		return
	}
	r.last = name
	if r.session {
		for _, e := range sessionWords(r, name, fields) {
			r.emit(e.name, e.fields)
		}
		return
	}
	r.emit(name, fields)
}

func (r *run) emit(name string, fields map[string]any) {
	r.seq++
	now := seconds(time.Now())
	all := map[string]any{"run_id": r.id}
	if r.session {
		all["session_id"], all["seq"], all["ts"] = r.sessionID, r.seq, now
	} else {
		all["event"], all["timestamp"] = name, now
	}
	for k, v := range fields {
		all[k] = v
	}
	data, err := json.Marshal(all)
	if err != nil {
		panic(err) // a Step's Fields were looked at when the server was made
	}
	f := frame{id: r.seq}
	switch {
	case r.session:
		f.b = fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data)
	case r.journaled:
		f.b = fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", r.seq, name, data)
	default:
		f.b = fmt.Appendf(nil, "data: %s\n\n", data)
	}
	r.newest = f
	r.put(f)
}

// put brings f to whoever reads, and keeps it for those who will. Server.mu is held.
func (r *run) put(f frame) {
	if !r.journaled {
		if r.expire(); r.queue != nil {
			r.queue.put(f)
		}
		return
	}
	for p := range r.readers {
		p.put(f)
	}
	if f.id == 0 && len(r.readers) > 0 {
		return // it happened to them, and will not happen again
	}
	r.journal = append(r.journal, f)
	r.kept += len(f.b) + perFrame
	for len(r.journal) > keptFrames || r.kept > keptBytes && len(r.journal) > 1 {
		r.kept -= len(r.journal[0].b) + perFrame
		r.journal = r.journal[1:]
	}
}

// expire drops a queue that nobody came for. Server.mu is held.
func (r *run) expire() {
	if !r.read && time.Since(r.created) > queueTTL {
		r.queue = nil
	}
}

// weigh is how many bytes a finished run keeps. Server.mu is held.
func (r *run) weigh() int {
	if !r.over {
		return 0
	}
	n := r.size + r.kept
	if q := r.queue; q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		n += q.size
	}
	return n
}

// drop ends what the present readers hear with f. Server.mu is held.
func (r *run) drop(f frame) {
	for p := range r.readers {
		p.put(f)
	}
	if !r.journaled && r.queue != nil {
		r.queue.put(f)
	}
}

// subscribe gives a reader its pipe, or nil if there is nothing to read. Server.mu is held.
func (r *run) subscribe(after uint64, deaf bool) *pipe {
	if !r.read {
		r.expire()
		r.read = true
		close(r.subscribed)
	} else if r.queue == nil && !r.journaled && deaf && !r.over {
		return newPipe()
	}
	if !r.journaled {
		return r.queue
	}
	p := newPipe()
	for _, f := range r.journal {
		if f.id == 0 || f.id > after {
			p.put(f)
		}
	}
	r.journal = slices.DeleteFunc(r.journal, func(f frame) bool { return f.id == 0 })
	if r.over {
		p.put(closing)
	}
	r.readers[p] = struct{}{}
	return p
}

// unsubscribe forgets a reader. What was not journaled is lost with it. Server.mu is held.
func (r *run) unsubscribe(p *pipe) {
	delete(r.readers, p)
	if r.queue == p {
		r.queue = nil
	}
}

// stream writes what comes through p until it ends or the client goes away.
func (c *call) stream(r *run, p *pipe, keepalive time.Duration) {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	c.status(http.StatusOK)
	flush := http.NewResponseController(c.w).Flush
	if flush() != nil {
		return
	}
	t := time.NewTimer(keepalive)
	defer t.Stop()
	dead := false
	for {
		if f, ok := p.take(); ok {
			if _, err := c.w.Write(f.b); err != nil || flush() != nil {
				return
			}
			switch f.kind {
			case cut:
				panic(http.ErrAbortHandler)
			case eof:
				return
			}
			t.Reset(keepalive)
			continue
		}
		if dead {
			panic(http.ErrAbortHandler)
		}
		select {
		case <-p.wake:
		case <-t.C:
			t.Reset(keepalive)
			if r.quiet.Load() {
				continue
			}
			if _, err := c.w.Write([]byte(": keepalive\n\n")); err != nil || flush() != nil {
				return
			}
		case <-c.r.Context().Done():
			return
		case <-c.life:
			dead = true // after what was said before
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
