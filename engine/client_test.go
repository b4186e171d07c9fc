package engine

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// caller is a Caller that remembers.
type caller struct {
	connected, upgraded int
	heard               []string
	ended               []error
	upgrade             func(l *Link) // nil: nothing
	message             func(l *Link, b []byte)
}

func (c *caller) Connected(*Link, time.Time) { c.connected++ }
func (c *caller) Upgraded(l *Link, _ time.Time) {
	if c.upgraded++; c.upgrade != nil {
		c.upgrade(l)
	}
}
func (c *caller) Message(l *Link, b []byte, _ time.Time) {
	if c.message != nil {
		c.message(l, b)
		return
	}
	c.heard = append(c.heard, string(b))
}
func (c *caller) Closed(_ *Link, err error, _ time.Time) { c.ended = append(c.ended, err) }

func newClient(t testing.TB, address string, cfg ClientConfig) *Client {
	t.Helper()
	cfg.To = netip.MustParseAddrPort(address)
	c, err := NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func (r *rig) address() string { return fmt.Sprintf("127.0.0.1:%d", r.Port()) }

// runUntil runs the loop until is answers true.
func runUntil(t testing.TB, c *Client, what string, is func() bool) {
	t.Helper()
	late := time.Now().Add(patience)
	require.NoError(t, c.Run(func(now time.Time) time.Time {
		if is() || now.After(late) {
			return time.Time{}
		}
		return now.Add(10 * time.Millisecond)
	}))
	require.True(t, is(), what)
}

func (c *Client) say(l *Link, payload string) {
	b := GetBuffer()
	start := BeginMasked(b)
	b.B = append(b.B, payload...)
	c.EndMasked(b, start)
	l.Send(b)
}

// Many links of one Client talk to the real server, each hears its own words in order, and all part in peace.
func TestClientAgainstServer(t *testing.T) {
	const links = 200
	r := start(t, Config{MaxHello: 4 << 20}, newDesk())
	c := newClient(t, r.address(), ClientConfig{From: []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}})
	callers, all, want := make([]caller, links), make([]*Link, links), make([][]string, links)
	sizes := []int{0, 1, 125, 126, 65535, 65536, 1 << 20}
	for i := range callers {
		for k, size := range sizes[:len(sizes)-min(i, 1)] { // the long one once
			want[i] = append(want[i], strings.Repeat(fmt.Sprint(i, k, ";"), size)[:size])
		}
		callers[i].upgrade = func(l *Link) {
			for _, w := range want[i] {
				c.say(l, w)
			}
		}
		var err error
		all[i], err = c.Call(&callers[i], 0)
		require.NoError(t, err)
	}
	heardAll := func() bool {
		for i := range callers {
			if len(callers[i].heard) < len(want[i]) {
				return false
			}
		}
		return true
	}
	runUntil(t, c, "all is echoed", heardAll)
	for i, l := range all {
		require.Equal(t, want[i], callers[i].heard)
		require.Nil(t, l.in, "nothing is kept at rest")
		require.Zero(t, l.Pending())
		l.Close(1000)
		require.False(t, l.Open())
	}
	runUntil(t, c, "all are closed", func() bool { return len(c.free) == links })
	for i := range callers {
		require.Equal(t, caller{connected: 1, upgraded: 1, ended: []error{nil}, heard: want[i]},
			caller{connected: callers[i].connected, upgraded: callers[i].upgraded, ended: callers[i].ended, heard: callers[i].heard})
		(<-r.desk.joined).closed(t, ErrClosedByPeer)
	}
	require.Positive(t, c.Waited())
}

// What the other end does not take waits, and leaves when it does.
func TestClientWaitsForSlowServer(t *testing.T) {
	f := newForeign(t)
	c := newClient(t, f.Addr().String(), ClientConfig{})
	who := caller{}
	const messages, size = 64, 256 << 10
	who.upgrade = func(l *Link) {
		for i := range messages {
			c.say(l, strings.Repeat(string(rune('a'+i%26)), size))
		}
	}
	l, err := c.Call(&who, 0)
	require.NoError(t, err)
	met := make(chan error, 1)
	go func() { met <- f.meet(welcome) }()
	runUntil(t, c, "some of it waits", func() bool { return l.Pending() > 0 })
	require.NoError(t, <-met)
	read := make(chan error, 1)
	go func() {
		for i := range messages {
			frame, err := ws.ReadFrame(f.r)
			if err == nil && string(ws.UnmaskFrame(frame).Payload) != strings.Repeat(string(rune('a'+i%26)), size) {
				err = fmt.Errorf("message %d is another", i)
			}
			if err != nil {
				read <- err
				return
			}
		}
		read <- nil
	}()
	runUntil(t, c, "all has left", func() bool { return l.Pending() == 0 })
	require.NoError(t, <-read)
}

