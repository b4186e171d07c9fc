package session

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
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
				if slices.Contains(c.With, "megabytes") && (style != wholeMessages || instrumented) || slices.Contains(c.With, "file") && style != wholeMessages {
					continue
				}
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
//	home=D    the device for deliveries that name none
//	remote    being on this host is no right to deliver
//	files=N   bytes of files, for all devices
//	hellos=N  that may fail in a minute, of one address
//	file      a large file goes to a device: over sockets the case is played in whole messages alone
//	megabytes a device sends megabytes: so too, and not in builds that are slow
//	script    the agent has to be that of these tests, though nobody tells it what to do
//	one-second all of it happens within one second, which cannot be told from outside
//
// and device-, token- and address-frames=R/B and -bytes=R/B, the quotas of a device, a token and an address: R in a second,
// B at once.
func newTestHub(t *testing.T, with []string, a agent.Agent, now func() time.Time) *Hub {
	cfg := Config{
		Agent: a, Now: now, Workers: 2, Log: slog.New(slog.DiscardHandler), AvatarURL: "https://example.org/a.glb",
		Access: Access{Tokens: []Token{{Secret: "secret", Name: "first"}, {Secret: "other", Name: "second"}, {Secret: "bound", Device: "tel-bound"}, {Secret: "cron", Deliver: true}}},
	}
	quota := DefaultQuota
	cfg.Quota = &quota
	for _, word := range with {
		key, value, _ := strings.Cut(word, "=")
		if setRate(&quota, key, value) {
			continue
		}
		n, err := strconv.Atoi(value)
		switch key {
		case "only":
			cfg.Access.Devices, err = strings.Split(value, ","), nil
		case "slots":
			cfg.MaxTurns = n
		case "offline":
			cfg.MaxOffline = n
		case "home":
			cfg.HomeDevice, err = value, nil
		case "remote":
			cfg.RemoteOnly, err = true, nil
		case "files":
			cfg.MaxFiles = int64(n)
		case "hellos":
			quota.FailedHellosAMinute = n
		case "megabytes", "file", "script", "one-second":
			err = nil
		default:
			t.Fatalf("with %s: unknown", word)
		}
		require.NoError(t, err)
	}
	h, err := New(cfg)
	require.NoError(t, err)
	return h
}

func setRate(q *Quota, key, value string) bool {
	who, what, _ := strings.Cut(key, "-")
	rate := map[string]*Rate{"device": &q.Device, "token": &q.Token, "address": &q.Address}[who]
	var perSecond, burst int
	if _, err := fmt.Sscanf(value, "%d/%d", &perSecond, &burst); err != nil || rate == nil {
		return false
	}
	switch what {
	case "frames":
		rate.FramesASecond, rate.BurstFrames = perSecond, burst
	case "bytes":
		rate.BytesASecond, rate.BurstBytes = perSecond, burst
	default:
		return false
	}
	return true
}
