package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The pool of goroutines that gnet starts on import and never ends.
var gnetsPool = []goleak.Option{
	goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
	goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, gnetsPool...) }

// A small fleet on this machine, with all that a large one does in its own.
func TestFleet(t *testing.T) {
	gateway := build(t)
	status, out := vm("-gateway", gateway, "-devices", "200", "-window", "16", "-samples", "150", "-still", "1s")
	require.Equal(t, 0, status, out)
	require.Contains(t, out, "200 of 200 connected")
	require.Contains(t, out, "answered   150 of 150")
	require.Contains(t, out, "called again 0, lost 0")
	require.True(t, strings.HasSuffix(out, "\nstatus 0\n"), out)

	full := script(t, t.TempDir(), "gateway", "exec "+gateway+` "$@" --max-connections 90`)
	status, out = vm("-gateway", full, "-devices", "200", "-window", "16")
	require.Equal(t, 1, status, out)
	require.Regexp(t, `FAULT +\d+ of 200 devices had their ready`, out)
	require.Contains(t, out, "refused with status 503")
}

func build(t *testing.T) (gateway string) {
	gateway = filepath.Join(t.TempDir(), "mobilegate")
	out, err := exec.Command("go", "build", "-o", gateway, "mobilegate/cmd/mobilegate").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return gateway
}

func vm(args ...string) (status int, out string) {
	var b bytes.Buffer
	status = run(args, &b)
	return status, b.String()
}

func TestNoGateway(t *testing.T) {
	for _, command := range []string{"exit 1", "echo 'url=ws://nowhere/ws' >&2; exec sleep 60"} {
		status, out := vm("-devices", "200", "-gateway", script(t, t.TempDir(), "gateway", command))
		require.Equal(t, 1, status, out)
		require.Contains(t, out, "the gateway did not start")
	}
	for _, args := range [][]string{{"-devices", "0"}, {"-window", "0"}, {"-samples", "0"}, {"-devices", "x"}, {"more"}, {"-unknown"}} {
		status, _ := vm(args...)
		require.Equal(t, 2, status, args)
	}
}

// What a device hears is judged by its state.
func TestDevice(t *testing.T) {
	const hello, text = `{"t":"ready","device":{"id":"vm-7"}}`, `{"t":"message","text":"device 7 is still here","final":true}`
	for name, c := range map[string]struct {
		state                         uint8
		frame                         string
		online, answered, wrong, lost int
	}{
		"ready":               {coming, hello, 1, 0, 0, 0},
		"of another device":   {coming, `{"t":"ready","device":{"id":"vm-70"}}`, 0, 0, 0, 1},
		"something before it": {coming, `{"t":"avatar"}`, 0, 0, 0, 1},
		"refused":             {coming, `{"t":"error"}`, 0, 0, 0, 0}, // Closed counts it
		"its own words":       {asking, text, 0, 1, 0, 0},
		"those of another":    {asking, `{"t":"message","text":"device 8 is still here","final":true}`, 0, 0, 1, 0},
		"half of them":        {asking, `{"t":"message","text":"device 7 is still here"}`, 0, 0, 1, 0},
		"an avatar":           {asking, `{"t":"avatar","state":"thinking"}`, 0, 0, 0, 0},
		"an error":            {asking, `{"t":"error"}`, 0, 0, 0, 1},
		"words unasked":       {ready, text, 0, 0, 0, 1},
		"no frame":            {ready, `{`, 0, 0, 0, 1},
	} {
		f := &fleet{outcome: outcome{reasons: map[string]int{}}}
		d := &device{fleet: f, number: 7, state: c.state}
		d.Message(nil, []byte(c.frame), time.Time{})
		require.Equal(t, []int{c.online, c.answered, c.wrong, c.lost}, []int{f.online, f.answered, f.wrong, f.lost}, name)
	}
}

// A device that is not let in calls again, so often and no more; one that was in is lost.
func TestClosed(t *testing.T) {
	f := &fleet{outcome: outcome{reasons: map[string]int{}}}
	d := &device{fleet: f}
	for d.calls = 1; d.calls <= maxCalls; d.calls++ {
		d.Closed(nil, errAnother, time.Time{})
	}
	require.Equal(t, []int{maxCalls - 1, 1}, []int{f.refused, f.lost})
	require.Len(t, f.again, maxCalls-1)
	(&device{fleet: f, state: ready, calls: 1}).Closed(nil, errAnother, time.Time{})
	require.Equal(t, []int{maxCalls - 1, 2}, []int{f.refused, f.lost})
}

// Each thing that must hold is missed when it does not.
func TestFaults(t *testing.T) {
	good := func() *outcome {
		return &outcome{plan: &plan{devices: 1_000_000, samples: 1000}, online: 1_000_000, rss: maxRSS(1_000_000), atRest: true, answered: 1000}
	}
	require.InDelta(t, 1.1*(1<<30), maxRSS(1_000_000), 10_000)
	require.Empty(t, good().faults())
	for name, spoil := range map[string]func(o *outcome){
		"a device is missing":     func(o *outcome) { o.online-- },
		"a connection ended":      func(o *outcome) { o.lost++ },
		"memory is never at rest": func(o *outcome) { o.atRest = false },
		"too much memory":         func(o *outcome) { o.rss++ },
		"an answer is missing":    func(o *outcome) { o.answered-- },
		"an answer is wrong":      func(o *outcome) { o.wrong++ },
	} {
		o := good()
		spoil(o)
		require.Len(t, o.faults(), 1, name)
	}
}

// script writes one into folder and returns its path.
func script(t *testing.T, folder, name, commands string) string {
	path := filepath.Join(folder, name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+commands+"\n"), 0o755))
	return path
}
