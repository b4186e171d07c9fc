package hermes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/hermes/hermestest"
)

func TestStop(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			play(t, hermestest.Config{Features: features, Rules: rule(step("delta", "one "), step("wait", ""))}, Config{}, func(s *stage) {
				ctx, stop := context.WithCancelCause(s.Context())
				h, done := s.begin(ctx, turn("m-1", "count"))
				synctest.Wait()
				time.Sleep(time.Minute)
				start := time.Now()
				stop(agent.ErrStopped)
				<-done
				require.ErrorIs(s, h.err, agent.ErrStopped)
				require.Less(s, time.Since(start), time.Second)
				require.Equal(s, 1, s.hermes.Runs()[0].Stops)
				synctest.Wait()
				require.Equal(s, "cancelled", s.hermes.Runs()[0].Status)
			})
		})
	}
}

// TestRunWithoutAnEnd: what Hermes works on for ever does not keep its place for ever.
func TestRunWithoutAnEnd(t *testing.T) {
	play(t, hermestest.Config{Rules: rule(step("delta", "soon"), step("wait", ""))}, Config{}, func(s *stage) {
		start := time.Now()
		require.Contains(s, s.ask(turn("m-1", "go")).tell(s.T), "was stopped")
		require.Equal(s, longest, time.Since(start))
		require.Equal(s, 1, s.hermes.Runs()[0].Stops)
	})
}

// TestStopComesFirst: the run is stopped although its id was not known yet, and the turn does not wait for that.
func TestStopComesFirst(t *testing.T) {
	play(t, hermestest.Config{Rules: rule(step("wait", "")), Faults: []hermestest.Fault{{Route: "POST /v1/runs", Delay: 5 * time.Second}}}, Config{}, func(s *stage) {
		ctx, stop := context.WithCancelCause(s.Context())
		h, done := s.begin(ctx, turn("m-1", "count"))
		time.Sleep(time.Second)
		start := time.Now()
		stop(agent.ErrStopped)
		<-done
		require.ErrorIs(s, h.err, agent.ErrStopped)
		require.Zero(s, time.Since(start))
		require.Empty(s, s.hermes.Runs())
		s.agent.Close() // waits for it
		require.Equal(s, 1, s.hermes.Runs()[0].Stops)
		require.Less(s, time.Since(start), 10*time.Second)
	})
}

func TestStopWhileItWaitsForAPlace(t *testing.T) {
	play(t, hermestest.Config{Faults: []hermestest.Fault{{Route: "POST /v1/runs", Status: 429, Times: -1}}}, Config{}, func(s *stage) {
		ctx, stop := context.WithCancelCause(s.Context())
		_, done := s.begin(ctx, turn("m-1", "count"))
		time.Sleep(time.Minute)
		start := time.Now()
		stop(agent.ErrStopped)
		<-done
		s.agent.Close()
		require.Zero(s, time.Since(start))
		require.Empty(s, s.hermes.Runs())
	})
}

func TestTooManyWaitToBeStopped(t *testing.T) {
	a, err := New(Config{})
	require.NoError(t, err)
	block := make(chan struct{})
	for range maxLater {
		require.True(t, a.later(func() { <-block }))
	}
	require.False(t, a.later(func() {}))
	close(block)
	a.Close()
	require.False(t, a.later(func() {}), "it is closed")
}

// TestGatewayEnds: then the run goes on, and the application finds its answer when it sends the message again.
func TestGatewayEnds(t *testing.T) {
	play(t, hermestest.Config{Features: hermestest.B, Rules: rule(step("delta", "one "), hermestest.Step{Do: "wait", For: time.Minute}, step("delta", "two"))}, Config{}, func(s *stage) {
		ctx, stop := context.WithCancelCause(s.Context())
		h, done := s.begin(ctx, turn("m-1", "count"))
		time.Sleep(time.Second)
		down := errors.New("the gateway stops")
		stop(down)
		<-done
		require.Equal(s, down, h.err)
		require.Zero(s, s.count("POST /v1/runs/{id}/stop"))
		time.Sleep(2 * time.Minute)
		s.says("m-1", "count", "one two")
		require.Len(s, s.hermes.Runs(), 1)
	})
}
