package session

import (
	"net/netip"
	"sync"
	"time"

	"mobilegate/engine"
)

// share is what all devices of one token entry, or of one client address, use together.
type share struct {
	mu     sync.Mutex
	used   usage
	failed counter // hellos of this minute
	users  int     // connections; guarded by shares
	local  bool    // the address is loopback: see counts
}

// counts tells whether c is to be held to what its address may do. Behind a proxy on this host that leaves no header all
// devices are loopback peers, and one of them must not lock out the others: only a peer of the gateway's own user counts.
// The answer takes a system call, so it is asked for only when it matters.
func (sh *share) counts(c engine.Conn) bool { return !sh.local || c.Local() }

func (sh *share) charge(rate *Rate, bytes int, now time.Duration) time.Duration {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.used.charge(rate, bytes, now)
}

// shares are the shares of client addresses. An address is known as long as a device is connected from it, and for a while
// after it failed to; their number is bounded by maxAddresses.
type shares struct {
	mu sync.Mutex
	of map[netip.Addr]*share
}

const maxAddresses = 100_000

// get returns the share of an address, which counts one user more until put.
func (l *shares) get(addr netip.Addr, second uint32) *share {
	if !addr.IsValid() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sh := l.of[addr]
	if sh == nil {
		if len(l.of) >= maxAddresses {
			l.sweep(second)
		}
		if len(l.of) >= maxAddresses {
			return nil // everybody else is still counted
		}
		if l.of == nil {
			l.of = map[netip.Addr]*share{}
		}
		sh = &share{local: addr.IsLoopback()}
		l.of[addr] = sh
	}
	sh.users++
	return sh
}

// put ends the use of a share. One that nobody uses and that tells nothing any more goes with the next sweep.
func (l *shares) put(sh *share) {
	if sh != nil {
		l.mu.Lock()
		sh.users--
		l.mu.Unlock()
	}
}

// sweep drops what is not used and holds no failures of this minute.
func (l *shares) sweep(second uint32) {
	for addr, sh := range l.of {
		sh.mu.Lock()
		quiet := sh.failed.n == 0 || second-sh.failed.since >= minute
		sh.mu.Unlock()
		if quiet && sh.users == 0 {
			delete(l.of, addr)
		}
	}
}

// failedHello counts a hello that was refused; barred tells whether the address has had too many of them.
func (sh *share) failedHello(limit int, second uint32) {
	if sh != nil {
		sh.mu.Lock()
		sh.failed.over(uint16(limit), minute, second)
		sh.mu.Unlock()
	}
}

func (sh *share) barred(limit int, second uint32) bool {
	if sh == nil {
		return false
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return int(sh.failed.n) >= limit && second-sh.failed.since < minute
}
