package session

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/codec"
	"mobilegate/engine"
	"mobilegate/internal/transcript"
)

// TestTurnSlotOutlivesItsOwner: a turn that waited for a slot and was let go of takes none with it.
func TestTurnSlotOutlivesItsOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, []string{"slots=1"})
		busy := g.join("tel-2", "secret")
		busy.text("1", "/hold")
		old := g.join("tel-1", "secret")
		old.text("1", "/hold")
		require.NoError(t, g.Settle())
		old.Do(transcript.Break)
		require.NoError(t, g.Settle())
		g.join("tel-1", "other").Do(transcript.Break) // takes the device, and ends it
		require.NoError(t, g.Settle())
		require.Nil(t, g.hub.find("tel-1"))
		g.tell(t, "tel-2", "ends", "")
		require.NoError(t, g.Settle())
		require.Zero(t, g.hub.slots.running)
		require.Equal(t, 1, g.hub.slots.free)
		busy.texts()
		busy.text("2", "/hold")
		require.NoError(t, g.Settle())
		g.tell(t, "tel-2", "replies", "served")
		require.NoError(t, g.Settle())
		require.Equal(t, []string{"served"}, busy.replies())
		g.close()
	})
}

// TestTurnSlotsAreFair: never do more turns run than there are slots, and nobody is passed over.
func TestTurnSlotsAreFair(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		var now, most atomic.Int32
		release := make(chan struct{})
		g := newStageFor(t, askFunc(func(_ context.Context, turn *agent.Turn, _ func(agent.Event)) (string, error) {
			most.Store(max(most.Load(), now.Add(1)))
			mu.Lock()
			order = append(order, turn.Device)
			mu.Unlock()
			<-release
			now.Add(-1)
			return "", nil
		}), "slots=3")
		var want []string
		for i := range 20 {
			name := fmt.Sprint("tel-", i)
			g.join(name, "secret").text("1", "hi")
			want = append(want, name)
			require.NoError(t, g.Settle())
		}
		for range 20 {
			release <- struct{}{}
			require.NoError(t, g.Settle())
		}
		require.Equal(t, want, order)
		require.EqualValues(t, 3, most.Load())
		g.close()
	})
}

type askFunc func(ctx context.Context, t *agent.Turn, emit func(agent.Event)) (string, error)

func (f askFunc) Ask(ctx context.Context, t *agent.Turn, emit func(agent.Event)) (string, error) {
	return f(ctx, t, emit)
}

// TestAgentWaitsForItsDevice: while the device takes nothing, emit blocks, and goes on when it does; nothing is lost and
// nothing changes its place.
func TestAgentWaitsForItsDevice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var emitted atomic.Int32
		var want []string
		for i := range 60 {
			want = append(want, fmt.Sprint("part ", i))
		}
		g := newStageFor(t, askFunc(func(_ context.Context, _ *agent.Turn, emit func(agent.Event)) (string, error) {
			for _, text := range want[:59] {
				emit(agent.Event{Text: text})
				emitted.Add(1)
			}
			return want[59], nil
		}))
		c := g.join("tel-1", "secret")
		c.setPending(softPending + 1)
		c.text("1", "talk")
		require.NoError(t, g.Settle())
		require.EqualValues(t, maxEmitted, emitted.Load())
		require.Empty(t, c.replies())
		require.NoError(t, g.Advance(time.Minute))
		require.EqualValues(t, maxEmitted, emitted.Load())
		c.setPending(0)
		c.peer.Drained(c)
		require.NoError(t, g.Settle())
		require.Equal(t, want, c.replies())
		g.close()
	})
}

// TestAgentDoesNotWaitForNobody: a device that goes away holds its turn up no longer.
func TestAgentDoesNotWaitForNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		done := make(chan struct{})
		g := newStageFor(t, askFunc(func(_ context.Context, _ *agent.Turn, emit func(agent.Event)) (string, error) {
			for range 60 {
				emit(agent.Event{Text: "x"})
			}
			close(done)
			return "", nil
		}))
		c := g.join("tel-1", "secret")
		c.setPending(softPending + 1)
		c.text("1", "talk")
		require.NoError(t, g.Settle())
		c.Do(transcript.Break)
		require.NoError(t, g.Settle())
		<-done
		g.close()
	})
}

