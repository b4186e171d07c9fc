package terminal

import (
	"bytes"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTerminal(t *testing.T) {
	pair, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo terminals here")
	}
	defer pair.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(pair.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(pair.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	term, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer term.Close()
	require.True(t, Is(term))
	require.Equal(t, 80, Columns(term), "it does not say")
	require.NoError(t, unix.IoctlSetWinsize(int(term.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 57}))
	require.Equal(t, 57, Columns(term))
}

func TestNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	for _, x := range []any{null, new(bytes.Buffer), nil} {
		require.False(t, Is(x))
		require.Equal(t, 80, Columns(x))
	}
}
