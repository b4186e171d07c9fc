package session

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/internal/transcript"
)

func loadTranscripts(t *testing.T) []transcript.Case {
	cases, err := transcript.Load(os.DirFS("testdata"), "transcripts")
	require.NoError(t, err)
	return cases
}

// TestTranscripts plays the golden texts against a Hub whose connections are no real ones.
func TestTranscripts(t *testing.T) {
	for _, c := range loadTranscripts(t) {
		t.Run(strings.TrimSuffix(c.File, ".txt")+"/"+c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stage := newStage(t, c.With)
				require.NoError(t, c.Play(stage))
				stage.close()
			})
		})
	}
}

// TestTranscriptsOverLoopback plays them against the engine as well, through sockets; whatever pieces the bytes of the
// devices come in, the result is the same.
func TestTranscriptsOverLoopback(t *testing.T) {
	cases := loadTranscripts(t)
	for name, style := range map[string]pieces{"message by message": wholeMessages, "byte by byte": singleBytes, "random pieces": randomPieces, "all at once": corked} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			house := openHouse(t, style)
			for _, c := range cases {
				t.Run(strings.TrimSuffix(c.File, ".txt")+"/"+c.Name, func(t *testing.T) {
					g := house.stage(t, c.With)
					require.NoError(t, c.Play(g))
					g.close()
				})
			}
		})
	}
}

// clock is the driven time.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.ns.Store(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time { return time.Unix(0, c.ns.Load()) }

// pass lets d pass in steps, none of which goes beyond a deadline of the hub. After each tick and settle are called.
func (c *clock) pass(d time.Duration, h *Hub, tick func(now time.Time), settle func() error) error {
	end, still := c.now().Add(d), 0
	for c.now().Before(end) {
		to := c.now().Add(min(end.Sub(c.now()), max(time.Second, d/64)))
		if at, ok := h.wheel.Next(); ok && at.Before(to) {
			to = at
		}
		if still++; to.After(c.now()) {
			still = 0
		} else if to = c.now(); still > 8 {
			return fmt.Errorf("a deadline is due again and again, and time does not pass")
		}
		c.ns.Store(to.UnixNano())
		tick(to)
		if err := settle(); err != nil {
			return err
		}
	}
	return nil
}

// newTestHub makes a Hub that is not started, as the words behind "with" in a transcript say:
//
//	only=D,D  the devices that may connect
//	slots=N   turns at a time, over all devices
//	offline=N devices that something is remembered of
func newTestHub(t *testing.T, with []string, a agent.Agent, now func() time.Time) *Hub {
	cfg := Config{
		Agent: a, Now: now, Workers: 2, Log: slog.New(slog.DiscardHandler), AvatarURL: "https://example.org/a.glb",
		Access: Access{Tokens: []Token{{Secret: "secret"}, {Secret: "other"}, {Secret: "bound", Device: "tel-bound"}, {Secret: "cron", Deliver: true}}},
	}
	for _, word := range with {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(value)
		switch key {
		case "only":
			cfg.Access.Devices, err = strings.Split(value, ","), nil
		case "slots":
			cfg.MaxTurns = n
		case "offline":
			cfg.MaxOffline = n
		default:
			t.Fatalf("with %s: unknown", word)
		}
		require.NoError(t, err)
	}
	h, err := New(cfg)
	require.NoError(t, err)
	return h
}

// script is the agent of the transcripts: the echo agent, but that a text that begins with /hold makes it wait for what the
// transcript tells it to do.
type script struct {
	agent.Echo
	mu   sync.Mutex
	held map[*agent.Turn]chan transcript.Act // turns that wait
	over bool                                // the case is: nobody waits any more
}

func newScript() *script { return &script{held: map[*agent.Turn]chan transcript.Act{}} }

func (s *script) Ask(ctx context.Context, t *agent.Turn, emit func(agent.Event)) (string, error) {
	if !strings.HasPrefix(t.Text, "/hold") {
		return s.Echo.Ask(ctx, t, emit)
	}
	for {
		act, err := s.hold(ctx, t)
		if err != nil {
			return "", err
		}
		switch act.Verb {
		case "streams":
			emit(agent.Event{Kind: agent.Delta, Text: act.Text})
		case "closes":
			emit(agent.Event{Kind: agent.End})
		case "says":
			emit(agent.Event{Kind: agent.Message, Text: act.Text})
		case "replies", "ends":
			return act.Text, nil
		case "fails":
			return "", fmt.Errorf("the secret reason")
		case "panics":
			panic("the secret panic")
		}
	}
}

// hold waits for the next act.
func (s *script) hold(ctx context.Context, t *agent.Turn) (transcript.Act, error) {
	c := make(chan transcript.Act, 1)
	s.mu.Lock()
	if s.over {
		c <- transcript.Act{Verb: "ends"}
	} else {
		s.held[t] = c
	}
	s.mu.Unlock()
	select {
	case act := <-c:
		return act, nil
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.held, t)
		s.mu.Unlock()
		return transcript.Act{}, ctx.Err()
	}
}

// act wakes the turn of the device.
func (s *script) act(device string, act transcript.Act) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, c := range s.held {
		if t.Device == device {
			delete(s.held, t)
			c <- act
			return nil
		}
	}
	return fmt.Errorf("no turn of %s waits for the agent", device)
}

// finish lets all turns end.
func (s *script) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for t, c := range s.held {
		delete(s.held, t)
		c <- transcript.Act{Verb: "ends"}
	}
}

func (s *script) holds(t *agent.Turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[t] != nil
}
