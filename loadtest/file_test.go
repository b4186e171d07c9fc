package loadtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const goodFile = `
phases:
  - name: come
    devices: 50
    connect-rate: 500
  - name: talk
    for: 60s
    rate: 10..200
    mix: text=90,audio=10
    size: 32..512
    fail: [reply.p99<50ms, lost==0]
  - {name: more, devices: 80, for: 30s, scenario: storm, reconnect: "full-jitter:1s..2s", warmup: 2s, fail: missing==0}
`

// A phase says what it differs in: what stands beside the file goes for the rest.
func TestReadPhases(t *testing.T) {
	base := Phase{ConnectRate: 7, Part: 1 << 15, MinSize: 100, MaxSize: 200, Rate: 3, Warmup: time.Second}
	all, err := ReadPhases([]byte(goodFile), base)
	require.NoError(t, err)
	require.Len(t, all, 3)
	come, talk, more := all[0], all[1], all[2]
	require.Equal(t, []any{"come", "idle", 50, 500.0, time.Duration(0), time.Duration(0), 0.0}, []any{come.Name, come.Scenario, come.Devices, come.ConnectRate, come.Duration, come.Warmup, come.Rate})
	require.Equal(t, []any{"talk", "chat", 50, 7.0, time.Minute, time.Second, 10.0, 190.0, Mix{Text: 90, Audio: 10}, 32, 512}, []any{talk.Name, talk.Scenario, talk.Devices, talk.ConnectRate, talk.Duration, talk.Warmup, talk.Rate, talk.Rise, talk.Mix, talk.MinSize, talk.MaxSize})
	require.Equal(t, []any{"storm", 80, 30 * time.Second, 2 * time.Second, 3.0, 100, 200, 1 << 15, true}, []any{more.Scenario, more.Devices, more.Duration, more.Warmup, more.Rate, more.MinSize, more.MaxSize, more.Part, more.Reconnect.set})
	require.Equal(t, []int{0, 2, 1}, []int{len(come.Fail), len(talk.Fail), len(more.Fail)})

	small, err := ReadPhases([]byte(goodFile), Phase{Devices: 60, Duration: time.Second})
	require.NoError(t, err)
	for i, want := range []struct {
		devices int
		took    time.Duration
	}{{50, 0}, {50, time.Second}, {60, time.Second}} {
		require.Equal(t, want.devices, small[i].Devices)
		require.Equal(t, want.took, small[i].Duration)
	}
}

