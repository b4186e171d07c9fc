package session

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/internal/transcript"
)

// oneStep is what a session may send in one go beside what waits already: what it has gathered, and a fragment.
const oneStep = maxGathered + fragment/3*4 + 1024

// TestDeviceThatTakesNothing: however much its agent says, little of it waits in memory; and when the device reads on, all of
// it comes, in order.
func TestDeviceThatTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size = 8 << 20
		opened, closed := 0, 0
		file := &agent.File{Kind: "document", Size: size, Open: func() (agent.Content, error) {
			opened++
			return closing{transcript.Content(size), &closed}, nil
		}}
		g := newStageFor(t, talker(file))
		c := g.join("tel-1", "secret")
		c.countPending(0)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		c.text("1", "talk")
		require.NoError(t, g.Settle())
		require.NoError(t, g.Advance(20*time.Second))
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.Less(t, int(after.HeapAlloc)-int(before.HeapAlloc), 4<<20, "of 11 MB that are to be sent")

		var frames []string
		for rounds := 0; c.Pending() > 0; rounds++ {
			require.LessOrEqual(t, c.Pending(), softPending+oneStep)
			require.Less(t, rounds, 100)
			frames = append(frames, c.texts()...)
			c.countPending(0)
			c.peer.Drained(c)
			require.NoError(t, g.Settle())
		}
		require.Equal(t, 1, opened)
		require.Equal(t, 1, closed)
		var got []string
		bytes := 0
		for _, frame := range frames {
			var f struct {
				T, Text, Data string
				Final         bool
			}
			require.NoError(t, json.Unmarshal([]byte(frame), &f))
			switch f.T {
			case "message":
				got = append(got, strings.TrimRight(f.Text, "xy"))
			case "media":
				got = append(got, "file")
				bytes += len(f.Data) / 4 * 3
			}
		}
		require.Equal(t, strings.Fields("0 1 2 3 4 5 6 7 8 9 file file file 10 11 12 13 14 15 16 17 18 19"), got[:23])
		require.Len(t, got, 23+6)
		require.InDelta(t, size, bytes, 2)
		g.close()
	})
}

// talker says ten messages of 3 000 characters, sends a file, says ten more, and a reply of 20 000.
func talker(file *agent.File) askFunc {
	return func(_ context.Context, _ *agent.Turn, emit func(agent.Event)) (string, error) {
		for i := range 20 {
			if i == 10 {
				emit(agent.Event{Kind: agent.SendFile, File: file})
			}
			emit(agent.Event{Text: fmt.Sprint(i, strings.Repeat("x", 3000))})
		}
		return strings.Repeat("y", 20_000), nil
	}
}

type closing struct {
	transcript.Content
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

// TestFileThatStopsEarly: a content that is shorter than its file says, or cannot be read or opened, costs the device nothing
// but the file: each frame that began ends, and what was said behind it comes.
func TestFileThatStopsEarly(t *testing.T) {
	for name, c := range map[string]struct {
		holds int
		open  error
	}{"at once": {holds: 0}, "within a fragment": {holds: 100_001}, "between two": {holds: 2 * fragment}, "between two chunks": {holds: 3 << 20}, "not at all": {open: fmt.Errorf("the secret reason")}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				closed := 0
				g := newStageFor(t, askFunc(func(_ context.Context, _ *agent.Turn, emit func(agent.Event)) (string, error) {
					emit(agent.Event{Kind: agent.SendFile, File: &agent.File{Kind: "document", Size: 4 << 20, Open: func() (agent.Content, error) {
						return closing{transcript.Content(c.holds), &closed}, c.open
					}}})
					return "behind", nil
				}))
				conn := g.join("tel-1", "secret")
				conn.text("1", "talk")
				require.NoError(t, g.Settle())
				require.False(t, conn.wire.begun, "a frame that never ends")
				require.Equal(t, []string{"behind"}, conn.replies())
				require.Equal(t, boolInt(c.open == nil), closed)
				g.close()
			})
		})
	}
}

// TestAnswersWaitBehindTheFile: what is to be said while a message is on its way in fragments comes behind that message, and
// not behind the whole file; when it becomes too much, the device is told to come again.
func TestAnswersWaitBehindTheFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		c := g.join("tel-1", "secret")
		c.text("1", "/send document 8388608")
		c.countPending(0)
		require.NoError(t, g.Settle())
		require.True(t, c.wire.begun)
		ping := fmt.Appendf(nil, `{"t":"ping","ts":%q}`, strings.Repeat("t", 4000))
		c.Say(ping)
		c.Say([]byte(`{"t":"text"}`))
		require.NoError(t, g.Settle())
		var kinds []string
		for c.Pending() > 0 {
			c.countPending(0)
			c.peer.Drained(c)
			require.NoError(t, g.Settle())
			for _, f := range c.texts() {
				kinds = append(kinds, strings.SplitN(f, `"`, 5)[3])
			}
		}
		require.Equal(t, strings.Fields("avatar typing media pong error avatar media media typing"), kinds)

		c.text("2", "/send document 8388608")
		c.countPending(0)
		for range 2 * maxHeldBack / 4000 {
			c.Say(ping)
			require.NoError(t, g.Settle())
			if c.phase == ended {
				break
			}
			require.LessOrEqual(t, c.Pending(), softPending+oneStep)
			if s := g.hub.find("tel-1"); s.out != nil {
				require.LessOrEqual(t, cap(s.out.B), 4*maxHeldBack)
			}
		}
		all := c.texts()
		require.Equal(t, "close 1013 slow_consumer", all[len(all)-1])
		g.close()
	})
}

