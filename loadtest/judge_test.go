package loadtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/codec"
	"mobilegate/engine"
)

// still is a fleet of one ready device whose time only the test moves. Its link sends nothing.
func still(t testing.TB) (f *fleet, d *device) {
	t.Helper()
	cfg := Config{URL: "ws://127.0.0.1:1", Token: "x", Timeout: time.Second, Phase: Phase{Scenario: "chat"}}
	require.NoError(t, cfg.fill(1))
	f, err := newFleet(cfg, newRun())
	require.NoError(t, err)
	t.Cleanup(f.client.Close)
	d = &f.devices[0]
	d.link, d.stage = &engine.Link{}, ready
	f.ready, f.called = append(f.ready, d), 1
	f.state, f.phase.upTo, f.pace.rate = measure, time.Hour, 0
	return f, d
}

func (f *fleet) at(after time.Duration) time.Time {
	now := f.start.Add(after)
	f.turn(now)
	return now
}

func (f *fleet) answerTo(d *device, seq uint32) []byte {
	return codec.AppendMessage(nil, &codec.Message{ID: "r", Text: string(f.appendContent(nil, d, &message{seq: seq})), Total: 1, Final: true})
}

// A message is lost when its time is up; if its answer comes after all it was only late, and what comes twice came twice.
func TestLostAndLate(t *testing.T) {
	f, d := still(t)
	c := &f.figures.Counts
	for i := range 3 {
		f.at(time.Duration(i) * 300 * time.Millisecond)
		f.say(d, f.now)
	}
	f.at(990 * time.Millisecond)
	require.Zero(t, c[Lost])
	require.Equal(t, 3, f.underWay)
	now := f.at(1100 * time.Millisecond)
	require.Equal(t, int64(1), c[Lost])
	require.Equal(t, 2, f.underWay)

	d.Message(d.link, f.answerTo(d, 1), now)
	require.Equal(t, []int64{0, 1, 1}, []int64{c[Lost], c[Late], c[Answered]})
	require.Equal(t, 2, f.underWay)
	d.Message(d.link, f.answerTo(d, 1), now)
	require.Equal(t, int64(1), c[Duplicated])

	d.Message(d.link, f.answerTo(d, 3), now)
	now = f.at(1310 * time.Millisecond)
	require.Equal(t, int64(1), c[Lost], "the second is")
	d.Message(d.link, f.answerTo(d, 2), now)
	require.Equal(t, []int64{0, 2, 3, 1, 1}, []int64{c[Lost], c[Late], c[Answered], c[Reordered], c[Duplicated]})
	require.Zero(t, f.underWay)
	require.Empty(t, d.asked)

	d.Message(d.link, f.answerTo(d, 4), now)
	require.Equal(t, int64(1), c[Corrupted], "nobody said that yet")
	require.Equal(t, int64(3), f.figures.Spans[Reply].TotalCount())
	require.InDelta(t, 1_100_000, f.figures.Spans[Reply].Max(), 2_000, "it counts from when it was due")
}

// An answer that was begun and lost is late too, and refusals count once.
func TestBegunAndRefused(t *testing.T) {
	f, d := still(t)
	c := &f.figures.Counts
	f.at(0)
	f.say(d, 0)
	f.say(d, 0)
	text := string(f.appendContent(nil, d, &message{seq: 1}))
	cut := half(text)
	d.Message(d.link, codec.AppendMessage(nil, &codec.Message{ID: "r", Text: text[:cut], Total: 2}), f.start)
	now := f.at(1100 * time.Millisecond)
	require.Equal(t, int64(2), c[Lost])
	d.Message(d.link, codec.AppendMessage(nil, &codec.Message{ID: "r", Text: text[cut:], Index: 1, Total: 2, Final: true}), now)
	require.Equal(t, []int64{1, 1, 1, 0}, []int64{c[Lost], c[Late], c[Answered], c[Corrupted]})
	refusal := codec.AppendError(nil, &codec.ErrorFrame{Code: codec.InternalError, ID: f.run + "-0-2"})
	d.Message(d.link, refusal, now)
	d.Message(d.link, refusal, now)
	require.Equal(t, []int64{0, 2, 1}, []int64{c[Lost], c[Late], c[Refused]})
	require.Equal(t, int64(2), f.figures.Notes["error internal_error"])
	require.Zero(t, f.underWay)
}

// To say something and to hear the answer costs no allocation.
func TestTurnAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	f, d := still(t)
	var answer []byte
	now := f.at(time.Millisecond)
	turn := func() {
		f.say(d, f.now)
		d.Message(d.link, answer, now)
	}
	answer = f.answerTo(d, 1)
	turn()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		answer = append(answer[:0], `{"t":"message","id":"r","text":"`...)
		answer = f.appendContent(answer, d, &message{seq: d.sent + 1})
		answer = append(answer, `","chunk":{"index":0,"total":1},"final":true}`...)
		turn()
	}))
	require.Equal(t, f.figures.Counts[Sent], f.figures.Counts[Answered])
}
