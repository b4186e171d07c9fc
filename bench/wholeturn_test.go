package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/session"
)

// BenchmarkWholeTurn: an echo turn of one device through loopback, engine, session and agent and back, all in this process and
// one turn at a time. It is latency: both ends, and the waiting for one another, are in it. TestTurn has the allocations.
func BenchmarkWholeTurn(b *testing.B) {
	g := newInside(b, session.Config{QuotaOff: true})
	p, d := dial(b, g.address), &device{id: "00000000-0000-4000-8000-000000000000"}
	defer p.conn.Close()
	p.hello(d)
	for b.Loop() {
		p.write(d.text(said, 0))
		p.until(turnEnd)
	}
	require.Zero(b, g.hub.Stats().Errors)
}

// BenchmarkWholeVoice is the same with a voice frame of 1 MiB, which comes back.
func BenchmarkWholeVoice(b *testing.B) {
	g := newInside(b, session.Config{QuotaOff: true})
	p, d := dial(b, g.address), &device{id: "00000000-0000-4000-8000-000000000000"}
	defer p.conn.Close()
	p.hello(d)
	b.SetBytes(voiceFrame)
	for b.Loop() {
		p.write(d.voice(voiceFrame))
		p.until(turnEnd)
	}
	require.Zero(b, g.hub.Stats().Errors)
}
