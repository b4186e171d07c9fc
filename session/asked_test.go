package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/internal/transcript"
)

// TestAskedForWhom: the agent is told whose turn it is, and by which name its user goes on this connection.
func TestAskedForWhom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var asked []string
		g := newStageFor(t, askFunc(func(_ context.Context, turn *agent.Turn, _ func(agent.Event)) (string, error) {
			asked = append(asked, fmt.Sprintf("%s %s %q", turn.Device, turn.Entry, turn.User))
			return "", nil
		}))
		say := func(token, user string) {
			c := g.dial()
			c.Say(fmt.Appendf(nil, `{"t":"hello","token":%q,"device":{"id":"tel-1"}%s}`, token, user))
			c.text("m-"+token+user, "hi")
			require.NoError(t, g.Settle())
			c.Do(transcript.Leave)
			require.NoError(t, g.Settle())
		}
		say("secret", "")
		say("secret", `,"user":{"id":"u-1","name":"Ann\nof"}`)
		say("secret", `,"user":{"id":"u-2"}`)
		say("secret", `,"user":{}`)
		say("other", `,"user":{"name":"`+strings.Repeat("x", 200)+`"}`)
		require.Equal(t, []string{`tel-1 first ""`, `tel-1 first "Annof"`, `tel-1 first "u-2"`, `tel-1 first ""`,
			`tel-1 second "` + strings.Repeat("x", 120) + `"`}, asked)
		g.close()
	})
}

// stubborn is an agent whose turns end only when they are stopped, and tells of what.
type stubborn struct{ causes chan error }

func (a *stubborn) Ask(ctx context.Context, _ *agent.Turn, _ func(agent.Event)) (string, error) {
	<-ctx.Done()
	a.causes <- context.Cause(ctx)
	return "last words", ctx.Err()
}

func (a *stubborn) Stops(text string) bool { return text == "/stop" }

// TestStopHasACause: an agent can tell its user's word from every other end of a turn.
func TestStopHasACause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &stubborn{causes: make(chan error, 4)}
		g := newStageFor(t, a)
		c := g.join("tel-1", "secret")
		c.text("1", "hi")
		c.text("2", "/stop") // which this agent does not answer at once: it waits as well
		require.NoError(t, g.Settle())
		require.ErrorIs(t, <-a.causes, agent.ErrStopped)
		for _, frame := range c.texts() {
			require.NotContains(t, frame, `"error"`)
		}
		c.text("3", "/stop")
		require.NoError(t, g.Settle())
		require.ErrorIs(t, <-a.causes, agent.ErrStopped, "a command that takes its time is stopped by the next")
		g.join("tel-1", "secret").Do(transcript.Leave)
		require.NoError(t, g.Settle())
		g.join("tel-1", "other").Do(transcript.Leave) // another owner
		require.NoError(t, g.Settle())
		cause := <-a.causes
		require.True(t, errors.Is(cause, context.Canceled) && !errors.Is(cause, agent.ErrStopped))
		g.close()
	})
}

// TestStopWhereNoMoreMayWait: the command ends the running turn even if it finds no place among those that wait.
func TestStopWhereNoMoreMayWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &stubborn{causes: make(chan error, maxWaiting+2)}
		g := newStageFor(t, a, "device-frames=9000/9000", "token-frames=9000/9000")
		c := g.join("tel-1", "secret")
		for i := range maxWaiting + 1 {
			c.text(fmt.Sprint(i), "hi")
			if i%1000 == 0 {
				require.NoError(t, g.Settle())
			}
		}
		require.NoError(t, g.Settle())
		require.Empty(t, a.causes)
		c.text("stop", "/stop")
		require.NoError(t, g.Settle())
		require.ErrorIs(t, <-a.causes, agent.ErrStopped)
		require.Contains(t, strings.Join(c.texts(), "\n"), `"code":"rate_limited"`)
		c.Do(transcript.Leave)
		require.NoError(t, g.Settle())
		g.join("tel-1", "other").Do(transcript.Leave)
		require.NoError(t, g.Settle())
		g.close()
	})
}
