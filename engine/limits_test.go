package engine

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The first message may have MaxHello bytes, any other MaxMessage; both are judged by the header that announces too much.
func TestSizes(t *testing.T) {
	t.Parallel()
	const hello, most = 64 << 10, 16 << 20
	r := start(t, Config{MaxPending: 64 << 20}, newDesk())
	full := strings.Repeat("x", hello)

	for name, first := range map[string][]byte{"whole": text(full), "in fragments": append(wire(more|textOp, full[:1]), wire(fin|contOp, full[1:])...)} {
		d := r.open(t)
		d.put(first)
		d.wants("text " + full)
		d.put(text(strings.Repeat("y", most)))
		require.True(t, d.hears() == "text "+strings.Repeat("y", most), name)
		d.put(announce(fin|textOp, 8, most+1, ""))
		d.bidden(ErrTooBig, true)
	}
	for name, first := range map[string][]byte{
		"whole":        announce(fin|textOp, 8, hello+1, ""),
		"in fragments": append(wire(more|textOp, full[:1]), announce(fin|contOp, 8, hello, "")...),
	} {
		d := r.open(t)
		d.put(first)
		require.Equal(t, "text "+lastWords(ErrTooBig, false), d.hears(), name)
		d.wants("close 1008 too_big", "end")
	}
}

// A message takes the memory of the bytes that came, not of those that were announced.
func TestGrowsWithWhatComes(t *testing.T) {
	t.Parallel()
	s, _ := bare(t, Config{}, newDesk())
	for _, piece := range []int{100, 10_000, 64 << 10} {
		holdsWhatCame(t, s, announce(fin|dataOp, 8, 16<<20, strings.Repeat("x", 300_000)), piece, ahead)
		holdsWhatCame(t, s, append(wire(more|dataOp, strings.Repeat("x", 200_000)), announce(more|contOp, 8, 15<<20, strings.Repeat("x", 100_000))...), piece, ahead)
	}
}

// decider is a desk that leaves the decision about a hello to the test.
func decider() (*desk, chan Conn) {
	d, undecided := newDesk(), make(chan Conn, 1000)
	d.hello = func(c Conn, b *Buffer) {
		PutMessage(b)
		undecided <- c
	}
	return d, undecided
}

// What comes behind a hello waits for the decision, and only then meets its limits: 60 KiB that a stranger may not send are
// fine once it is admitted, in any pieces.
func TestHelloIsDecidedFirst(t *testing.T) {
	t.Parallel()
	desk, undecided := decider()
	r := start(t, Config{MaxHello: 1000}, desk)
	stream := append(text(longData[:50_000]), append(data("b"), text("c")...)...)
	for _, behind := range []int{0, 1, 5, 8, 1000, 50_000, len(stream)} {
		d := r.open(t)
		d.put(text("hello"), stream[:behind]) // mostly in the read of the hello
		c := <-undecided
		settled(t, c.(*conn))
		p := newOwner(c)
		admitting := make(chan bool)
		go func() { admitting <- c.Admit(p) }()
		d.put(stream[behind:]) // perhaps before the decision, perhaps after
		require.True(t, <-admitting)
		d.wants("text "+longData[:50_000], "text b", "text c")
	}
}

// Whoever decides at the moment when the next bytes come does not change their order.
func TestHelloIsDecidedMeanwhile(t *testing.T) {
	t.Parallel()
	desk, undecided := decider()
	s, k := bare(t, Config{}, desk)
	for range 3000 {
		l := alone(t, s, stranger)
		l.traffic(append(text("hello"), text("a")[:4]...), k.now())
		c, p := <-undecided, newOwner(l.conn)
		var got []string
		p.message = func(_ Conn, b *Buffer) {
			got = append(got, string(b.B))
			PutMessage(b)
		}
		var admitting sync.WaitGroup
		admitting.Go(func() { c.Admit(p) })
		l.traffic(append(text("a")[4:], text("b")[:1]...), k.now())
		admitting.Wait()
		require.Equal(t, int32(1), l.sock.wakes.Load())
		l.traffic(nil, k.now())
		l.traffic(text("b")[1:], k.now())
		require.Equal(t, []string{"a", "b"}, got)
		l.finish()
	}
}

