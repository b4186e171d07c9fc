package engine

import (
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The budgets of the process. Messages over 64 KiB are counted for the whole program, so these tests run alone.

func TestInboundBudget(t *testing.T) {
	before := large.Load()
	r := start(t, Config{MaxInbound: before + 1<<20}, newDesk())
	half := text(strings.Repeat("x", 600<<10))
	greedy, p := r.join(t)
	greedy.put(half[:400<<10]) // its buffer has 512 KiB by now
	eventually(t, "it is counted", func() bool { return large.Load() > before })

	late, q := r.join(t)
	late.put(half) // needs more than what is left
	late.bidden(ErrOverloaded, true)
	q.closed(t, ErrOverloaded)

	small, _ := r.join(t)
	small.put(text(strings.Repeat("y", 60<<10)))
	small.wants("text " + strings.Repeat("y", 60<<10))

	greedy.put(half[400<<10:])
	greedy.hears()
	greedy.Close()
	p.closed(t, ErrLost)
	eventually(t, "all is given back", func() bool { return large.Load() == before })
	require.Positive(t, r.Stats().Released)
	again, _ := r.join(t)
	again.put(half)
	again.hears()
}

func TestOutboundBudget(t *testing.T) {
	r := start(t, Config{MaxOutbound: 8 << 20, MaxPending: 64 << 20}, newDesk())
	first, p := r.join(t)
	flood := strings.Repeat("z", 2<<20)
	for p.c.Pending() < 2<<20 {
		say(p.c, flood)
	}
	require.Equal(t, int64(p.c.Pending()), r.waiting.Load())
	second, q := r.join(t)
	for range 8 {
		say(q.c, flood)
	}
	q.closed(t, ErrOverloaded)
	_ = second
	first.Close()
	p.closed(t, ErrLost)
	second.Close()
	eventually(t, "nothing waits", func() bool { return r.waiting.Load() == 0 })
}

func TestStrangersBudget(t *testing.T) {
	t.Parallel()
	r := start(t, Config{MaxStrangers: 64 << 10}, newDesk())
	hello := text(strings.Repeat("h", 40<<10))
	slow := r.open(t)
	slow.put(hello[:len(hello)-1])
	eventually(t, "it is counted", func() bool { return r.strangers.Load() > 32<<10 })
	late := r.open(t)
	late.put(hello[:len(hello)-1])
	late.bidden(ErrOverloaded, false)

	inside, _ := r.join(t) // who is quick needs next to nothing
	inside.put(text("hi"))
	inside.wants("text hi")

	request := r.dial(t)
	request.put([]byte("GET /ws HTTP/1.1\r\nX: "), []byte(strings.Repeat("x", 4000)))
	slow.put(hello[len(hello)-1:])
	slow.hears()
	request.Close()
	eventually(t, "all is given back", func() bool { return r.strangers.Load() == 0 })
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, trusted string
		headers       []string
		want          string // "": not to be counted by address
	}{
		{"a plain peer", "", nil, "127.0.0.1"},
		{"a proxy that nobody configured", "", []string{"X-Forwarded-For: 203.0.113.9"}, ""},
		{"another header of a proxy", "", []string{"Via: 1.1 x"}, ""},
		{"a trusted proxy", "127.0.0.0/8", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
		{"what the client forged stands left", "127.0.0.0/8", []string{"X-Forwarded-For: 198.51.100.1, 203.0.113.9"}, "203.0.113.9"},
		{"in a header of its own too", "127.0.0.0/8", []string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
		{"two trusted proxies", "127.0.0.0/8,10.0.0.0/8", []string{"X-Forwarded-For: 203.0.113.9, 10.1.2.3"}, "203.0.113.9"},
		{"only trusted proxies", "127.0.0.0/8,10.0.0.0/8", []string{"X-Forwarded-For: 10.1.2.4, 10.1.2.3"}, "10.1.2.4"},
		{"no address", "127.0.0.0/8", []string{"X-Forwarded-For: 203.0.113.9, unknown"}, ""},
		{"IPv6", "127.0.0.0/8", []string{"X-Forwarded-For: 2001:db8::1"}, "2001:db8::1"},
		{"IPv4 within IPv6", "127.0.0.0/8", []string{"X-Forwarded-For: ::ffff:203.0.113.9"}, "203.0.113.9"},
		{"a trusted proxy that says nothing", "127.0.0.0/8", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cfg Config
			for item := range strings.SplitSeq(c.trusted, ",") {
				if item != "" {
					cfg.TrustedProxies = append(cfg.TrustedProxies, netip.MustParsePrefix(item))
				}
			}
			r := start(t, cfg, newDesk())
			d := r.dial(t)
			lines := append([]string{strings.TrimSuffix(goodRequest, "\r\n\r\n")}, c.headers...)
			d.put([]byte(strings.Join(lines, "\r\n") + "\r\n\r\n"))
			d.upgraded()
			d.put(text("hello"))
			p := <-r.desk.joined
			addr := p.c.Origin()
			if c.want == "" {
				require.False(t, addr.IsValid(), addr)
			} else {
				require.Equal(t, netip.MustParseAddr(c.want), addr)
			}
			d.Close()
			p.closed(t, ErrLost)
			require.Empty(t, r.origins.of, "nothing of it stays")
		})
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	d, p := r.join(t)
	require.True(t, p.c.Local(), "a peer on this host, of this user")
	d.Close()
	p.closed(t, ErrLost)
	require.False(t, p.c.Local(), "nobody any more")

	for _, header := range []string{"Forwarded: for=x", "Via:", "X-Forwarded-Host: a", "x-real-ip: 1", "X-Client-IP: 1", "True-Client-IP: 1", "CF-Connecting-IP: 1"} {
		d := r.dial(t)
		d.put([]byte(strings.TrimSuffix(goodRequest, "\r\n") + header + "\r\n\r\n"))
		d.upgraded()
		d.put(text("hello"))
		require.False(t, (<-r.desk.joined).c.Local(), header)
	}
}

func TestNoWordInTheMiddleOfAMessage(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	for _, whole := range []bool{false, true} {
		d, p := r.join(t)
		b := GetBuffer()
		at := BeginFrame(b)
		b.B = append(b.B, "begin"...)
		EndFragment(b, at, true, false)
		p.c.SendPart(b)
		if whole {
			b := GetBuffer()
			at := BeginFrame(b)
			b.B = append(b.B, " end"...)
			EndFragment(b, at, false, true)
			p.c.Send(b)
		}
		p.c.Close(NewFarewell([]byte("last words"), 1008, "too_big"))
		heard, err := io.ReadAll(d.r)
		require.NoError(t, err)
		require.Equal(t, whole, strings.Contains(string(heard), "last words"), "no text inside a message that is not whole")
		require.True(t, strings.HasSuffix(string(heard), "\x88\x09\x03\xf0too_big"), "but the close frame, always")
	}
}
