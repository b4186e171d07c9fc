package loadtest

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/codec"
	"mobilegate/engine"
)

// Whoever asks for much and reads nothing is cut off, and told of so; the others notice nothing.
func TestSlowConsumers(t *testing.T) {
	t.Parallel() // the engine lets a slow device linger for 5 s
	l := &liar{}
	l.every = func(p *party, id, text string) bool {
		if !strings.HasPrefix(text, "/long") {
			return false
		}
		p.frame(codec.AppendMessage(nil, &codec.Message{ID: p.name(), Text: strings.Repeat("x", 1<<20)}))
		return true
	}
	cfg := brief(startLiar(t, l))
	cfg.Scenario, cfg.Devices, cfg.Bad, cfg.Duration = "slow-consumer", 10, 0.2, 7*time.Second
	cfg.Rate = 50
	r := runBrief(t, cfg)
	c := r.Figures.Counts
	require.Equal(t, []int64{2, 2, 0, 0, 0, 0}, []int64{c[Astray], c[Expelled], c[Dropped], c[Missing], c[Lost], r.Figures.faults()}, r.Figures.Notes)
	require.Equal(t, int64(2), r.Figures.Spans[Expulsion].TotalCount())
	require.Equal(t, c[Sent], c[Answered])
}

// A gateway that takes the new connection and keeps the old one, or ends it with another code, does wrong.
func TestTakeoverWrongs(t *testing.T) {
	for _, x := range []struct {
		name string
		end  func(old *party)
		want [2]int64 // replaced, stale: of 20
	}{
		{"replaced", func(old *party) { old.c.Close(engine.NewFarewell(nil, 4001, "replaced")) }, [2]int64{1, 0}},
		{"another code", func(old *party) { old.c.Close(engine.NewFarewell(nil, 1001, "bye")) }, [2]int64{0, 1}},
		{"kept", func(old *party) {}, [2]int64{0, 1}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			l := &liar{again: x.end}
			cfg := brief(startLiar(t, l))
			cfg.Scenario, cfg.Devices, cfg.Churn, cfg.Timeout = "takeover", 40, 80, time.Second
			r := runBrief(t, cfg)
			c := r.Figures.Counts
			require.Positive(t, c[TakeOvers])
			require.Equal(t, c[TakeOvers]*x.want[0], c[Replaced])
			require.Equal(t, c[TakeOvers]*x.want[1], c[Stale])
			require.Zero(t, c[Missing])
			require.Equal(t, x.want[1] > 0, r.Exit() == ExitWrong)
		})
	}
}

// A dropped device comes back when it may, and an answer to what it had said before is no fault.
func TestReconnect(t *testing.T) {
	l := &liar{}
	l.lie = func(p *party, _, text string) {
		p.c.Close(engine.NewFarewell(nil, 1001, "going away"))
	}
	cfg := brief(startLiar(t, l))
	cfg.Reconnect = Backoff{Base: time.Millisecond, Cap: 20 * time.Millisecond, set: true}
	r := runBrief(t, cfg)
	c := r.Figures.Counts
	require.Greater(t, c[Dropped], int64(4))
	require.InDelta(t, c[Dropped]+2, c[Online], 2, "all came back, but for those that were away at the end")
	require.Zero(t, c[Missing])
	require.Zero(t, c[Duplicated]+c[Corrupted]+c[Misrouted])

	f, d := still(t)
	f.say(d, 0)
	answer := f.answerTo(d, 1)
	f.forget(d, Given)
	d.Message(d.link, answer, f.start)
	require.Equal(t, []int64{1, 0, 0}, []int64{f.figures.Counts[Given], f.figures.Counts[Duplicated], f.figures.Counts[Answered]})
}

