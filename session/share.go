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
	addr   netip.Addr
}

// counts tells whether c is to be held to what its address may do. Behind a proxy on this host that leaves no header all
// devices are loopback peers, and one of them must not lock out the others: only a peer of the gateway's own user counts.
// The answer takes a system call, so it is asked for only when it matters.
func (sh *share) counts(c engine.Conn) bool { return !sh.addr.IsLoopback() || c.Local() }

func (sh *share) charge(rate *Rate, bytes int, now time.Duration) time.Duration {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.used.charge(rate, bytes, now)
}

// shares are the shares of client addresses. An address is known as long as a device is connected from it, and for a minute
// after a hello of it failed; their number is bounded by maxAddresses.
type shares struct {
	mu    sync.Mutex
	of    map[netip.Addr]*share
	swept uint32 // second of the last sweep
}

const (
	maxAddresses = 1 << 20
	sweepPause   = 10 // seconds: a sweep looks at all addresses, under the lock
)

// network is what counts as one client: of IPv6 everybody has a /64.
func network(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		prefix, _ := addr.Prefix(64)
		return prefix.Addr()
	}
	return addr
}

// get returns the share of an address, which counts one user more until put; nil when it is not to be counted.
func (l *shares) get(addr netip.Addr, second uint32) *share {
	if !addr.IsValid() {
		return nil
	}
	addr = network(addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	sh := l.of[addr]
	if sh == nil {
		if len(l.of) >= maxAddresses && second-l.swept >= sweepPause {
			l.swept = second
			l.sweep(second)
		}
		if len(l.of) >= maxAddresses {
			return nil
		}
		if l.of == nil {
			l.of = map[netip.Addr]*share{}
		}
		sh = &share{addr: addr}
		l.of[addr] = sh
	}
	sh.users++
	return sh
}

// put ends the use of a share.
func (l *shares) put(sh *share, second uint32) {
	if sh == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if sh.users--; sh.users == 0 && sh.quiet(second) {
		delete(l.of, sh.addr)
	}
}

// sweep drops the addresses whose failures are over.
func (l *shares) sweep(second uint32) {
	for addr, sh := range l.of {
		if sh.users == 0 && sh.quiet(second) {
			delete(l.of, addr)
		}
	}
}

// quiet tells whether nothing is to be remembered of a share that nobody uses.
func (sh *share) quiet(second uint32) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.failed.n == 0 || second-sh.failed.since >= minute
}

// failedHello counts a hello that was refused, and tells whether the address has had too many of them.
func (sh *share) failedHello(limit int, second uint32) bool {
	if sh == nil {
		return false
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.failed.over(uint16(limit), minute, second)
}