// TestNewOwnerStopsABlockedAgent: an agent that waits for room is let go when its device changes hands.
func TestNewOwnerStopsABlockedAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		stopped := make(chan error, 1)
		g := newStageFor(t, askFunc(func(ctx context.Context, turn *agent.Turn, emit func(agent.Event)) (string, error) {
			if turn.Text != "talk" {
				return "", nil
			}
			for ctx.Err() == nil {
				emit(agent.Event{Text: "x"})
			}
			stopped <- ctx.Err()
			return "late", ctx.Err()
		}))
		c := g.join("tel-1", "secret")
		c.setPending(softPending + 1)
		c.text("1", "talk")
		require.NoError(t, g.Settle())
		require.NoError(t, g.Advance(61*time.Second))
		c.asleep = true
		next := g.dial()
		next.Say([]byte(`{"t":"hello","token":"other","device":{"id":"tel-1"}}`))
		require.NoError(t, g.Advance(4*time.Second))
		require.ErrorIs(t, <-stopped, context.Canceled)
		require.NoError(t, g.Settle())
		require.Len(t, next.texts(), 1) // ready
		next.text("1", "hi")
		require.NoError(t, g.Settle())
		require.NotEmpty(t, next.texts())
		g.close()
	})
}

// TestOneRunOneWrite: what is said in answer to one text leaves in one write.
func TestOneRunOneWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		c := g.join("tel-1", "secret")
		before := c.sends
		c.text("1", "hi")
		require.NoError(t, g.Settle())
		require.Len(t, c.texts(), 5)
		require.Equal(t, 1, c.sends-before)
		g.close()
	})
}

// TestInstantReplyIsKeptWhenItMustWait: an instant reply borrows from its frame, but not beyond the frame's life. The buffer
// of each frame is overwritten as soon as its owner gives it back.
func TestInstantReplyIsKeptWhenItMustWait(t *testing.T) {
	for size := 3180; size < 3300; size++ { // some of them fill a write but for a few bytes
		bubble(t, func(t *testing.T) {
			g := newStage(t, nil)
			c := g.join("tel-1", "secret")
			c.countPending(200 << 10)
			s := g.hub.find("tel-1")
			release := hold(t, s)
			var want []string
			var frames [][]byte
			for i := range 25 {
				text := strings.Repeat(string(rune('a'+i)), size)
				want = append(want, text)
				b := messageBuffer(fmt.Appendf(nil, `{"t":"text","id":"%d","text":%q}`, i, text))
				frames = append(frames, b.B)
				s.Message(c, b)
			}
			release()
			require.NoError(t, g.Settle())
			for _, f := range frames {
				for i := range f {
					f[i] = '#'
				}
			}
			for range 10 {
				c.countPending(0)
				s.Drained(c)
				require.NoError(t, g.Settle())
			}
			require.True(t, slices.Equal(want, c.replies()), "texts of %d characters", size)
			g.close()
		})
	}
}

// quietConn takes everything and keeps nothing.
type quietConn struct{ peer engine.Peer }

func (c *quietConn) Admit(p engine.Peer) bool            { c.peer = p; return true }
func (c *quietConn) Send(b *engine.Buffer)               { engine.PutBuffer(b) }
func (*quietConn) Local() bool                           { return false }
func (*quietConn) Origin() netip.Addr                    { return netip.Addr{} }
func (c *quietConn) SendPart(b *engine.Buffer)           { c.Send(b) }
func (c *quietConn) Close(*engine.Farewell)              {}
func (c *quietConn) Pending() int                        { return 0 }
func (c *quietConn) Silence(now time.Time) time.Duration { return 0 }
func (c *quietConn) Probe()                              {}

// TestTurnAllocates holds one turn with the echo agent against the price it has.
func TestTurnAllocates(t *testing.T) {
	if instrumented {
		t.Skip("this build allocates on its own")
	}
	h := newTestHub(t, nil, agent.Echo{}, newClock().now)
	defer h.Close()
	h.cfg.QuotaOff = true
	c := new(quietConn)
	h.Hello(c, messageBuffer([]byte(`{"t":"hello","token":"secret","device":{"id":"tel-1"}}`)))
	s := h.find("tel-1")
	const own = 2 // the buffer of a frame: the engine has a pool for these
	n, template := 100_000_000, []byte(`{"t":"text","id":"100000000","text":"hello there, how are you?"}`)
	turn := func() {
		b := messageBuffer(template)
		n++
		strconv.AppendInt(b.B[:bytes.Index(b.B, []byte("1"))], int64(n), 10)
		s.Message(c, b)
	}
	for range 2 * codec.MaxDedupIDs {
		turn() // pools and the window are warm
	}
	require.Nil(t, s.work)
	perTurn := testing.AllocsPerRun(2000, turn)
	require.LessOrEqual(t, perTurn, own+1.0, "the name of the message is one")
}
