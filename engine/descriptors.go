package engine

import (
	"os"

	"golang.org/x/sys/unix"
)

// What is kept free below the limit on descriptors. gnet ends when accept finds none, so connections never come near it.
const (
	maxRefused = 64  // connections above MaxConnections that are held just long enough to be told 503
	reserve    = 128 // for them, and for listeners, loops, agents and files
)

// MaxConnections raises the limit on descriptors as far as it goes, and says how many connections fit below it.
func MaxConnections() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	if limit.Cur < limit.Max {
		limit.Cur = limit.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return 0, os.NewSyscallError("setrlimit", err)
		}
	}
	return max(int(min(limit.Cur, 1<<24))-reserve, 1), nil
}