const idles = `{"t":"avatar","state":"idle"}`

// drain lets the device read on, and gives what it hears.
func (g *stage) drain(c *fakeConn) []string {
	c.setPending(0)
	c.peer.Drained(c)
	require.NoError(g.t, g.Settle())
	return c.texts()
}

// TestStatesAreLeftOut: while the device takes nothing, states of the avatar and typing are not sent; the last one is when it
// reads on, if it is another than the one it knows.
func TestStatesAreLeftOut(t *testing.T) {
	const thinks, types, typesNot = `{"t":"avatar","state":"thinking"}`, `{"t":"typing"}`, `{"t":"typing","stop":true}`
	for name, c := range map[string]struct {
		while func(g *stage, c *fakeConn)
		want  []string
	}{
		"a turn that began": {func(g *stage, c *fakeConn) { c.text("1", "/hold") }, []string{thinks, types}},
		"a turn that began and ended without a word": {func(g *stage, c *fakeConn) {
			c.text("1", "/hold")
			require.NoError(g.t, g.Settle())
			g.tell(g.t, "tel-1", "ends", "")
		}, []string{thinks, types, typesNot, idles}}, // the end waits, as what was said does
		"ten turns that failed": {func(g *stage, c *fakeConn) {
			for i := range 10 {
				c.text(fmt.Sprint(i), "/fail")
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newStage(t, nil)
				conn := g.join("tel-1", "secret")
				conn.setPending(softPending + 1)
				c.while(g, conn)
				require.NoError(t, g.Settle())
				require.Empty(t, conn.texts(), "nothing is sent that may be left out")
				got := g.drain(conn)
				if c.want != nil {
					require.Equal(t, c.want, got)
				}
				if name == "ten turns that failed" {
					n := 0
					for _, f := range got {
						n += strings.Count(f, `"internal_error"`)
					}
					require.Equal(t, 10, n, "an error is never left out")
					require.Equal(t, idles, got[len(got)-1])
				}
				g.close()
			})
		})
	}
}

// TestPauseThatEndsMeanwhile: so too the end of a pause.
func TestPauseThatEndsMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		conn := g.join("tel-1", "secret")
		conn.text("1", "hi")
		require.NoError(t, g.Settle())
		conn.texts()
		conn.setPending(softPending + 1)
		require.NoError(t, g.Advance(4*time.Second))
		require.Empty(t, conn.texts())
		require.Equal(t, []string{idles}, g.drain(conn))
		require.Empty(t, g.drain(conn), "once is enough")
		g.close()
	})
}

// TestEditsAreSuperseded: while the device takes nothing, edits wait and grow into one; the final one is never left out.
func TestEditsAreSuperseded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newStage(t, nil)
		c := g.join("tel-1", "secret")
		c.text("1", "/hold")
		require.NoError(t, g.Settle())
		g.tell(t, "tel-1", "streams", "a")
		g.tell(t, "tel-1", "streams", "b")
		require.Equal(t, []string{"a"}, c.replies())
		c.setPending(softPending + 1)
		require.NoError(t, g.Advance(10*time.Second))
		require.Empty(t, c.texts(), "an edit that nobody takes is not sent")
		for _, letter := range "cdef" {
			g.tell(t, "tel-1", "streams", string(letter))
			require.NoError(t, g.Advance(time.Second))
		}
		require.Empty(t, c.texts())
		c.setPending(0)
		c.peer.Drained(c)
		require.NoError(t, g.Settle())
		require.NoError(t, g.Advance(time.Second))
		edits := c.replies()
		require.LessOrEqual(t, len(edits), 2)
		require.Equal(t, "abcdef", edits[len(edits)-1])

		g.tell(t, "tel-1", "streams", "g")
		require.NoError(t, g.Advance(time.Second))
		g.tell(t, "tel-1", "streams", "h")
		c.texts()
		c.setPending(softPending + 1)
		g.tell(t, "tel-1", "ends", "")
		require.Empty(t, c.texts())
		last := g.drain(c)
		require.Contains(t, last[0], `"text":"abcdefgh"`)
		require.Contains(t, last[0], `"final":true,"edit":true`)
		g.close()
	})
}
