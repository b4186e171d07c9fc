package loadtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// manner is a variable of the environment that makes this test binary a shard that behaves as it says.
const manner = "LOADTEST_TEST_MANNER"

// beShard is a shard's whole life.
func beShard() {
	switch os.Getenv(manner) {
	case "late":
		time.Sleep(700 * time.Millisecond) // it is what is tested
	case "silent":
		time.Sleep(time.Hour)
	case "dies":
		time.AfterFunc(500*time.Millisecond, func() { os.Exit(7) })
	case "stays":
		for {
			fmt.Println(`{"Moment":{"Connected":1}}`)
			time.Sleep(100 * time.Millisecond) // it speaks, and does not hear
		}
	case "refuses":
		fmt.Println(`{"Error":"no room","Exit":3}`)
		os.Exit(0)
	}
	if ServeShard(context.Background(), os.Stdin, os.Stdout) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// commands makes shards of this test binary, of which the first behaves in its own manner.
func commands(first string) func() *exec.Cmd {
	n := 0
	return func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		if n++; n == 1 {
			cmd.Env = append(os.Environ(), manner+"="+first)
		}
		return cmd
	}
}

// Nobody measures before the devices of all shards are there, however late one of them is; and all begin together, phase by
// phase.
func TestShardsBeginTogether(t *testing.T) {
	var early atomic.Int64
	l := &liar{}
	l.every = func(p *party, _, _ string) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.parties) < 9 {
			early.Add(1)
		}
		return false
	}
	cfg := brief(startLiar(t, l))
	cfg.Timeout = 10 * time.Second
	cfg.Name = "file"
	cfg.Phases = []Phase{
		{Name: "first", Scenario: "chat", Devices: 9, Rate: 90, Duration: 400 * time.Millisecond},
		{Name: "on", Scenario: "chat", Devices: 9, Rate: 180, Duration: 300 * time.Millisecond},
		{Name: "more", Scenario: "chat", Devices: 12, Rate: 90, Duration: 400 * time.Millisecond, ConnectRate: 30},
	}
	var last Moment
	cfg.Second = func(m Moment) { last = m }
	r, err := RunShards(context.Background(), cfg, 3, commands("late"))
	require.NoError(t, err)
	require.Zero(t, early.Load(), "messages came while devices were still to come")
	require.Len(t, r.Phases, 3)
	for i, want := range []struct {
		there int
		sent  int64
		took  time.Duration
	}{{9, 36, 400 * time.Millisecond}, {9, 54, 300 * time.Millisecond}, {12, 36, 400 * time.Millisecond}} {
		p := r.Phases[i]
		require.Equal(t, want.there, p.There, p.Does.Name)
		require.InDelta(t, want.sent, p.Figures.Counts[Answered], 3, p.Does.Name)
		require.Equal(t, p.Figures.Counts[Sent], p.Figures.Counts[Answered], p.Does.Name)
		require.Equal(t, want.took, p.Measured, p.Does.Name)
	}
	require.Equal(t, r.Phases[0].From.Add(400*time.Millisecond).UnixMilli(), r.Phases[1].From.UnixMilli(), "there is no gap")
	require.Greater(t, r.Phases[2].From.Sub(r.Phases[1].From), 300*time.Millisecond)
	require.Equal(t, int64(12), r.Figures.Counts[Online])
	require.NotEmpty(t, last.Phase)
}

// A shard that dies, or says nothing, ends the run soon, and it is said which.
func TestShardsThatFail(t *testing.T) {
	url := startLiar(t, &liar{}) // before any process is begun: one has the sockets of its parent for a moment, and keeps a port taken
	for manner, want := range map[string]string{
		"dies":    "shard 1 of 3 ended without a report: exit status 7",
		"silent":  "shard 1 of 3 says nothing any more",
		"refuses": "no room",
	} {
		t.Run(manner, func(t *testing.T) {
			t.Parallel()
			cfg := brief(url)
			cfg.Duration = time.Hour
			began := time.Now()
			_, err := runShards(context.Background(), cfg, 3, commands(manner), 4*time.Second)
			require.EqualError(t, err, want)
			require.Equal(t, map[bool]int{true: ExitUnreachable, false: ExitWrong}[manner == "refuses"], ExitOf(err))
			require.Less(t, time.Since(began), 25*time.Second, "the others go home")
		})
	}
	t.Run("stays", func(t *testing.T) { // when it is told to go
		t.Parallel()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		cfg := brief(url)
		cfg.Duration = time.Hour
		_, err := runShards(ctx, cfg, 3, commands("stays"), 4*time.Second)
		require.EqualError(t, err, "shard 1 of 3 ended without a report: signal: killed")
	})
	_, err := RunShards(context.Background(), brief("ws://127.0.0.1:1"), 3, func() *exec.Cmd { return exec.Command("/no/such/program") })
	require.ErrorContains(t, err, "cannot be started")
	for _, shards := range []int{0, 5, 257} {
		_, err = RunShards(context.Background(), brief("ws://127.0.0.1:1"), shards, nil)
		require.Equal(t, ExitUsage, ExitOf(err), shards)
	}
}

// A shard whose parent is gone, or has no order for it, ends.
func TestShardAlone(t *testing.T) {
	require.Error(t, ServeShard(context.Background(), strings.NewReader("{"), new(bytes.Buffer)))
	url := startLiar(t, &liar{})
	var out bytes.Buffer
	order := fmt.Sprintf(`{"Run":"01234567","Config":{"URL":%q,"Token":"x","Devices":1,"Duration":3600000000000}}`, url)
	require.NoError(t, ServeShard(context.Background(), strings.NewReader(order), &out))
	require.Contains(t, out.String(), `"Interrupted":true`)
}
