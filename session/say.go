package session

import (
	"crypto/rand"
	"encoding/base32"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mobilegate/codec"
	"mobilegate/engine"
)

// All that a device hears is said here. What one run of the worker says is gathered in s.out and leaves in one write;
// while the device is offline nothing is said.

const (
	softPending = 256 << 10 // what may wait for a device before its turn has to wait too
	maxGathered = 64 << 10  // what is gathered before it leaves
	maxHeldBack = 1 << 20   // what is gathered while a file's frame is on its way
)

// begin starts a frame; ok is false when nobody listens.
func (s *Session) begin() (start int, ok bool) {
	if s.conn == nil {
		return 0, false
	}
	if s.out == nil {
		s.out = engine.GetBuffer()
	}
	return engine.BeginFrame(s.out), true
}

func (s *Session) end(start int) {
	engine.EndFrame(s.out, start)
	if len(s.out.B) < maxGathered {
		return
	}
	if s.flush(); s.out != nil && len(s.out.B) > maxHeldBack {
		s.conn.Close(s.hub.farewells.slowConsumer)
	}
}

// flush lets what was said leave, unless a file's frame is on its way in fragments.
func (s *Session) flush() {
	if s.out != nil && !(s.work != nil && s.work.mid) {
		b := s.out
		s.out = nil
		s.conn.Send(b)
	}
}

// room tells whether the device takes what it is sent. It has all the room there is while it is offline.
func (s *Session) room() bool {
	if s.conn == nil {
		return true
	}
	if s.out != nil && len(s.out.B) >= maxGathered {
		s.flush()
	}
	return s.conn.Pending() <= softPending
}

func (s *Session) sendReady(name string) {
	if start, ok := s.begin(); ok {
		s.out.B = codec.AppendReady(s.out.B, &codec.Ready{DeviceID: s.id, DeviceName: name, AvatarURL: s.hub.cfg.AvatarURL})
		s.end(start)
	}
}

// sendMessage says a piece of a reply of turn t, or of a delivery, which has none.
func (s *Session) sendMessage(m *codec.Message, t *turn, now time.Time) {
	if start, ok := s.begin(); ok {
		s.out.B = codec.AppendMessage(s.out.B, m)
		s.end(start)
		s.spoke(t, now)
	}
}

// spoke notes that a message or media frame went out: the avatar speaks now, and its pause begins anew. A delivery is no
// turn (spec 7).
func (s *Session) spoke(t *turn, now time.Time) {
	if t == nil {
		s.typing(now)
		return
	}
	t.replied, t.last = true, s.hub.since(now)
	if !t.spoke {
		t.spoke = true
		s.show(speaking)
	}
}

func (s *Session) sendPong(ts string) {
	if start, ok := s.begin(); ok {
		s.out.B = codec.AppendPong(s.out.B, ts)
		s.end(start)
	}
}

func (s *Session) sendError(e *codec.ErrorFrame) {
	if start, ok := s.begin(); ok {
		s.out.B = codec.AppendError(s.out.B, e)
		s.end(start)
	}
}

func (s *Session) sendCardDone(c *codec.CardDone) {
	if start, ok := s.begin(); ok {
		s.out.B = codec.AppendCardDone(s.out.B, c)
		s.end(start)
	}
}

// avatar is a state of the avatar; one byte, for the sake of a million of them.
type avatar uint8

const (
	idle avatar = iota
	thinking
	speaking
)

var avatarWords = [...]codec.Avatar{idle: codec.AvatarIdle, thinking: codec.AvatarThinking, speaking: codec.AvatarSpeaking}

// state is what the device sees besides messages: the avatar, and whether the agent is typing.
type state struct {
	avatar avatar
	typing bool
}

// show changes the avatar's state, if it is another one.
func (s *Session) show(a avatar) {
	s.state.avatar = a
	s.sendState()
}

// setTyping shows that the agent works, or that it does not any more.
func (s *Session) setTyping(on bool) {
	s.state.typing = on
	s.sendState()
}

// sendState sends what changed of the state. While the device takes nothing it is left out: only the last state matters
// then, and that is sent when there is room again.
func (s *Session) sendState() {
	if s.state == s.told || !s.room() {
		return
	}
	if s.state.avatar != s.told.avatar {
		if start, ok := s.begin(); ok {
			s.out.B = codec.AppendAvatar(s.out.B, avatarWords[s.state.avatar])
			s.end(start)
		}
	}
	if s.state.typing != s.told.typing {
		if start, ok := s.begin(); ok {
			s.out.B = codec.AppendTyping(s.out.B, !s.state.typing)
			s.end(start)
		}
	}
	s.told = s.state
}

// pauseFrom lets the avatar go idle when it has been quiet for long enough since last.
func (s *Session) pauseFrom(last time.Duration, now time.Time) {
	s.pause = last + codec.TypingIdle
	if s.pause <= s.hub.since(now) {
		s.pause = 0
		s.show(idle)
		return
	}
	s.hub.wheel.SetEarlier(s, s.hub.start.Add(s.pause))
}

// messageNames makes the ids of messages: unlike those of another process, since applications keep them.
type messageNames struct {
	prefix string
	last   atomic.Uint64
}

func (n *messageNames) next() string {
	var b [32]byte
	return string(strconv.AppendUint(append(b[:0], n.prefix...), n.last.Add(1), 36))
}

func (n *messageNames) init() {
	var raw [5]byte
	rand.Read(raw[:])
	n.prefix = "m-" + strings.ToLower(base32.StdEncoding.EncodeToString(raw[:])) + "-"
}