// A deaf link takes nothing until it hears again, and notices the end all the same.
func TestClientDeaf(t *testing.T) {
	f := newForeign(t)
	c := newClient(t, f.Addr().String(), ClientConfig{})
	who := caller{upgrade: func(l *Link) { l.SetDeaf(true) }}
	l, err := c.Call(&who, 4096)
	require.NoError(t, err)
	sent := make(chan error, 1)
	go func() {
		err := f.meet(welcome)
		time.Sleep(20 * time.Millisecond) // not in one segment with the answer: that would be heard
		_, err2 := io.WriteString(f.conn, bareFrame(fin|textOp, "psst"))
		sent <- errors.Join(err, err2)
	}()
	runUntil(t, c, "the upgrade", func() bool { return who.upgraded == 1 })
	require.NoError(t, <-sent)
	rounds := 0
	runUntil(t, c, "some rounds", func() bool { rounds++; return rounds > 5 })
	require.Empty(t, who.heard)
	l.SetDeaf(false)
	require.Equal(t, []string{"psst"}, who.heard)
	l.SetDeaf(true)
	require.NoError(t, f.conn.Close())
	runUntil(t, c, "the end", func() bool { return len(who.ended) == 1 })
	require.Equal(t, ErrLost, who.ended[0])
}

// A link that is dropped while an event of it is at hand hears no more, nor does who takes its place.
func TestClientDropInTheMiddle(t *testing.T) {
	r := start(t, Config{}, newDesk())
	c := newClient(t, r.address(), ClientConfig{})
	var callers [3]caller
	var links [2]*Link
	for i := range links {
		callers[i].message = func(*Link, []byte) {
			callers[i].heard = append(callers[i].heard, "x")
			links[1-i].Drop()
			_, err := c.Call(&callers[2], 0)
			require.NoError(t, err)
		}
		var err error
		links[i], err = c.Call(&callers[i], 0)
		require.NoError(t, err)
	}
	runUntil(t, c, "the upgrades", func() bool { return callers[0].upgraded+callers[1].upgraded == 2 })
	for _, l := range links {
		c.say(l, "x")
	}
	for _, l := range links { // both answers are there before the loop looks again
		n, err := unix.Poll([]unix.PollFd{{Fd: l.fd, Events: unix.POLLIN}}, int(patience/time.Millisecond))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	runUntil(t, c, "the third is there", func() bool { return callers[2].upgraded == 1 })
	require.Equal(t, 1, len(callers[0].heard)+len(callers[1].heard))
	require.Empty(t, callers[0].ended)
	require.Empty(t, callers[1].ended)
	require.Empty(t, callers[2].heard)
	require.Equal(t, 1, callers[2].connected)
}

func TestClientRefused(t *testing.T) {
	f := newForeign(t)
	c := newClient(t, f.Addr().String(), ClientConfig{})
	require.NoError(t, f.Listener.Close())
	var who caller
	_, err := c.Call(&who, 0)
	if err == nil {
		runUntil(t, c, "the refusal", func() bool { return len(who.ended) == 1 })
		err = who.ended[0]
	}
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	var call *os.SyscallError
	require.ErrorAs(t, err, &call)
}

// Run calls on time: not early, and within what a loaded machine may take.
func TestClientTime(t *testing.T) {
	c := newClient(t, "127.0.0.1:1", ClientConfig{})
	due, calls := time.Now(), 0
	require.NoError(t, c.Run(func(now time.Time) time.Time {
		require.False(t, now.Before(due))
		if calls++; calls > 20 {
			return time.Time{}
		}
		due = now.Add(300 * time.Microsecond)
		return due
	}))
}

// To say something and to hear the answer costs no allocation.
func TestClientAllocations(t *testing.T) {
	if raceEnabled || ownersChecked {
		t.Skip("this build allocates for its checks")
	}
	c := newClient(t, "127.0.0.1:1", ClientConfig{})
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(pair[1])
	heard := 0
	l := &Link{client: c, caller: &caller{message: func(*Link, []byte) { heard++ }}, fd: int32(pair[0]), phase: linkOpen}
	c.links = []*Link{l}
	frame, buffer := []byte(bareFrame(fin|textOp, longData[:200])), make([]byte, 1024)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		b := GetBuffer()
		start := BeginMasked(b)
		b.B = append(b.B, longData[:200]...)
		c.EndMasked(b, start)
		l.Send(b)
		if n, err := unix.Read(pair[1], buffer); err != nil || n != 208 {
			panic("not sent")
		}
		if _, err := unix.Write(pair[1], frame); err != nil {
			panic(err)
		}
		l.event(unix.EPOLLIN)
	}))
	require.Equal(t, 1001, heard)
}
