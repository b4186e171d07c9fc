package engine

import (
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Between the choice of a port and the listeners nobody else is given it, and they get it all the same.
func TestChosenPortIsHeld(t *testing.T) {
	t.Parallel()
	s := New(Config{Host: "127.0.0.1", Loops: 1}, newDesk())
	held, err := s.resolve()
	require.NoError(t, err)
	require.Len(t, held, 1)
	defer held[0].Close()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	_, err = net.Listen("tcp4", address)
	require.ErrorContains(t, err, "in use")

	own := net.ListenConfig{Control: reusePort}
	l, err := own.Listen(t.Context(), "tcp4", address)
	require.NoError(t, err)
	l.Close()
}

// What a connection has of its listener, every listener has, on each loop.
func TestListeners(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Loops: 2}, newDesk())
	found := 0
	for fd := range 1 << 15 {
		if slices.Contains(r.addrs, listensOn(fd)) {
			found++
			seconds, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT)
			require.NoError(t, err)
			require.Equal(t, deferAccept, seconds)
		}
	}
	require.Equal(t, 2*listeners, found)
}

// A listener on the gateway's port and another address is somebody else's: the operators' may be one.
func TestOthersAreNotTuned(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.2", strconv.Itoa(r.Port())))
	require.NoError(t, err)
	defer l.Close()
	socket, err := l.(*net.TCPListener).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, socket.Control(func(fd uintptr) { require.NotContains(t, r.addrs, listensOn(int(fd))) }))
}

// Who says nothing is let wait for deferAccept, and accepted behind that.
func TestSilentAreAccepted(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	dialled := time.Now()
	silent := r.dial(t)
	d, _ := r.join(t)
	accepted := r.Stats().Accepted
	if time.Since(dialled) < deferAccept*time.Second {
		require.Equal(t, int64(1), accepted)
	}
	r.caughtUp(t, 2)
	silent.put([]byte(goodRequest))
	silent.upgraded()
	d.put(text("meanwhile"))
	d.wants("text meanwhile")
}
