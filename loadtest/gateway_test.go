package loadtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/engine"
	"mobilegate/loadtest"
	"mobilegate/session"
)

const token = "load-token"

// startGateway is the whole gateway in this process.
func startGateway(t testing.TB, cfg engine.Config) (url string) {
	t.Helper()
	hub, err := session.New(session.Config{Agent: &agent.Echo{}, Access: session.Access{Tokens: []session.Token{{Secret: token}}}, QuotaOff: true, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return serve(t, cfg, hub)
}

func serve(t testing.TB, cfg engine.Config, hub *session.Hub) (url string) {
	t.Helper()
	cfg.Host, cfg.Log = "127.0.0.1", slog.New(slog.DiscardHandler)
	server := engine.New(cfg, hub)
	require.NoError(t, server.Start())
	hub.Start()
	t.Cleanup(func() {
		require.NoError(t, server.Stop(context.Background()))
		hub.Close()
	})
	return fmt.Sprintf("ws://127.0.0.1:%d/ws", server.Port())
}

func requireGood(t testing.TB, r *loadtest.Report) {
	t.Helper()
	c := r.Figures.Counts
	for _, i := range []int{loadtest.Failed, loadtest.Dropped, loadtest.Lost, loadtest.Refused, loadtest.Unsent, loadtest.Duplicated, loadtest.Reordered, loadtest.Misrouted, loadtest.Corrupted, loadtest.Malformed} {
		require.Zero(t, c[i], "%v %v", c, r.Figures.Notes)
	}
	require.Equal(t, c[loadtest.Sent], c[loadtest.Answered])
	require.Contains(t, []int{loadtest.ExitOK, loadtest.ExitSaturated}, r.Exit())
}

// The gateway answers short and long texts, the long ones in pieces, and keeps its devices.
func TestGateway(t *testing.T) {
	url := startGateway(t, engine.Config{MaxConnections: 1000})
	for _, x := range []struct {
		min, max int
		rate     float64
	}{{32, 512, 500}, {3000, 12_000, 50}} {
		r, err := loadtest.Run(context.Background(), loadtest.Config{URL: url, Token: token, Phase: loadtest.Phase{Scenario: "chat", Devices: 100, Rate: x.rate, Duration: time.Second, MinSize: x.min, MaxSize: x.max}})
		require.NoError(t, err)
		requireGood(t, r)
		require.Equal(t, int64(x.rate), r.Figures.Counts[loadtest.Answered])
		require.Equal(t, int64(x.rate), r.Figures.Spans[loadtest.Last].TotalCount())
		require.Equal(t, int64(100), r.Figures.Counts[loadtest.Online])
		require.Empty(t, r.Figures.Notes)
	}
}

// A gateway that has no room says so, and those it took are well.
func TestGatewayIsFull(t *testing.T) {
	r, err := loadtest.Run(context.Background(), loadtest.Config{URL: startGateway(t, engine.Config{MaxConnections: 10}), Token: token, Phase: loadtest.Phase{Devices: 15, Rate: 20, Scenario: "chat", Duration: 300 * time.Millisecond}})
	require.NoError(t, err)
	require.Equal(t, int64(10), r.Figures.Counts[loadtest.Online])
	require.Equal(t, int64(5), r.Figures.Notes["the upgrade was refused with status 503"])
	require.Equal(t, loadtest.ExitUnreachable, r.Exit())
	require.Zero(t, r.Figures.Counts[loadtest.Lost])
}

func TestWrongToken(t *testing.T) {
	r, err := loadtest.Run(context.Background(), loadtest.Config{URL: startGateway(t, engine.Config{MaxConnections: 10}), Token: "guessed", Phase: loadtest.Phase{Duration: time.Second}})
	require.NoError(t, err)
	require.Equal(t, loadtest.ExitUnreachable, r.Exit())
	require.Equal(t, int64(1), r.Figures.Notes["error auth_failed"])
	require.Less(t, r.Took, time.Second)
}

// Every scenario that needs no long time, against the gateway: all is answered, and each does what it is for.
func TestScenarios(t *testing.T) {
	for _, x := range []struct {
		name string
		cfg  loadtest.Config
		look func(t *testing.T, r *loadtest.Report)
	}{
		{"voice", loadtest.Config{Phase: loadtest.Phase{Scenario: "voice", Devices: 20, Rate: 50}}, nil},
		{"upload", loadtest.Config{Phase: loadtest.Phase{Scenario: "upload", Devices: 4, Rate: 4, MinFile: 100_000, MaxFile: 4_000_000}}, nil},
		{"mix", loadtest.Config{Phase: loadtest.Phase{Scenario: "chat", Devices: 20, Rate: 100, Mix: loadtest.Mix{Text: 4, Audio: 1, Media: 1}}}, nil},
		{"storm", loadtest.Config{Phase: loadtest.Phase{Scenario: "storm", Devices: 200}}, func(t *testing.T, r *loadtest.Report) {
			require.Equal(t, int64(400), r.Figures.Counts[loadtest.Online])
			require.Equal(t, int64(200), r.Figures.Spans[loadtest.Whole].TotalCount(), "only those of the storm")
		}},
		{"takeover", loadtest.Config{Phase: loadtest.Phase{Scenario: "takeover", Devices: 50, Churn: 30}}, func(t *testing.T, r *loadtest.Report) {
			require.InDelta(t, 30, r.Figures.Counts[loadtest.TakeOvers], 5)
			require.Equal(t, r.Figures.Counts[loadtest.TakeOvers], r.Figures.Counts[loadtest.Replaced], "%v", r.Figures.Notes)
		}},
		{"churn", loadtest.Config{Phase: loadtest.Phase{Scenario: "chat", Devices: 50, Churn: 30}}, func(t *testing.T, r *loadtest.Report) {
			require.Equal(t, int64(30), r.Figures.Counts[loadtest.Churned])
			require.Equal(t, int64(80), r.Figures.Counts[loadtest.Online])
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			x.cfg.URL, x.cfg.Token, x.cfg.Duration = startGateway(t, engine.Config{MaxConnections: 1000}), token, time.Second
			r, err := loadtest.Run(context.Background(), x.cfg)
			require.NoError(t, err)
			require.Zero(t, r.Figures.Counts[loadtest.Missing])
			if x.look != nil {
				x.look(t, r)
			} else {
				require.Equal(t, int64(x.cfg.Rate), r.Figures.Counts[loadtest.Answered])
			}
			requireGood(t, r)
		})
	}
}

// A gateway that pings finds out who fell silent.
func TestHalfOpen(t *testing.T) {
	t.Parallel() // pings take seconds
	url := startGateway(t, engine.Config{MaxConnections: 100, PingInterval: time.Second})
	r, err := loadtest.Run(context.Background(), loadtest.Config{URL: url, Token: token, Phase: loadtest.Phase{Scenario: "half-open", Devices: 10, Duration: 4 * time.Second, Bad: 0.3}})
	require.NoError(t, err)
	requireGood(t, r)
	require.Equal(t, []int64{3, 3}, []int64{r.Figures.Counts[loadtest.Astray], r.Figures.Counts[loadtest.Expelled]}, "%v", r.Figures.Notes)
	require.Equal(t, int64(4), r.Figures.Counts[loadtest.Answered])
}
