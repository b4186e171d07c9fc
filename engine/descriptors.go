package engine

import (
	"os"

	"golang.org/x/sys/unix"
)

// MaxConnections raises the limit on descriptors as far as it goes and says how many connections fit below it. gnet ends
// when accept finds no descriptor, so a reserve is kept that is larger than the queue of connections not yet accepted.
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
	n := int(min(limit.Cur, 1<<24))
	return max(n-reserve(n), 1), nil
}

// reserve is what stays free for the listeners, the loops, agents, files, and for newcomers who are told that there is no
// room: a quarter of the limit, at most 2 560.
func reserve(limit int) int { return min(limit/4, 2560) }

// backlog is the length of the kernel's queue of connections that wait to be accepted.
func backlog(connections int) int { return max(min(connections/8, 1024), 8) }