// 64 KiB may wait for the decision; more ends the connection. After a refusal what waited is dropped.
func TestHeldBytesAreBounded(t *testing.T) {
	t.Parallel()
	desk, undecided := decider()
	s, k := bare(t, Config{}, desk)
	flood := bytes.Repeat(ping("0123456789"), maxHeld/16)
	require.Len(t, flood, maxHeld)
	for name, test := range map[string]struct {
		held   int
		decide func(c Conn)
		want   []string
	}{
		"all that may": {maxHeld, func(c Conn) { c.Admit(newOwner(c)) }, nil},
		"one byte over": {maxHeld + 1, func(c Conn) { require.False(t, c.Admit(newOwner(c))) },
			[]string{"text " + lastWords(ErrOverloaded, false), "close 1013 overloaded"}},
		"refused": {maxHeld, func(c Conn) { c.Close(refusal) }, []string{"text the error", "close 1008 bad_frame"}},
	} {
		for _, piece := range []int{1000, maxHeld + 100} {
			l := alone(t, s, stranger)
			l.takes(append(text("hello"), append(flood, 'x')[:test.held]...), func(int) int { return piece })
			test.decide(<-undecided)
			l.traffic(nil, k.now())
			l.Close(nil)
			heard := l.hears()
			if test.want == nil {
				require.Len(t, heard, maxHeld/16, name)
				require.Equal(t, "pong 0123456789", heard[0])
			} else {
				require.Equal(t, test.want, heard, name)
			}
			l.finish()
		}
	}
}

// A message that gains less than 16 KiB within 30 s is given up, whether anything comes or nothing.
func TestSlowSender(t *testing.T) {
	t.Parallel()
	piece := func(b []byte, n int) func() []byte {
		return func() []byte {
			p := b[:min(n, len(b))]
			b = b[len(p):]
			return p
		}
	}
	big := text(strings.Repeat("x", 1<<20))
	pings := bytes.Repeat(ping("0123456789"), 100)
	for name, test := range map[string]struct {
		every func() []byte // what comes every 10 s
		slow  bool
	}{
		"nothing more":             {piece(text("hello")[:8], 8), true},
		"half a header":            {piece(text("hello")[:1], 1), true},
		"too little":               {piece(big, 5000), true},
		"just too little":          {piece(big, (16<<10)/3), true},
		"just enough":              {piece(big, (16<<10)/3+6), false}, // the header is no gain
		"nothing at all":           {piece(nil, 0), false},
		"whole messages":           {piece(bytes.Repeat(text("0123456789"), 100), 16), false},
		"pings":                    {piece(pings, 16), false},
		"pings in halves":          {piece(pings, 8), false},
		"pings, never at a border": {piece(append(ping(""), pings...), 16), false},
		"empty fragments": {func() func() []byte {
			first := byte(textOp)
			return func() []byte {
				f := wire(more|first, "")
				first = contOp
				return f
			}
		}(), true},
		"pings within a message": {piece(append(wire(more|textOp, "a"), pings...), 16), true},
	} {
		t.Run(name, func(t *testing.T) {
			s, k := bare(t, Config{}, newDesk())
			l, p := ownedBy(t, s, nil)
			for range 12 {
				if b := test.every(); len(b) > 0 {
					l.traffic(b, k.now())
				}
				l.woken(k.now)
				if len(p.ended) > 0 {
					break
				}
				k.pass(s, StallTimeout/3)
				l.woken(k.now)
			}
			l.Close(nil)
			if test.slow {
				p.closed(t, ErrSlowSender)
				heard := l.hears()
				require.Equal(t, []string{"text " + lastWords(ErrSlowSender, true), "close 1013 slow_sender"}, heard[len(heard)-2:])
				require.LessOrEqual(t, k.now().Sub(s.start), StallTimeout*3, "time to notice, with the first minute")
			} else {
				p.closed(t, nil)
			}
		})
	}
}

