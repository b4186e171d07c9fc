package engine

import (
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Local implements Conn. A proxy on this host makes every device a loopback peer, and not every proxy leaves a header; but
// its sockets belong to a user of its own (spec 9).
func (c *conn) Local() bool {
	peer, ok := c.sock.RemoteAddr().(*net.TCPAddr)
	if !ok || !peer.IP.IsLoopback() || c.marked(proxied) {
		return false
	}
	c.mu.Lock()
	if c.phase.Load() >= closing {
		c.mu.Unlock()
		return false
	}
	own, err := unix.Getsockname(c.sock.Fd())
	c.mu.Unlock()
	if err != nil {
		return false
	}
	var here net.TCPAddr
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		here = net.TCPAddr{IP: own.Addr[:], Port: own.Port}
	case *unix.SockaddrInet6:
		here = net.TCPAddr{IP: own.Addr[:], Port: own.Port}
	}
	socket, err := netlink.SocketGet(peer, &here) // the peer's end of the connection
	return err == nil && int(socket.UID) == os.Geteuid()
}