// Files come back as they were sent, and anything else is noticed.
func TestFileWrongs(t *testing.T) {
	for name, x := range map[string]struct {
		spoil func(m *codec.MediaHead, data []byte) []byte
		want  int // count of which there is one
	}{
		"right":      {func(m *codec.MediaHead, data []byte) []byte { return data }, Answered},
		"a bit":      {func(m *codec.MediaHead, data []byte) []byte { data[len(data)/2] ^= 1; return data }, Corrupted},
		"short":      {func(m *codec.MediaHead, data []byte) []byte { return data[1:] }, Corrupted},
		"long":       {func(m *codec.MediaHead, data []byte) []byte { return append(data, 0) }, Corrupted},
		"size":       {func(m *codec.MediaHead, data []byte) []byte { m.Size++; return data }, Corrupted},
		"kind":       {func(m *codec.MediaHead, data []byte) []byte { m.Kind = codec.MediaImage; return data }, Corrupted},
		"part":       {func(m *codec.MediaHead, data []byte) []byte { m.Part = 1; return data }, Corrupted},
		"other":      {func(m *codec.MediaHead, data []byte) []byte { m.ReplyTo = m.ReplyTo[:9] + "7-1"; return data }, Misrouted},
		"nothing":    {func(m *codec.MediaHead, data []byte) []byte { m.ReplyTo = "x"; return data }, Corrupted},
		"unfinished": {func(m *codec.MediaHead, data []byte) []byte { m.Final = false; return data }, -1},
	} {
		for kind, heard := range map[uint8]string{audio: codec.MediaVoice, media: codec.MediaDocument} {
			f, d := still(t)
			f.phase.Mix = Mix{Audio: 1, Media: 1}
			if kind == audio {
				f.phase.Mix.Media = 0
			} else {
				f.phase.Mix.Audio = 0
			}
			f.say(d, 0)
			content := f.appendContent(nil, d, &message{seq: 1, kind: kind})
			require.GreaterOrEqual(t, len(content), f.phase.MinFile)
			require.LessOrEqual(t, len(content), f.phase.MaxFile)
			m := codec.MediaHead{ID: "f", Kind: heard, ReplyTo: string(f.appendFrameID(nil, d, 1)), Parts: 1, Final: true, Size: len(content)}
			data := x.spoil(&m, content)
			d.Message(d.link, codec.AppendMedia(nil, &m, data), f.start)
			var got []int
			for i := Answered; i < counts; i++ {
				if f.figures.Counts[i] > 0 {
					got = append(got, i)
				}
			}
			if x.want < 0 {
				require.Empty(t, got, name)
			} else {
				require.Equal(t, []int{x.want}, got, name)
			}
		}
	}
}

func TestMix(t *testing.T) {
	m, err := ParseMix("text=90, audio=5,media=5")
	require.NoError(t, err)
	require.Equal(t, Mix{90, 5, 5}, m)
	for _, bad := range []string{"", "text", "text=x", "text=-1", "film=1", "text=0", "text=NaN", "text=Inf"} {
		_, err := ParseMix(bad)
		require.Error(t, err, bad)
	}
	f, d := still(t)
	for _, mix := range []Mix{{90, 5, 5}, {0, 1, 1}, {0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {1, 0, 1}} {
		f.phase.Mix = mix
		var n [messageKinds]float64
		const draws = 4000
		for seq := range uint32(draws) {
			n[f.kind(d, seq)]++
		}
		for kind, weight := range []float64{mix.Text, mix.Audio, mix.Media} {
			want := weight / (mix.Text + mix.Audio + mix.Media)
			require.InDelta(t, want, n[kind]/draws, 0.03, "%v", mix)
			require.Equal(t, want == 0, n[kind] == 0, "%v", mix)
		}
	}
}

func TestBackoff(t *testing.T) {
	b, err := ParseBackoff("full-jitter:1s..60s")
	require.NoError(t, err)
	require.Equal(t, "full-jitter:1s..1m0s", b.String())
	random := rand.New(rand.NewPCG(1, 1))
	for tries := range 255 {
		most := 60 * time.Second
		if tries < 6 {
			most = min(most, time.Second<<tries)
		}
		longest := time.Duration(0)
		for range 200 {
			d := b.delay(random, tries)
			require.LessOrEqual(t, d, most)
			require.GreaterOrEqual(t, d, time.Duration(0))
			longest = max(longest, d)
		}
		require.Greater(t, longest, most*8/10)
	}
	require.Zero(t, Backoff{}.delay(random, 3))
	for _, bad := range []string{"", "full-jitter", "full-jitter:1s", "full-jitter:2s..1s", "full-jitter:0s..1s", "none", "1s..2s"} {
		_, err := ParseBackoff(bad)
		require.Error(t, err, bad)
	}
}