// What is wrong is said with its line, in one line that holds nothing that a terminal would obey.
func TestWrongFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "the file is empty",
		"# nothing":                            "the file is empty",
		"- name: x":                            "line 1: the file must have the key phases",
		"{}":                                   "line 1: the file must have the key phases",
		"phase: []":                            "line 1: the only key here is phases, once",
		"phases: []\nphases: []":               "line 2: the only key here is phases, once",
		"phases: []":                           "line 1: phases must be a list, of at most 64",
		"phases: {a: b}":                       "line 1: phases must be a list, of at most 64",
		"phases: [\n":                          "line 1: did not find expected node content",
		"phases: [x]":                          "line 1: a phase must have keys, as name and for",
		"phases: [&a {name: x}, *a]":           "line 1: the first phase needs devices",
		"phases:\n- {devices: 1}":              "line 2: the phase needs a name",
		"phases:\n- name: x\n  for: 1":         "line 3: for: must be a time over 0, as 30s or 5m",
		"--- \nphases: []\n---\na: b":          "the file holds more than one document",
		"phases:\n- name: x\n  fro: 1":         "line 3: there is no key fro; a phase may have name, scenario, for, warmup, devices, connect-rate, rate, mix, size, file-size, part-size, churn, reconnect, bad, fail",
		"phases:\n- name: x\n  \"\\e[31m\": 1": `line 3: there is no key \x1b[31m; a phase may have name, scenario, for, warmup, devices, connect-rate, rate, mix, size, file-size, part-size, churn, reconnect, bad, fail`,
		"phases:\n- name: x\n  name: y":        "line 3: name is there twice",
		"phases:\n- name: <b>":                 "line 2: name: must be at most 40 letters, digits, blanks, - _ or .",
		"phases:\n- name: " + strings.Repeat("x", 41):                     "line 2: name: must be at most 40 letters, digits, blanks, - _ or .",
		"phases:\n- name: [x]":                                            "line 2: name needs a plain value",
		"phases:\n- name:":                                                "line 2: name needs a plain value",
		"phases:\n- name: x\n  devices: 0":                                "line 3: devices: must be a whole number over 0",
		"phases:\n- name: x\n  devices: 1.5":                              "line 3: devices: must be a whole number over 0",
		"phases:\n- name: x\n  devices: 99999999":                         "line 2: the number of devices must be from 1 to 16777216",
		"phases:\n- name: x\n  rate: -1":                                  "line 3: rate: must be messages a second, as 200, or 10..500 for a rate that changes",
		"phases:\n- name: x\n  rate: 1..NaN":                              "line 3: rate: must be messages a second, as 200, or 10..500 for a rate that changes",
		"phases:\n- name: x\n  size: 0":                                   "line 3: size: must be bytes, as 32..512 or 100",
		"phases:\n- name: x\n  churn: NaN":                                "line 3: churn: must be a number",
		"phases:\n- name: x\n  mix: film=1":                               "line 3: mix: must be weights, as text=90,audio=5,media=5",
		"phases:\n- name: x\n  for: 1s\n  rate: 5":                        "line 2: the first phase needs devices",
		"phases:\n- name: x\n  devices: 1\n  rate: 5":                     "line 2: the phase needs the key for: how long it takes",
		"phases:\n- {name: x, devices: 2}\n- {name: y}":                   "line 3: the phase needs the key for: how long it takes",
		"phases:\n- {name: x, devices: 2}\n- {name: y, devices: 1}":       "line 3: there are 2 devices already, and they can only become more",
		"phases:\n- {name: x, devices: 2}\n- {name: x, devices: 3}":       "line 3: a phase above has the same name",
		"phases:\n- {name: x, devices: 2, for: 1s, scenario: dance}":      "line 2: the scenario must be one of idle, chat, voice, upload, storm, takeover, slow-consumer, half-open, soak",
		"phases:\n- {name: x, devices: 2, for: 1s, size: 1}":              "line 2: sizes must be from 31 to 12000 bytes, as 32..512",
		"phases:\n- {name: x, devices: 2, for: 2000h}":                    "line 2: durations must be over 0, and at most 1000h0m0s",
		"phases:\n- {name: x, devices: 2, for: 1s, connect-rate: 1e9}":    "line 2: rates must be over 0, and at most a million a second",
		"phases:\n- {name: x, devices: 2, for: 1s, <<: {rate: 5}}":        "line 2: there is no key <<; a phase may have name, scenario, for, warmup, devices, connect-rate, rate, mix, size, file-size, part-size, churn, reconnect, bad, fail",
		"phases:\n- {name: x, devices: 2, for: 1s, fail: [a, [b]]}":       "", // begins with what a condition is
		"phases:\n- {name: x, devices: 2, for: 1s, fail: [lost==0, [b]]}": "line 2: fail needs a plain value",
		"phases:\n- &x {name: x, devices: 2, for: 1s, scenario: half-open, bad: 0.6}\n- {name: y, for: 1s, scenario: half-open, bad: 0.6}": "line 3: more devices go astray than there are: who did so once does not come back",
		strings.Repeat("#", maxFileBytes+1): "the file is longer than 65536 bytes",
	} {
		_, err := ReadPhases([]byte(text), Phase{})
		require.Error(t, err, text)
		require.Equal(t, ExitUsage, ExitOf(err), text)
		require.NotContains(t, err.Error(), "\n")
		require.NotContains(t, err.Error(), "\x1b")
		if want != "" {
			require.Equal(t, want, err.Error(), text)
		} else {
			require.ErrorContains(t, err, "line 2: fail: a condition is")
		}
	}
}

func phasesOf(n int) string {
	text := "phases:\n"
	for i := range n {
		text += fmt.Sprintf("- {name: p%d, devices: 1, for: 1s}\n", i)
	}
	return text
}

func TestMostPhases(t *testing.T) {
	all, err := ReadPhases([]byte(phasesOf(maxPhases)), Phase{})
	require.NoError(t, err)
	require.Len(t, all, maxPhases)
	_, err = ReadPhases([]byte(phasesOf(maxPhases+1)), Phase{})
	require.ErrorContains(t, err, "at most 64")
	c := brief("ws://127.0.0.1:1")
	c.Phases = append(all, all[0])
	require.Equal(t, ExitUsage, ExitOf(c.fill(1)))
}

// FuzzPhases: whatever a file holds, it is taken with phases that can be run, or refused in one line.
func FuzzPhases(f *testing.F) {
	for _, text := range []string{goodFile, phasesOf(3), "phases: [&a {name: x}, *a]", "phases:\n- !!binary aGk=: x", "%YAML 1.1\n---\nphases: []", "phases:\n- ? [a]\n  : b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ReadPhases([]byte(text), Phase{})
		if err != nil {
			require.Equal(t, ExitUsage, ExitOf(err))
			require.NotContains(t, err.Error(), "\n")
			return
		}
		c := Config{URL: "ws://127.0.0.1:1", Token: "x", Phases: all}
		require.NotEmpty(t, all)
		require.NoError(t, c.fill(1<<24))
	})
}
