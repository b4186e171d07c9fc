package engine

import (
	"os"

	"golang.org/x/sys/unix"
)

// maxRefused is how many connections above MaxConnections are held just long enough to be told 503.
const maxRefused = 64

// reserve is what is kept free below the limit on descriptors: for those who are refused, for what every loop has open (its
// listeners of both families, and two to wait with), and for agents and files. gnet ends when accept finds no descriptor, so
// connections never come near the limit.
func reserve(loops int) int { return maxRefused + (2*listeners+2)*loops + 64 }

// MaxConnections raises the limit on descriptors as far as it goes, and says how many connections fit below it.
func MaxConnections(loops int) (int, error) {
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
	return max(int(min(limit.Cur, 1<<24))-reserve(loops), 1), nil
}
