package loadtest

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"mobilegate/codec"
	"mobilegate/engine"
)

func TestMain(m *testing.M) {
	if os.Getenv(ShardVariable) != "" {
		beShard()
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"), // gnet's, from import on
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

// brief is a run that takes half a second: 4 devices, of which each says 25 messages.
func brief(url string) Config {
	return Config{URL: url, Token: "secret", Timeout: 5 * time.Second, Seed: 1, Phase: Phase{Scenario: "chat", Devices: 4, ConnectRate: 1e4, Rate: 400, Duration: 250 * time.Millisecond}}
}

func runBrief(t testing.TB, cfg Config) *Report {
	t.Helper()
	r, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	c := r.Figures.Counts
	require.Equal(t, c[Sent], c[Answered]+c[Lost]+c[Refused]+c[Given]+c[Corrupted]-strays(&c), "every message has one end: %v", c)
	return r
}

// strays are corrupted answers that belong to no message.
func strays(c *[counts]int64) int64 {
	return c[Answered] + c[Lost] + c[Refused] + c[Given] + c[Corrupted] - c[Sent]
}

// half is a place between two characters inside a text, behind its mark.
func half(text string) int { return strings.LastIndexByte(text[:28], ' ') + 1 }

// tail is the last character of a text.
func tail(text string) string {
	_, size := utf8.DecodeLastRuneInString(text)
	return text[len(text)-size:]
}

// What a gateway does wrong in one message of ten, and what must be counted for each. (It is long because it is a table.)
func TestWrongsAreNoticed(t *testing.T) {
	for _, x := range []struct {
		name string
		lie  func(p *party, id, text string)
		want map[int]int64 // for each lie
		exit int
	}{
		{"honest", nil, nil, ExitOK},
		{"lost", func(*party, string, string) {}, map[int]int64{Lost: 1}, ExitWrong},
		{"twice", func(p *party, _, text string) { p.echo(text); p.echo(text) }, map[int]int64{Duplicated: 1}, ExitWrong},
		{"out of order", func(p *party, _, text string) { p.held = func() { p.echo(text) } }, map[int]int64{Reordered: 1}, ExitWrong},
		{"to another device", func(p *party, _, text string) { p.other().echo(text) }, map[int]int64{Misrouted: 1, Lost: 1}, ExitWrong},
		{"to another device too", func(p *party, _, text string) { p.other().echo(text); p.echo(text) }, map[int]int64{Misrouted: 1}, ExitWrong},
		{"a letter changed", func(p *party, _, text string) { p.echo(text[:len(text)-1] + "!") }, map[int]int64{Corrupted: 1}, ExitWrong},
		{"cut short", func(p *party, _, text string) { p.echo(text[:half(text)]) }, map[int]int64{Corrupted: 1}, ExitWrong},
		{"too long", func(p *party, _, text string) { p.echo(text + " ") }, map[int]int64{Corrupted: 1}, ExitWrong},
		{"never finished", func(p *party, _, text string) { p.piece(p.name(), text[:half(text)], 0, 2, false) }, map[int]int64{Lost: 1}, ExitWrong},
		{"in pieces", func(p *party, _, text string) {
			name := p.name()
			p.piece(name, text[:half(text)], 0, 2, false)
			p.piece(name, text[half(text):], 1, 2, true)
		}, nil, ExitOK},
		{"a piece twice", func(p *party, _, text string) {
			name := p.name()
			p.piece(name, text[:half(text)], 0, 2, false)
			p.piece(name, text[:half(text)], 0, 2, false)
			p.piece(name, text[half(text):], 1, 2, true)
		}, map[int]int64{Corrupted: 2}, ExitWrong},
		{"streamed", func(p *party, _, text string) {
			name := p.name()
			p.piece(name, text[:half(text)], 0, 1, false)
			p.frame(codec.AppendMessage(nil, &codec.Message{ID: name, Text: text[:len(text)-len(tail(text))], Total: 1, Edit: true}))
			p.frame(codec.AppendMessage(nil, &codec.Message{ID: name, Text: text, Total: 1, Edit: true, Final: true}))
		}, nil, ExitOK},
		{"text of its own", func(p *party, _, text string) { p.echo("Hello, how can I help?") }, map[int]int64{Corrupted: 1, Lost: 1}, ExitWrong},
		{"no JSON", func(p *party, _, text string) { p.frame([]byte(`{"t":"message"`)); p.echo(text) }, map[int]int64{Malformed: 1}, ExitWrong},
		{"a second ready", func(p *party, _, text string) {
			p.frame(codec.AppendReady(nil, &codec.Ready{DeviceID: p.id}))
			p.echo(text)
		}, map[int]int64{Malformed: 1}, ExitWrong},
		{"an unknown frame", func(p *party, _, text string) { p.frame([]byte(`{"t":"news","x":[]}`)); p.echo(text) }, nil, ExitOK},
		{"an error", func(p *party, id, _ string) {
			p.frame(codec.AppendError(nil, &codec.ErrorFrame{Code: codec.RateLimited, Message: "slow down", ID: id}))
		}, map[int]int64{Refused: 1}, ExitOK},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			l := &liar{lie: x.lie}
			cfg := brief(startLiar(t, l))
			if x.want[Lost] > 0 || x.want[Reordered] > 0 {
				cfg.Timeout = time.Second
			}
			r := runBrief(t, cfg)
			heard, lies := l.count()
			require.Equal(t, int64(100), heard)
			got := map[int]int64{}
			for _, i := range []int{Lost, Late, Refused, Given, Unsent, Duplicated, Reordered, Misrouted, Corrupted, Malformed, Dropped, Failed} {
				if n := r.Figures.Counts[i]; n != 0 {
					got[i] = n
				}
			}
			want := map[int]int64{}
			for i, n := range x.want {
				want[i] = n * lies
			}
			if x.name == "out of order" { // what is held in a device's last message has nothing to come behind: it is lost
				require.GreaterOrEqual(t, got[Reordered], lies/2)
				want[Reordered] = got[Reordered]
				if lost := lies - got[Reordered]; lost > 0 {
					want[Lost] = lost
				}
			}
			require.Equal(t, want, got)
			if r.Generator.Saturated == "" || x.exit == ExitWrong {
				require.Equal(t, x.exit, r.Exit())
			}
		})
	}
}

