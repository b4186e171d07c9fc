package session

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/internal/transcript"
)

// outcomes are the answers to deliveries that were heard.
func (c *fakeConn) outcomes() (words []string) {
	for _, f := range c.texts() {
		switch {
		case strings.HasPrefix(f, `{"t":"delivered"`):
			words = append(words, "delivered")
		case strings.Contains(f, `"device_offline"`):
			words = append(words, "offline")
		default:
			words = append(words, f)
		}
	}
	return words
}

// TestDeliveryMeetsTheEnd: a delivery that comes while its target goes away, is forgotten, comes back or changes hands is
// answered once all the same.
func TestDeliveryMeetsTheEnd(t *testing.T) {
	ends := map[string]func(g *stage, c *fakeConn) func(){
		"leaves":        func(_ *stage, c *fakeConn) func() { return func() { c.Do(transcript.Leave) } },
		"is taken over": func(g *stage, _ *fakeConn) func() { return g.helloOf("secret") },
		"changes hands": func(g *stage, c *fakeConn) func() {
			h := g.helloOf("other")
			return func() { c.Do(transcript.Break); h() }
		},
		"is forgotten": func(g *stage, c *fakeConn) func() { return func() { c.Do(transcript.Break); g.hub.Tick(g.now()) } },
		"is said good-bye": func(g *stage, _ *fakeConn) func() {
			return func() { g.hub.find("tel-1").post(newEvent(evShutdown), elsewhere) }
		},
	}
	seen := map[string]int{}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			for round := range 60 {
				bubble(t, func(t *testing.T) { deliverMeanwhile(t, name, end, round, seen) })
			}
		})
	}
	require.Positive(t, min(seen["delivered"], seen["offline"]), seen)
}

func deliverMeanwhile(t *testing.T, name string, end func(*stage, *fakeConn) func(), round int, seen map[string]int) {
	g := newStage(t, nil)
	g.hub.cfg.QuotaOff = round%2 == 0 // else something is remembered of the device
	job, target := g.join("job", "cron"), g.join("tel-1", "secret")
	if round%3 == 0 {
		target.setPending(softPending + 1) // then the delivery waits
	}
	finish := end(g, target)
	var all sync.WaitGroup
	all.Go(finish)
	for i := range 4 {
		all.Go(func() {
			for range round % 20 * i {
				runtime.Gosched()
			}
			job.Say(fmt.Appendf(nil, `{"t":"deliver","id":"%d","target":"tel-1","text":"hi %d","media":{"kind":"image","data":"%s"}}`, i, i, base64Of(1000)))
		})
	}
	all.Wait()
	require.NoError(t, g.Settle())
	words := job.outcomes()
	require.Len(t, words, 4)
	heard := 0
	for _, c := range g.conns {
		if c != job {
			heard += len(c.replies())
		}
	}
	delivered := strings.Count(strings.Join(words, " "), "delivered")
	seen["delivered"] += delivered
	offline := strings.Count(strings.Join(words, " "), "offline")
	seen["offline"] += offline
	require.Equal(t, 4, delivered+offline, words)
	if name == "is taken over" { // elsewhere a link may have ended that was handed the frames
		require.Equal(t, 4, heard)
		require.Equal(t, 4, delivered)
	}
	require.Zero(t, g.hub.budget.Used())
	g.close()
}

// helloOf dials, and returns what says hello for tel-1.
func (g *stage) helloOf(token string) func() {
	c := g.dial()
	return func() { c.Say(fmt.Appendf(nil, `{"t":"hello","token":%q,"device":{"id":"tel-1"}}`, token)) }
}

// TestDeliveriesThatWaitAreBounded: for a device that takes nothing no more than so many deliveries wait, and who sends more is
// told when to try again; those that wait come in their order.
func TestDeliveriesThatWaitAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		g.hub.cfg.QuotaOff = true
		job, target := g.join("job", "cron"), g.join("tel-1", "secret")
		target.setPending(softPending + 1)
		const more = 10
		for i := range 2*maxDeliveries + more {
			job.Say(fmt.Appendf(nil, `{"t":"deliver","id":"%d","target":"tel-1","text":"%d"}`, i, i))
			require.NoError(t, g.Settle())
		}
		refused := job.texts()
		require.Len(t, refused, more)
		for _, f := range refused {
			require.Contains(t, f, `"rate_limited"`)
			require.Contains(t, f, `"retry_after_ms":2000`)
		}
		target.setPending(0)
		target.peer.Drained(target)
		require.NoError(t, g.Settle())
		var want []string
		for i := range 2 * maxDeliveries {
			want = append(want, fmt.Sprint(i))
		}
		require.Equal(t, want, target.replies())
		require.Len(t, job.outcomes(), 2*maxDeliveries)
		job.Say([]byte(`{"t":"deliver","id":"200","target":"tel-1","text":"a refused one may be sent again"}`))
		job.Say(fmt.Appendf(nil, `{"t":"deliver","id":"%d","target":"tel-1","text":"again"}`, 2*maxDeliveries))
		require.NoError(t, g.Settle())
		require.Len(t, target.replies(), 2)
		g.close()
	})
}

// TestDeliveryToADeviceThatIsClosed: a target that never reads on is dropped, and what waited for it was not delivered.
func TestDeliveryToADeviceThatIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		job, target := g.join("job", "cron"), g.join("tel-1", "secret")
		target.text("1", "/hold")
		require.NoError(t, g.Settle())
		target.setPending(softPending + 1)
		for i := range 3 {
			job.Say(fmt.Appendf(nil, `{"t":"deliver","id":"%d","target":"tel-1","media":{"kind":"image","data":"%s"}}`, i, base64Of(100_000)))
		}
		require.NoError(t, g.Settle())
		require.Empty(t, job.texts())
		require.NotZero(t, g.hub.budget.Used())
		target.end(g.hub.farewells.slowConsumer, nil)
		require.NoError(t, g.Settle())
		require.Equal(t, []string{"offline", "offline", "offline"}, job.outcomes())
		require.Zero(t, g.hub.budget.Used())
		require.NoError(t, g.Advance(time.Minute))
		g.close()
	})
}
