package engine

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
)

// passage is what a request says beside the upgrade.
type passage struct {
	body  bool     // that a body follows
	proxy bool     // one of their headers was there
	chain [][]byte // the values of X-Forwarded-For, in their order
}

// origins keeps the client addresses that trusted proxies told, from the request until somebody asks: the connections
// themselves have no room for them.
type origins struct {
	trusted []netip.Prefix
	mu      sync.Mutex
	of      map[*conn]netip.Addr
}

// note keeps the client's address if the peer is a proxy that may tell it: the right-most address of the chain that is no
// trusted proxy itself.
func (o *origins) note(c *conn, chain [][]byte) {
	if len(chain) == 0 || !o.trusts(c.peerAddr()) {
		return
	}
	hops := bytes.Split(bytes.Join(chain, []byte(",")), []byte(","))
	for i := len(hops) - 1; i >= 0; i-- {
		hop := string(bytes.TrimSpace(hops[i]))
		addr, err := netip.ParseAddr(hop)
		if err != nil {
			withPort, err := netip.ParseAddrPort(hop)
			if err != nil {
				return // nothing further left can be trusted
			}
			addr = withPort.Addr()
		}
		if addr = addr.Unmap().WithZone(""); o.trusts(addr) && i > 0 {
			continue
		}
		o.mu.Lock()
		if o.of == nil {
			o.of = map[*conn]netip.Addr{}
		}
		o.of[c] = addr
		o.mu.Unlock()
		return
	}
}

func (o *origins) trusts(addr netip.Addr) bool {
	for _, p := range o.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// take returns what was noted, once.
func (o *origins) take(c *conn) netip.Addr {
	o.mu.Lock()
	defer o.mu.Unlock()
	addr := o.of[c]
	delete(o.of, c)
	return addr
}

// peerAddr needs a connection that has not been closed: gnet lets go of the address then.
func (c *conn) peerAddr() netip.Addr {
	if peer, ok := c.sock.RemoteAddr().(*net.TCPAddr); ok {
		addr, _ := netip.AddrFromSlice(peer.IP)
		return addr.Unmap()
	}
	return netip.Addr{}
}

// Origin implements Conn.
func (c *conn) Origin() netip.Addr {
	if c.marked(proxied) {
		if addr := c.srv.origins.take(c); addr.IsValid() {
			return addr
		}
	}
	c.mu.Lock()
	var addr netip.Addr
	if c.phase.Load() < closed {
		addr = c.peerAddr()
	}
	c.mu.Unlock()
	if c.srv.origins.trusts(addr) || c.marked(proxied) && (addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast()) {
		return netip.Addr{}
	}
	return addr
}