// A ready that is about another device is noticed.
func TestWrongSession(t *testing.T) {
	l := &liar{greet: func(string) string { return "load-1" }}
	r := runBrief(t, brief(startLiar(t, l)))
	require.Equal(t, int64(3), r.Figures.Counts[Misrouted])
	require.Equal(t, ExitWrong, r.Exit())
}

// A gateway that closes connections is told of, and its unanswered messages are lost.
func TestDropped(t *testing.T) {
	l := &liar{}
	l.lie = func(p *party, _, _ string) {
		p.c.Close(engine.NewFarewell(nil, 1013, "overl\x1boaded"))
	}
	r := runBrief(t, brief(startLiar(t, l)))
	_, lies := l.count()
	require.Equal(t, min(lies, 4), r.Figures.Counts[Dropped])
	require.Positive(t, r.Figures.Counts[Lost])
	require.Equal(t, r.Figures.Counts[Dropped], r.Figures.Notes[`closed with 1013 overl\x1boaded`])
	require.Equal(t, ExitWrong, r.Exit())
	require.Less(t, r.Took, 3*time.Second, "nobody is waited for")
}

func TestUnreachable(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
		r := runBrief(t, brief("ws://"+l.Addr().String()))
		require.Equal(t, ExitUnreachable, r.Exit())
		require.Equal(t, int64(4), r.Figures.Notes["connect: connection refused"])
		require.Equal(t, int64(4), r.Figures.Counts[Failed])
	})
	t.Run("no ready", func(t *testing.T) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		cfg := brief("ws://" + l.Addr().String())
		cfg.Timeout = 200 * time.Millisecond
		r := runBrief(t, cfg)
		require.Equal(t, ExitUnreachable, r.Exit())
		require.Equal(t, int64(4), r.Figures.Notes[errNotReady.Error()])
	})
	t.Run("refused", func(t *testing.T) {
		r := runBrief(t, brief(startLiar(t, &liar{refuse: codec.AuthFailed})))
		require.Equal(t, ExitUnreachable, r.Exit())
		require.Equal(t, int64(4), r.Figures.Notes["error auth_failed"])
		require.Equal(t, int64(4), r.Figures.Notes["closed with 1008 auth_failed"])
	})
	t.Run("no such host", func(t *testing.T) {
		_, err := Run(context.Background(), brief("ws://no-such-host.invalid/ws"))
		require.Equal(t, ExitUnreachable, ExitOf(err))
	})
}

