package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/admin"
	"mobilegate/agent"
	"mobilegate/engine"
	"mobilegate/loadtest"
	"mobilegate/session"
)

const secretToken = "s3cret-of-the-test"

func startGateway(t testing.TB) (url string) {
	t.Helper()
	url, _ = startGatewayWithNumbers(t)
	return url
}

// startGatewayWithNumbers also has a listener for operators.
func startGatewayWithNumbers(t testing.TB) (url, metrics string) {
	t.Helper()
	hub, err := session.New(session.Config{Agent: &agent.Echo{}, Access: session.Access{Tokens: []session.Token{{Secret: secretToken}}}, QuotaOff: true, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	server := engine.New(engine.Config{Host: "127.0.0.1", MaxConnections: 1000, Log: slog.New(slog.DiscardHandler)}, hub)
	require.NoError(t, server.Start())
	hub.Start()
	numbers, err := admin.Listen(admin.Config{Addr: "127.0.0.1:0", Engine: server.Stats, Hub: hub.Stats, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() {
		numbers.Close()
		require.NoError(t, server.Stop(context.Background()))
		hub.Close()
	})
	return fmt.Sprintf("ws://127.0.0.1:%d/ws", server.Port()), numbers.URL()
}

// TestMain makes the test binary a shard when it is asked to be one.
func TestMain(m *testing.M) {
	if os.Getenv(loadtest.ShardVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// Shards divide the devices and the rate, each device belongs to one of them, and their figures are put together.
func TestShards(t *testing.T) {
	url := startGateway(t)
	env := func(name string) string { return map[string]string{"MOBILE_TOKEN": secretToken}[name] }
	status, out, errOut := command(context.Background(), env, "-n", "31", "-r", "90", "-d", "1500ms", "--shards", "3", "-o", "json", url)
	require.Contains(t, []int{loadtest.ExitOK, loadtest.ExitSaturated}, status, errOut)
	var report struct {
		Counts  map[string]int
		Spans   map[string]map[string]float64
		Devices int
		Run     string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, 31, report.Devices)
	require.Equal(t, 31, report.Counts["online"])
	require.Zero(t, report.Counts["dropped"], "no device is in two shards")
	require.InDelta(t, 135, report.Counts["answered"], 3)
	require.EqualValues(t, report.Counts["answered"], report.Spans["reply"]["count"])
	require.Contains(t, errOut, "connected 31")
	require.NotContains(t, out+errOut, secretToken)

	ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	status, out, _ = command(ctx, env, "-q", "-n", "4", "-d", "1h", "--shards", "2", url)
	require.Equal(t, loadtest.ExitInterrupted, status, out)

	status, _, errOut = command(context.Background(), env, "-q", "-n", "4", "--shards", "2", "ws://no-such-host.invalid/ws")
	require.Equal(t, loadtest.ExitUnreachable, status)
	require.Contains(t, errOut, "no address")
	status, _, _ = command(context.Background(), env, "-q", "-n", "4", "--shards", "5", url)
	require.Equal(t, loadtest.ExitUsage, status)
	status, _, _ = command(context.Background(), env, "-q", "-n", "4", "--shards", "2", "--size", "1", url)
	require.Equal(t, loadtest.ExitUsage, status)
}

func noEnv(string) string { return "" }

func command(ctx context.Context, env func(string) string, args ...string) (status int, out, errOut string) {
	var o, e bytes.Buffer
	status = run(ctx, args, env, &o, &e)
	return status, o.String(), e.String()
}

// The token comes from the file, the environment or the flag; every report is written, and no output holds the token.
func TestRuns(t *testing.T) {
	url := startGateway(t)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(secretToken+"\n"), 0o600))
	env := func(name string) string { return map[string]string{"MOBILE_TOKEN": secretToken}[name] }
	for _, x := range []struct {
		env  func(string) string
		args []string
	}{
		{env, []string{"-n", "5", "-r", "50", "-d", "200ms", url}},
		{noEnv, []string{url, "--token-file", file, "--devices", "5", "--rate=50", "--duration", "200ms", "--connect-rate", "1e4", "--size", "40..50", "-o", "json"}},
		{noEnv, []string{"--token", secretToken, "-n=5", "-r", "50", "-d", "200ms", "--scenario", "chat", "--prefix", "a-", "--start", "7", url, "-o", "csv"}},
		{env, []string{"-q", "-n", "5", "-r", "50", "-d", "200ms", "--source-addrs", "127.0.0.2, 127.0.0.3", "--fail", "lost==0", "--fail", "reply.p50<10s", url}},
	} {
		status, out, errOut := command(context.Background(), x.env, x.args...)
		require.Contains(t, []int{loadtest.ExitOK, loadtest.ExitSaturated}, status, "%s %s", out, errOut)
		require.NotContains(t, out+errOut, secretToken)
		switch {
		case bytes.HasPrefix([]byte(out), []byte("{")):
			var report struct {
				Counts   map[string]int
				Scenario string
			}
			require.NoError(t, json.Unmarshal([]byte(out), &report))
			require.Equal(t, 10, report.Counts["answered"])
			require.Equal(t, "chat", report.Scenario)
		case bytes.HasPrefix([]byte(out), []byte("figure,value,phase\n")):
			require.Contains(t, out, "\nanswered,10,\n")
		default:
			require.Contains(t, out, "answered 10 ")
		}
	}
}

// A server may be watched, and compared with another.
func TestCompares(t *testing.T) {
	url, other := startGateway(t), startGateway(t)
	env := func(name string) string { return map[string]string{"MOBILE_TOKEN": secretToken}[name] }
	pid := fmt.Sprint(os.Getpid())
	status, out, errOut := command(context.Background(), env, "-q", "-n", "10", "-r", "50", "-d", "500ms", "--server-pid", pid, url)
	require.Contains(t, []int{loadtest.ExitOK, loadtest.ExitSaturated}, status, errOut)
	require.Regexp(t, "server: .* bytes a device.*for each message .* context switches", out)

	status, out, errOut = command(context.Background(), env, "-q", "-n", "4", "-r", "100", "-d", "100ms", "--pairs", "6", "--baseline", other, "--server-pid", pid, "--baseline-pid", pid, "-o", "json", url)
	require.Contains(t, []int{loadtest.ExitOK, loadtest.ExitSaturated}, status, errOut)
	var report struct {
		Target, Baseline struct {
			URL    string
			Counts map[string]int
		}
		Ratios []struct {
			Figure           string
			Ratio, Low, High float64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, []any{url, other, 60, 60}, []any{report.Target.URL, report.Baseline.URL, report.Target.Counts["answered"], report.Baseline.Counts["answered"]})
	require.NotEmpty(t, report.Ratios)
	status, _, errOut = command(context.Background(), env, "-q", "--server-pid", "999999999", url)
	require.Equal(t, loadtest.ExitUsage, status, errOut)
}

func TestPictures(t *testing.T) {
	url := startGateway(t)
	env := func(name string) string { return map[string]string{"MOBILE_TOKEN": secretToken}[name] }
	file := filepath.Join(t.TempDir(), "report.html")
	status, out, errOut := command(context.Background(), env, "-q", "-n", "5", "-r", "50", "-d", "1200ms", "--hist", "--plot", "--html", file, url)
	require.Contains(t, []int{loadtest.ExitOK, loadtest.ExitSaturated}, status, errOut)
	require.Contains(t, out, "█")
	require.Contains(t, out, "connected, at most 5")
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(html), "Times by percentile")
	require.NotContains(t, string(html), secretToken)
	for _, args := range [][]string{{"--hist", "-o", "json"}, {"--html", file, "--baseline", url}} {
		status, _, _ = command(context.Background(), env, append(args, url)...)
		require.Equal(t, loadtest.ExitUsage, status, args)
	}
}

func TestConform(t *testing.T) {
	status, out, errOut := command(context.Background(), noEnv, "conform", "--only", "no case has this name", "ws://127.0.0.1:1/ws")
	require.Equal(t, loadtest.ExitUsage, status)
	require.Empty(t, out)
	require.Equal(t, "loadtest: no case has that in its file or name\n", errOut)
	status, _, errOut = command(context.Background(), noEnv, "conform", "--only", "3-text", "ws://127.0.0.1:1/ws")
	require.Equal(t, loadtest.ExitUnreachable, status, errOut)
	for _, args := range [][]string{{"conform"}, {"conform", "--x", "ws://127.0.0.1:1"}, {"conform", "a", "b"}, {"conform", "http://x"},
		{"conform", "--wait", "x", url1}, {"conform", "--wait", "-1s", url1}, {"conform", "--quiet", "0s", url1}} {
		status, _, errOut = command(context.Background(), noEnv, args...)
		require.Equal(t, loadtest.ExitUsage, status, args)
		require.Regexp(t, "^loadtest: .+\n$", errOut)
	}
	status, out, _ = command(context.Background(), noEnv, "conform", "-h")
	require.Equal(t, loadtest.ExitOK, status)
	require.Equal(t, conformUsage, out)
}

func TestExits(t *testing.T) {
	url := startGateway(t)
	env := func(name string) string { return map[string]string{"MOBILE_TOKEN": secretToken}[name] }
	status, out, _ := command(context.Background(), env, "-q", "-r", "20", "-d", "100ms", "--fail", "reply.p99<1us", url)
	require.Contains(t, []int{loadtest.ExitThreshold, loadtest.ExitSaturated}, status)
	require.Contains(t, out, "does not hold: reply.p99<1us")

	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	status, out, _ = command(context.Background(), env, "-q", "ws://"+l.Addr().String())
	require.Equal(t, loadtest.ExitUnreachable, status)
	require.Contains(t, out, "connection refused")

	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	status, out, _ = command(ctx, env, "-q", "-r", "20", "-d", "1h", url)
	require.Equal(t, loadtest.ExitInterrupted, status)
	require.Contains(t, out, "interrupted")

	status, out, _ = command(context.Background(), env, "--help")
	require.Equal(t, loadtest.ExitOK, status)
	require.Equal(t, usage, out)
}

func TestWrongCommandLines(t *testing.T) {
	for _, args := range [][]string{
		{}, {"-n", "5"}, {"a", "b"}, {"--no-such", url1}, {"-n", "x", url1}, {"-o", "xml", url1}, {"--size", "x", url1}, {"--source-addrs", "here", url1},
		{"--fail", "lost", url1}, {"--token-file", "/no/such/file", url1}, {"--token-file", "/no/such/file", "--token", secretToken, url1},
		{"--token"}, {"wss://127.0.0.1/ws", "--token", secretToken}, {"-r", "-1", "--token", secretToken, url1}, {"--scenario", "dance", "--token", secretToken, url1},
		{url1}, {"--html", "/no/such/folder/page.html", "--token", secretToken, url1}, {"--source-addrs", "::1", "--token", secretToken, url1},
	} {
		status, out, errOut := command(context.Background(), noEnv, args...)
		require.Equal(t, loadtest.ExitUsage, status, args)
		require.Empty(t, out)
		require.Regexp(t, "^loadtest: .+\n$", errOut)
		require.NotContains(t, errOut, secretToken)
	}
	for want, args := range map[string][]string{
		"-o: must be text or json or csv":                                  {"-o", "xml"},
		"-n: must be a whole number":                                       {"-n", "1.5"},
		"--seed: must be a whole number from 0":                            {"--seed", "-1"},
		"-R: must be a number":                                             {"-R", "x"},
		"-d: must be a time, as 500ms, 30s or 5m":                          {"-d", "5"},
		"-n: must be over 0; without it, it is the default":                {"-n", "0"},
		"-r: must be over 0; without it, it is the default":                {"-r", "0"},
		"--bad: must be over 0; without it, it is the default":             {"--bad", "0"},
		"--churn: must be over 0; without it, it is the default":           {"--churn", "0.0"},
		"--shrads is no flag; -h lists them":                               {"--shrads", "3"},
		"there is something that is no flag; -h lists them":                {"-" + secretToken},
		"--pairs, --baseline-pid and --baseline-metrics need a --baseline": {"--pairs", "7"},
	} {
		status, _, errOut := command(context.Background(), noEnv, append(args, url1)...)
		require.Equal(t, loadtest.ExitUsage, status, args)
		require.Equal(t, "loadtest: "+want+"\n", errOut)
	}
	_, _, errOut := command(context.Background(), noEnv, url1, "-n")
	require.Equal(t, "loadtest: -n needs a value\n", errOut)
}

// A page that was there stays until there is a new one.
func TestPageStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(file, []byte("of yesterday"), 0o600))
	status, _, _ := command(context.Background(), noEnv, "-q", "--token", secretToken, "--html", file, "--server-pid", "999999999", url1)
	require.Equal(t, loadtest.ExitUsage, status)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "of yesterday", string(b))

	full := "/dev/full" // nothing can be written there
	status, out, errOut := command(context.Background(), noEnv, "-q", "--token", secretToken, "-d", "100ms", "--html", full, startGateway(t))
	require.Equal(t, loadtest.ExitWrong, status)
	require.Contains(t, out, "online 1", "the report is not lost with the page")
	require.Contains(t, errOut, "the page cannot be written")
}

const url1 = "ws://127.0.0.1:1/ws"
