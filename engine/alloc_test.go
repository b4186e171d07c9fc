package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A message in and its answer out cost no allocation, nor does a ping.
func TestAllocations(t *testing.T) {
	if raceEnabled || ownersChecked {
		t.Skip("this build allocates for its checks")
	}
	s, _ := bare(t, Config{}, newDesk())
	for name, frame := range map[string][]byte{
		"text": text(longData[:100]), "empty": text(""), "ping": ping("0123"), "two texts": append(text("a"), text("b")...),
		"fragments": append(wire(more|textOp, "a"), wire(fin|contOp, "b")...),
	} {
		for at := 1; at <= len(frame); at += len(frame) - 1 { // in two pieces, and whole
			l, p := ownedBy(t, s, nil)
			p.message = func(c Conn, b *Buffer) { // as echo, without a string
				reply := GetBuffer()
				start := BeginFrame(reply)
				reply.B = append(reply.B, b.B...)
				EndFrame(reply, start)
				PutMessage(b)
				c.Send(reply)
			}
			far, heard := int(l.far.Fd()), make([]byte, 1024)
			require.Zero(t, testing.AllocsPerRun(1000, func() {
				l.brings(frame[:at])
				s.OnTraffic(l.sock)
				if at < len(frame) {
					l.brings(frame[at:])
					s.OnTraffic(l.sock)
				}
				if n, err := unix.Read(far, heard); err != nil || n < 2 {
					panic("no answer")
				}
			}), name)
			require.Nil(t, l.in, "nothing is kept at rest")
			require.Empty(t, p.ended)
		}
	}
}