// The model is open: a gateway that stands still for half a second is seen by all that was due meanwhile.
func TestStallIsSeenByAll(t *testing.T) {
	l, stalled := &liar{}, false
	l.lie = func(p *party, _, text string) {
		if !stalled {
			stalled = true
			time.Sleep(500 * time.Millisecond) // it is what is tested
		}
		p.echo(text)
	}
	cfg := brief(startLiar(t, l))
	cfg.Rate, cfg.Duration = 200, time.Second
	r := runBrief(t, cfg)
	h := r.Figures.Spans[Reply]
	require.Equal(t, int64(200), h.TotalCount())
	require.GreaterOrEqual(t, h.Max(), int64(490_000))
	slow := int64(0)
	for _, b := range h.Distribution() {
		if b.From >= 100_000 {
			slow += b.Count
		}
	}
	require.GreaterOrEqual(t, slow, int64(70), "about 80 were due in the first 400 ms of it")
}

// A generator that cannot keep up says so.
func TestSaturated(t *testing.T) {
	cfg := brief(startLiar(t, &liar{}))
	cfg.Duration = 2500 * time.Millisecond
	cfg.Second = func(Moment) { time.Sleep(300 * time.Millisecond) } // on the loop: it stands for a machine that is too slow
	r := runBrief(t, cfg)
	require.Contains(t, r.Generator.Saturated, "late")
	require.Equal(t, ExitSaturated, r.Exit())
	require.Equal(t, int64(1000), r.Figures.Counts[Answered], "all are sent all the same")

	cfg.Rate, cfg.Duration, cfg.Second = 1e6, 500*time.Millisecond, nil
	cfg.Timeout = time.Second
	r = runBrief(t, cfg)
	require.Contains(t, r.Generator.Saturated, "never sent")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg := brief(startLiar(t, &liar{}))
	cfg.Duration = time.Hour
	cfg.Second = func(m Moment) { cancel() }
	r, err := Run(ctx, cfg)
	require.NoError(t, err)
	require.Equal(t, ExitInterrupted, r.Exit())
	require.Positive(t, r.Figures.Counts[Answered])
	require.Zero(t, r.Figures.faults())
	require.InDelta(t, 1, r.Measured.Seconds(), 0.9)
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.Contains(t, text.String(), "interrupted")
}

// Nothing is sent or measured that is not asked for: idle devices say nothing after hello.
func TestIdle(t *testing.T) {
	l := &liar{}
	cfg := Config{URL: startLiar(t, l), Token: "x", Phase: Phase{Devices: 50, Duration: 100 * time.Millisecond}}
	r := runBrief(t, cfg)
	require.Equal(t, ExitOK, r.Exit())
	heard, _ := l.count()
	require.Zero(t, heard)
	require.Equal(t, int64(50), r.Figures.Spans[Ready].TotalCount())
	require.Equal(t, "idle", r.Config.Scenario)
}

func TestWarmupIsNotMeasured(t *testing.T) {
	l, first := &liar{}, true
	l.lie = func(p *party, _, text string) {
		if first {
			time.Sleep(200 * time.Millisecond) // it is what is tested
		}
		first = false
		p.echo(text)
	}
	cfg := brief(startLiar(t, l))
	cfg.Warmup = 300 * time.Millisecond
	r := runBrief(t, cfg)
	require.Equal(t, int64(220), r.Figures.Counts[Answered])
	require.Equal(t, int64(100), r.Figures.Spans[Reply].TotalCount())
	require.Less(t, r.Figures.Spans[Reply].Max(), int64(150_000))
}
