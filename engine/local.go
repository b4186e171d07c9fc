package engine

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Local implements Conn. A proxy on this host makes every device a loopback peer, and not every proxy leaves a header; but
// its sockets belong to a user of its own (spec 9).
func (c *conn) Local() bool {
	c.mu.Lock()
	if c.phase.Load() >= closing || c.marked(proxied) || c.marked(local|foreign) {
		is := c.phase.Load() < closing && c.marked(local)
		c.mu.Unlock()
		return is
	}
	peer, _ := c.sock.RemoteAddr().(*net.TCPAddr)
	own, err := unix.Getsockname(c.sock.Fd())
	c.mu.Unlock()
	if peer == nil || !peer.IP.IsLoopback() || err != nil {
		return false
	}
	var here netip.AddrPort
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		here = netip.AddrPortFrom(netip.AddrFrom4(own.Addr), uint16(own.Port))
	case *unix.SockaddrInet6:
		here = netip.AddrPortFrom(netip.AddrFrom16(own.Addr), uint16(own.Port))
	}
	from := peer.AddrPort()
	uid, ok := ownerOf(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), netip.AddrPortFrom(here.Addr().Unmap(), here.Port()))
	if is := ok && int(uid) == os.Geteuid(); is {
		c.mark(local)
		return true
	}
	c.mark(foreign)
	return false
}

// sockDiag is inet_diag_req_v2 for the one TCP socket with these two ends. Asked for without NLM_F_DUMP the kernel looks it
// up; a dump, which netlink.SocketGet asks for, walks all sockets of the host and compares nothing but ports.
type sockDiag struct{ local, remote netip.AddrPort }

func (r sockDiag) Len() int { return 56 }

func (r sockDiag) Serialize() []byte {
	b := make([]byte, r.Len())
	b[0], b[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if r.local.Addr().Is4() {
		b[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(b[4:], 0xffffffff) // states
	binary.BigEndian.PutUint16(b[8:], r.local.Port())
	binary.BigEndian.PutUint16(b[10:], r.remote.Port())
	copy(b[12:28], r.local.Addr().AsSlice())
	copy(b[28:44], r.remote.Addr().AsSlice())
	binary.NativeEndian.PutUint64(b[48:], ^uint64(0)) // any cookie
	return b
}

// ownerOf is the user whose socket has these two ends.
func ownerOf(local, remote netip.AddrPort) (uid uint32, ok bool) {
	req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0)
	req.AddData(sockDiag{local, remote})
	answers, err := req.Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	if err != nil || len(answers) != 1 || len(answers[0]) < 72 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(answers[0][64:]), true
}
