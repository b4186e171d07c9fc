package session

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/engine"
	"mobilegate/internal/transcript"
)

// join is a connection that has said hello and heard ready.
func (g *stage) join(device, token string) *fakeConn {
	c := g.dial()
	c.Say(fmt.Appendf(nil, `{"t":"hello","token":%q,"device":{"id":%q}}`, token, device))
	require.NoError(g.t, g.Settle())
	h, ok := c.Hear()
	require.True(g.t, ok)
	require.True(g.t, strings.HasPrefix(string(h.Frame), `{"t":"ready"`), h.String())
	return c
}

func (c *fakeConn) text(id, text string) {
	c.Say(fmt.Appendf(nil, `{"t":"text","id":%q,"text":%q}`, id, text))
}

// replies are the texts of all messages that were heard.
func (c *fakeConn) replies() (texts []string) {
	for _, f := range c.texts() {
		if _, text, ok := strings.Cut(f, `"text":"`); ok && strings.HasPrefix(f, `{"t":"message"`) {
			text, _, _ = strings.Cut(text, `"`)
			texts = append(texts, text)
		}
	}
	return texts
}

// hold makes the test the worker of a session, so that everything waits in its inbox until release.
func hold(t *testing.T, s *Session) (release func()) {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	require.False(t, s.inbox.busy)
	s.inbox.busy = true
	return func() { s.run(elsewhere) }
}

func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// TestInboxIsBounded: what waits beyond the agreed burst closes the connection (spec 10).
func TestInboxIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ frames, size int }{
		"by count": {maxInboxFrames, 2},
		"by bytes": {3, 16 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newStage(t, nil)
				conn := g.join("tel-1", "secret")
				s := g.hub.find("tel-1")
				release := hold(t, s)
				frame := func() *engine.Buffer { return &engine.Buffer{B: append(make([]byte, 0, c.size), "{}"...)} }
				for range c.frames {
					s.Message(conn, frame())
				}
				require.Empty(t, conn.texts())
				s.Message(conn, frame())
				require.Equal(t, []string{"close 1013 overloaded"}, conn.texts())
				release()
				g.close()
				require.Zero(t, s.inbox.count)
				require.Zero(t, s.inbox.bytes)
			})
		})
	}
}

// TestOfflineDevicesAreBounded: the device that left first is forgotten first.
func TestOfflineDevicesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, []string{"offline=3"})
		for i := range 5 {
			c := g.join(fmt.Sprint("tel-", i), "secret")
			c.text("1", "hi")
			c.Do(transcript.Leave)
			require.NoError(t, g.Settle())
		}
		require.EqualValues(t, 3, g.hub.Stats().Devices)
		require.EqualValues(t, 0, g.hub.Stats().Online)
		for i, known := range []bool{false, false, true, true, true} {
			require.Equal(t, known, g.hub.find(fmt.Sprint("tel-", i)) != nil, i)
		}
		// Coming back makes a device young again.
		g.join("tel-2", "secret").Do(transcript.Leave)
		g.join("tel-9", "secret").text("1", "hi")
		g.conns[len(g.conns)-1].Do(transcript.Leave)
		require.NoError(t, g.Settle())
		require.Nil(t, g.hub.find("tel-3"))
		require.NotNil(t, g.hub.find("tel-2"))
		g.close()
	})
}

// TestIdleDeviceKeepsNothing: a device that has said nothing but hello costs no memory beyond its session, and a device that
// has talked costs no more than that once its past is over.
func TestIdleDeviceKeepsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		c := g.join("tel-1", "secret")
		idle := func() {
			s := g.hub.find("tel-1")
			require.Nil(t, s.out)
			require.Nil(t, s.work)
			require.Nil(t, s.recent)
			require.Nil(t, s.work)
			require.Nil(t, s.inbox.last)
			require.Zero(t, s.pause)
			require.Zero(t, g.hub.wheel.Len(), "a timer that looks for nothing")
		}
		idle()
		c.text("1", "hi")
		c.Say([]byte(`{"t":"text"}`))
		require.NoError(t, g.Settle())
		require.NoError(t, g.Advance(15*time.Minute))
		idle()
		g.close()
	})
}

// TestTakeOverWhileFramesWait: what the old connection sent before is heard, what it sends later is not.
func TestTakeOverWhileFramesWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		old, next := g.join("tel-1", "secret"), g.dial()
		s := g.hub.find("tel-1")
		release := hold(t, s)
		old.text("1", "before")
		next.Say([]byte(`{"t":"hello","token":"secret","device":{"id":"tel-1"}}`))
		next.text("2", "held") // until the hello is decided
		s.Message(old, messageBuffer([]byte(`{"t":"text","id":"3","text":"too late"}`)))
		s.Drained(old)
		s.Closed(old, engine.ErrLost)
		release()
		require.NoError(t, g.Settle())
		all := old.texts()
		require.Equal(t, "close 4001 replaced", all[len(all)-1])
		require.Contains(t, strings.Join(all, ""), `"text":"before"`)
		require.Equal(t, []string{"held"}, next.replies())
		require.EqualValues(t, 1, g.hub.Stats().Online)
		g.close()
	})
}

// TestPanicInOneSession ends one connection and nothing else.
func TestPanicInOneSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		c, other := g.join("tel-1", "secret"), g.join("tel-2", "secret")
		c.mu.Lock()
		c.panics = true // the next look at Pending
		c.mu.Unlock()
		c.text("1", "hi")
		require.NoError(t, g.Settle())
		require.EqualValues(t, 1, g.hub.Stats().Panics)
		all := c.texts()
		require.Contains(t, all[len(all)-1], "close 1013")
		other.text("1", "hi")
		require.NoError(t, g.Settle())
		require.Equal(t, []string{"hi"}, other.replies())
	})
}

// TestDrain: running turns may end, no new one begins, then everybody is told to come back later.
func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		c := g.join("tel-1", "secret")
		c.text("1", "/hold")
		require.NoError(t, g.Settle())
		done := make(chan struct{})
		go func() {
			g.hub.Drain(t.Context())
			close(done)
		}()
		require.NoError(t, g.Settle())
		late := g.dial()
		late.Say([]byte(`{"t":"hello","token":"secret","device":{"id":"tel-2"}}`))
		require.Equal(t, []string{"close 1001 going away"}, late.texts())
		c.text("2", "never asked")
		require.NoError(t, g.Settle())
		g.tell(t, "tel-1", "replies", "the last")
		<-done
		require.NoError(t, g.Settle())
		all := c.texts()
		require.Contains(t, strings.Join(all, ""), `"text":"the last"`)
		require.NotContains(t, strings.Join(all, ""), "never asked")
		require.Equal(t, "close 1001 going away", all[len(all)-1])
	})
}
