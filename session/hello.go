package session

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"mobilegate/codec"
	"mobilegate/engine"
)

const (
	silentLink = 60 * time.Second       // a link that said nothing for longer may be dead
	suitorLook = 250 * time.Millisecond // how often to look whether it is
)

// Hello implements engine.Handler: the first frame of a connection, on its loop. What can be said without the device's
// session is decided here, the rest in the session's own order.
func (h *Hub) Hello(c engine.Conn, b *engine.Buffer) {
	in := ins.Get().(*codec.In)
	second := h.second(h.cfg.Now())
	from := h.addresses.get(c.Origin(), second)
	if refused := h.welcome(c, b, in, from); refused != nil {
		// Who knows a token is let in all the same: behind one address there may be thousands. 1013 and not 1008, after
		// which an application would not come again.
		if from.failedHello(h.quota.FailedHellosAMinute, second) && !h.cfg.QuotaOff {
			refused = h.farewells.overloaded
		}
		h.addresses.put(from, second)
		h.stats.refused.Add(1)
		c.Close(refused)
	}
	in.Reset()
	ins.Put(in)
	engine.PutMessage(b)
}

// welcome answers with the words of a refusal, or nil when the hello went to the device's session.
func (h *Hub) welcome(c engine.Conn, b *engine.Buffer, in *codec.In, from *share) *engine.Farewell {
	fault := codec.Decode(b.B, in)
	switch {
	case fault != nil && (in.Kind == codec.Hello || in.Kind == codec.Unknown):
		return farewell(fault.Code, fault.Message)
	case in.Kind != codec.Hello:
		return h.farewells.notHello
	case h.draining.Load():
		return h.farewells.goingAway
	}
	device, generated := in.Device.ID, in.Device.ID == ""
	if generated {
		device = h.generate()
	}
	g, refused := h.access.admit(in.Token, device, generated)
	if refused != welcome {
		return h.farewells.refused[refused]
	}
	e := newEvent(evHello)
	e.conn, e.owner, e.deliver, e.address, e.name = c, g.owner, g.deliver, from, device
	if in.Device.Name != "" {
		e.name = strings.Clone(in.Device.Name)
	}
	if user := cmp.Or(in.User.Name, in.User.ID); user != "" {
		user = strings.Clone(user)
		e.user = &user
	}
	h.deliverHello(device, e)
	return nil
}

// generate makes a device id that nobody has (spec 4).
func (h *Hub) generate() string {
	var raw [6]byte
	for {
		rand.Read(raw[:])
		if id := "dev-" + hex.EncodeToString(raw[:]); h.find(id) == nil {
			return id
		}
	}
}

// hello is check 5 of spec 4: is the device online, and with which token?
func (s *Session) hello(e *event, now time.Time) {
	switch {
	case s.conn == nil:
		if s.owner != e.owner {
			s.disown() // another token takes the id: nothing of the past is shown to it
		}
	case s.owner != e.owner:
		if w := s.toDo(); w.suitor != nil || s.conn.Silence(now) <= silentLink {
			s.refuse(e, s.hub.farewells.online)
			return
		}
		s.court(e, now)
		return
	default:
		if s.tooManyTakeOvers(now) {
			s.refuse(e, s.hub.farewells.overloaded)
			return
		}
		old := s.conn
		s.flush()
		s.leave()
		old.Close(s.hub.farewells.replaced)
	}
	s.owner, s.mayDeliver, s.user = e.owner, e.deliver, e.user
	s.attach(e, now)
}

// refuse turns a newcomer away.
func (s *Session) refuse(e *event, f *engine.Farewell) {
	s.hub.stats.refused.Add(1)
	s.hub.letGo(e.address)
	e.conn.Close(f)
}

// tooManyTakeOvers counts take-overs from links that were alive (spec 1): two instances of one device would else throw each
// other out without end.
func (s *Session) tooManyTakeOvers(now time.Time) bool {
	if s.hub.cfg.QuotaOff || s.conn.Silence(now) > silentLink {
		return false
	}
	return s.remember(now).takeOvers.over(uint16(s.hub.quota.TakeOversAMinute), minute, s.hub.second(now))
}

// court keeps a hello until it is known whether the silent link of the device's present owner is dead.
func (s *Session) court(e *event, now time.Time) {
	waits := newEvent(evHello)
	waits.conn, waits.owner, waits.deliver, waits.address, waits.name = e.conn, e.owner, e.deliver, e.address, e.name
	waits.user = e.user
	s.toDo().suitor = waits
	s.conn.Probe()
	s.hub.wheel.SetEarlier(s, now.Add(suitorLook))
}

// judge looks after the hello that waits: the link showed life, or it is gone, or there is time left.
func (s *Session) judge(now time.Time) {
	e := s.work.suitor
	if s.conn != nil && s.conn.Silence(now) > silentLink {
		return // the engine drops the link after engine.ProbeTimeout
	}
	s.work.suitor = nil
	s.hello(e, now)
	e.free()
}

// attach makes the newcomer the connection of the device: ready, then what is going on (spec 4).
func (s *Session) attach(e *event, now time.Time) {
	if !e.conn.Admit(s) {
		s.hub.letGo(e.address)
		s.resume(now) // nobody listens: what waits is lost
		return
	}
	s.conn, s.address = e.conn, e.address
	s.state, s.told, s.pause = state{}, state{}, 0 // what was shown to nobody, or to the last connection
	s.hub.online(s)
	s.sendReady(e.name)
	if s.work != nil {
		s.showCards(now)
		s.showTurn(now)
		s.resume(now)
	}
	if s.recent != nil {
		s.recent.errors = counter{}
	}
}

// leave: the connection is no longer the device's. What it was shown is over, its turns go on.
func (s *Session) leave() {
	s.conn = nil
	s.hub.letGo(s.address)
	s.address = nil
	if s.out != nil {
		engine.PutBuffer(s.out)
		s.out = nil
	}
	s.state, s.told, s.pause = state{}, state{}, 0
	if w := s.work; w != nil {
		w.uploads.Free() // a disconnect and a take-over alike (spec 4)
		if w.mid = false; len(w.said) > 0 {
			w.said[0].rewind()
		}
	}
	s.hub.gone(s)
}

// detach: the device is offline from now on. What its agent says meanwhile is lost (spec 10).
func (s *Session) detach(now time.Time) {
	s.leave()
	s.resume(now)
	if s.work != nil && s.work.suitor != nil {
		s.judge(now)
	}
}

// disown ends all that belongs to the device's owner.
func (s *Session) disown() {
	if s.recent != nil {
		s.recent.forget()
		s.recent = nil
	}
	if w := s.work; w != nil {
		if t := w.running; t != nil && t.ctx != nil {
			if slices.ContainsFunc(w.said, func(what said) bool { return what.end && what.turn == t }) {
				defer t.free() // its agent has returned
			} else {
				s.orphans++
			}
		}
		w.uploads.Free()
		for i := range w.said {
			if f := w.said[i].file; f != nil && f.content != nil {
				f.content.Close()
			}
		}
		if w.suitor != nil {
			s.refuse(w.suitor, s.hub.farewells.overloaded)
			w.suitor.free()
		}
		s.cancelTurns()
		for i := range w.said {
			if what := &w.said[i]; what.delivery != nil && what.end {
				what.delivery.report(errOffline)
			}
		}
		s.work = nil // not into the pool: a goroutine may still have the turn
	}
}
