package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// silentUntilPing lets time pass, tick by tick, until the device is pinged.
func silentUntilPing(t *testing.T, s *Server, k *clock, l *lone) (waited time.Duration) {
	t.Helper()
	for l.pingedAt.Load() == 0 {
		k.pass(s, tick)
		waited += tick
		require.LessOrEqual(t, waited, time.Minute)
	}
	return waited
}

const interval = 50 * time.Second

// A device is pinged when it was silent for 45 to 50 s, not all at the same time.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	s, k := bare(t, Config{PingInterval: interval}, newDesk())
	seen := map[time.Duration]bool{}
	for range 64 {
		l, p := ownedBy(t, s, nil)
		l.alive(k.now())
		s.wheel.Set(l.conn, k.now())
		waited := silentUntilPing(t, s, k, l)
		require.GreaterOrEqual(t, waited, 45*time.Second-tick)
		require.LessOrEqual(t, waited, interval+tick)
		seen[waited/time.Second] = true
		newDevice(t, l.far).wants("ping ")
		require.Empty(t, p.ended)
		defer l.finish() // at the end: each has a descriptor of its own, from which comes the jitter
		s.wheel.Stop(l.conn)
	}
	require.GreaterOrEqual(t, len(seen), 4)
}

// Whatever comes answers a ping; nothing within the next interval is death.
func TestPingIsAnswered(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]byte{
		"pong": wire(fin|pongOp, ""), "pong with a payload": wire(fin|pongOp, "x"), "a message": text("x"), "a byte": {fin | textOp}, "nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s, k := bare(t, Config{PingInterval: interval}, newDesk())
			l, p := ownedBy(t, s, nil)
			s.wheel.Set(l.conn, k.now())
			silentUntilPing(t, s, k, l)
			k.pass(s, interval-time.Second-tick)
			require.Empty(t, p.ended)
			if sent == nil {
				k.pass(s, time.Second+2*tick)
				p.closed(t, ErrDead)
				require.Equal(t, int32(1), l.sock.closes.Load())
				return
			}
			s.OnTraffic(l.brings(sent))
			l.woken(k.now)
			require.Zero(t, l.pingedAt.Load())
			require.GreaterOrEqual(t, silentUntilPing(t, s, k, l), 44*time.Second)
			require.NotContains(t, p.ended, ErrDead)
		})
	}
}

func TestNoKeepAlive(t *testing.T) {
	t.Parallel()
	s, k := bare(t, Config{}, newDesk())
	l, p := ownedBy(t, s, nil)
	s.wheel.Set(l.conn, k.now())
	k.pass(s, 24*time.Hour)
	require.Zero(t, l.pingedAt.Load())
	require.Empty(t, p.ended)
	require.Zero(t, s.wheel.Len(), "an idle device costs the wheel nothing")
}

// Probe drops a device that is silent for ProbeTimeout, with keep-alive or without, and leaves one alone that is not.
func TestProbe(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"without keep-alive": {}, "with keep-alive": {PingInterval: interval}} {
		t.Run(name, func(t *testing.T) {
			s, k := bare(t, cfg, newDesk())
			l, p := ownedBy(t, s, nil)
			l.Probe()
			newDevice(t, l.far).wants("ping ")
			k.pass(s, ProbeTimeout-tick)
			s.OnTraffic(l.brings(wire(fin|pongOp, "")))
			k.pass(s, 10*time.Second)
			require.Empty(t, p.ended)
			require.Equal(t, 10*time.Second, l.Silence(k.now()))

			l.Probe()
			k.pass(s, ProbeTimeout-time.Second-tick)
			require.Empty(t, p.ended)
			k.pass(s, time.Second+2*tick)
			p.closed(t, ErrDead)
			require.Equal(t, int32(1), l.sock.closes.Load())
			l.finish()
			require.Empty(t, p.ended)
		})
	}
}

func TestDeadOverLoopback(t *testing.T) {
	t.Parallel()
	r := start(t, Config{PingInterval: interval}, newDesk())
	d, p := r.join(t)
	r.pass(15 * time.Second) // the deadline of the hello, at which the keep-alive begins
	r.pass(interval)
	d.wants("ping ")
	r.pass(interval + time.Second)
	d.wants("end")
	p.closed(t, ErrDead)

	d, p = r.join(t)
	p.c.Probe()
	d.wants("ping ")
	r.pass(ProbeTimeout + time.Second)
	d.wants("end")
	p.closed(t, ErrDead)
}

// TCP's own probes are lost now and then as well: several of them go out before it gives a connection up.
func TestTCPProbesOften(t *testing.T) {
	t.Parallel()
	_, p := start(t, Config{}, newDesk()).join(t)
	option := func(name int) time.Duration {
		n, err := unix.GetsockoptInt(p.c.sock.Fd(), unix.IPPROTO_TCP, name)
		require.NoError(t, err)
		return time.Duration(n) * time.Second
	}
	patience := option(unix.TCP_USER_TIMEOUT) / 1000 // milliseconds
	require.GreaterOrEqual(t, patience, option(unix.TCP_KEEPIDLE)+4*option(unix.TCP_KEEPINTVL))
	require.Greater(t, option(unix.TCP_KEEPIDLE), interval, "where devices are pinged nothing more is sent")
}
