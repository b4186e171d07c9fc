package session

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/internal/transcript"
)

// stage is the lowest height: a Hub in a bubble of its own, with connections that stand in for the engine.
type stage struct {
	*clock
	t     *testing.T
	hub   *Hub
	agent *script
	conns []*fakeConn
}

var _ transcript.Gateway = (*stage)(nil)

// newStage needs a bubble of synctest.
func newStage(t *testing.T, with []string) *stage {
	agent := newScript()
	g := newStageFor(t, agent, with...)
	g.agent = agent
	t.Cleanup(g.agent.finish)
	return g
}

// newStageFor is a stage with an agent of the test's own.
func newStageFor(t *testing.T, a agent.Agent, with ...string) *stage {
	g := &stage{clock: newClock(), t: t}
	g.hub = newTestHub(t, with, a, g.now)
	t.Cleanup(g.hub.Close)
	return g
}

func (g *stage) Dial(from string) (transcript.Link, error) {
	c := g.dial()
	if from == "" {
		return c, nil
	}
	var err error
	c.from, err = netip.ParseAddr(from)
	return c, err
}

func (g *stage) dial() *fakeConn {
	c := &fakeConn{stage: g, opened: g.now(), life: g.now()}
	g.conns = append(g.conns, c)
	return c
}

// Settle lets everything happen that is going to happen now.
func (g *stage) Settle() error {
	for moved := true; moved; {
		synctest.Wait()
		moved = false
		for _, c := range g.conns {
			moved = c.deliverHeld() || moved
		}
	}
	return nil
}

func (g *stage) Advance(d time.Duration) error {
	return g.pass(d, g.hub, func(now time.Time) {
		g.hub.Tick(now)
		for _, c := range g.conns {
			c.expire(now)
		}
	}, g.Settle)
}

func (g *stage) Act(device string, act transcript.Act) ([]byte, error) {
	if g.agent == nil {
		return nil, nil
	}
	return g.agent.act(device, act)
}

// tell lets the agent of the transcripts do something.
func (g *stage) tell(t *testing.T, device, verb, text string) {
	t.Helper()
	_, err := g.Act(device, transcript.Act{Verb: verb, Text: text})
	require.NoError(t, err)
	require.NoError(t, g.Settle())
}

// close ends all connections and sees to it that nothing is left behind.
func (g *stage) close() {
	for _, c := range g.conns {
		c.Do(transcript.Leave)
	}
	require.NoError(g.t, g.Settle())
	if g.agent != nil {
		g.agent.finish()
	}
	require.NoError(g.t, g.Settle())
	require.NoError(g.t, g.Advance(20*time.Minute))
	require.Zero(g.t, g.hub.Stats().Devices, "sessions that nothing ends")
	require.Zero(g.t, g.hub.Stats().Online)
	require.Zero(g.t, g.hub.wheel.Len())
	requireNothingHeld(g.t, g.hub)
}

// requireNothingHeld: when all is over, what was taken was given back.
func requireNothingHeld(t *testing.T, h *Hub) {
	t.Helper()
	require.Zero(t, h.budget.Used(), "bytes of files that nobody has any more")
	require.Zero(t, h.uploads.Used(), "bytes of uploads that nobody has any more")
	require.Zero(t, h.texts.Used(), "bytes of messages that wait no more")
	require.Zero(t, h.inboxes.Load(), "bytes that wait in no inbox")
	require.Zero(t, h.slots.running)
	require.Equal(t, h.cfg.MaxTurns, h.slots.free)
	require.Empty(t, h.slots.line)
	require.Nil(t, h.cards.of, "cards that nobody can answer any more")
	h.addresses.mu.Lock()
	defer h.addresses.mu.Unlock()
	for addr, sh := range h.addresses.of {
		require.Zero(t, sh.users, addr)
	}
}
