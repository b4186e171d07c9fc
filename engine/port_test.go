package engine

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
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