func TestSlowSenderOverLoopback(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	d, p := r.join(t)
	d.put(text("a message")[:9])
	eventually(t, "the loop has it", func() bool { return p.c.marked(partial) })
	settled(t, p.c)
	r.pass(StallTimeout - tick)
	settled(t, p.c)
	require.Empty(t, p.ended)
	r.pass(tick)
	d.bidden(ErrSlowSender, true)
	p.closed(t, ErrSlowSender)
}

// Above MaxConnections a newcomer is told that there is no room, or closed at once; those who are there notice nothing, and
// a place that becomes free is free.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	const room = 20
	r := start(t, Config{MaxConnections: room}, newDesk())
	var inside []*device
	for range room {
		d, _ := r.join(t)
		inside = append(inside, d)
	}
	var outside []*device
	for _, request := range []string{goodRequest, "GET /healthz HTTP/1.1\r\nHost: gate\r\n\r\n"} {
		d := r.dial(t)
		d.put([]byte(request))
		response, _ := d.response("GET")
		require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		require.Equal(t, "5", response.Header.Get("Retry-After"))
		outside = append(outside, d)
	}
	require.Equal(t, int64(1), r.Stats().Refused)
	for len(outside) < maxRefused {
		d := r.dial(t)
		d.put([]byte(goodRequest[:50]))
		outside = append(outside, d)
	}
	eventually(t, "connections that are accepted", func() bool { return r.Stats().Accepted == room+maxRefused })
	r.dial(t).ends()
	require.Equal(t, int64(2), r.Stats().Refused)
	for i, d := range inside {
		d.put(text(fmt.Sprint(i)))
		d.wants(fmt.Sprintf("text %d", i))
	}
	for _, d := range append(outside, inside[0]) {
		d.Close()
	}
	eventually(t, "they are counted out", func() bool { return r.Stats().Connections == room-1 })
	r.join(t)
	require.Equal(t, int64(room), r.Stats().Connections)
	require.Equal(t, int64(room+1), r.Stats().Upgraded)
}

// A panic above the engine ends one connection, which is told nothing, and is counted.
func TestPanics(t *testing.T) {
	t.Parallel()
	desk := newDesk()
	desk.owner = func(p *owner) {
		p.message = func(c Conn, b *Buffer) {
			switch string(b.B) {
			case "panic":
				PutMessage(b)
				panic("on purpose")
			case "panic when drained":
				PutMessage(b)
				p.drained = func(Conn) { panic(fmt.Errorf("on purpose")) }
				say(c, strings.Repeat("x", 16<<20))
			default:
				echo(c, b)
			}
		}
	}
	desk.hello = func(c Conn, b *Buffer) {
		if string(b.B) == "panic" {
			PutMessage(b)
			panic(c)
		}
		desk.admit(c, b)
	}
	r := start(t, Config{MaxPending: 64 << 20}, desk)
	bystander, _ := r.join(t)

	stranger := r.open(t)
	stranger.put(text("panic"), text("never read"))
	stranger.ends()
	inMessage, p := r.join(t)
	inMessage.put(text("panic"), text("never read"))
	inMessage.ends()
	p.closed(t, ErrPanic)
	inDrained, p := r.narrow(t)
	inDrained.put(text("panic when drained"))
	eventually(t, "something waits", func() bool { return p.c.Pending() > 0 })
	inDrained.ends()
	p.closed(t, ErrPanic)

	require.Equal(t, int64(3), r.Stats().Panics)
	bystander.put(text("unharmed"))
	bystander.wants("text unharmed")
	eventually(t, "they are gone", func() bool { return r.Stats().Connections == 1 })
}

// ends reads until TCP ends, in whatever way.
func (d *device) ends() {
	d.t.Helper()
	buf := make([]byte, 64<<10)
	for {
		if _, err := d.r.Read(buf); err != nil {
			require.NotErrorIs(d.t, err, os.ErrDeadlineExceeded)
			return
		}
	}
}
