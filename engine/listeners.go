package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// listeners is how many sockets listen on an address for each loop. Each has a queue of net.core.somaxconn (4096) for those
// who have come and said nothing yet: one alone overflows when a fleet comes back, and the kernel then forgets deferAccept, or
// the device.
const listeners = 4

// deferAccept is how many seconds a connection may be silent before the kernel asks it again (another SYN-ACK) and it is accepted
// with the answer; where that is lost, after 3, 7 … 31 s, and forgotten after 63. One that brings its request along costs one
// wait of the loop and not two, and one that says nothing takes no descriptor for so long.
const deferAccept = 1

// resolve finds the addresses to listen on: one for each family, since a dual-stack socket costs each connection more memory.
// It also tells whether they are free: with SO_REUSEPORT a second gateway would get half of the devices. A port that the
// system chose is held until the listeners have it, or somebody else could be given it in between.
func (s *Server) resolve() (held []net.Listener, err error) {
	var free net.ListenConfig
	free.SetMultipathTCP(false) // as the listeners
	if s.cfg.Port == 0 {
		free.Control = reusePort
	}
	ips := []net.IP{net.IPv4zero, net.IPv6unspecified}
	if s.cfg.Host != "" {
		if ips, err = net.LookupIP(s.cfg.Host); err != nil {
			return nil, errors.New("the host to listen on has no address")
		}
	}
	s.port = s.cfg.Port
	seen := map[string]bool{}
	for _, ip := range ips {
		family := "tcp6"
		if ip.To4() != nil {
			family = "tcp4"
		}
		if seen[family] {
			continue
		}
		seen[family] = true
		probe, err := free.Listen(context.Background(), family, net.JoinHostPort(ip.String(), strconv.Itoa(s.port)))
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			return held, fmt.Errorf("port %d is taken by another program", s.port)
		case errors.Is(err, unix.EAFNOSUPPORT) && s.cfg.Host == "":
			continue // a host without IPv6
		case err != nil:
			return held, errors.Unwrap(err)
		}
		s.port = probe.Addr().(*net.TCPAddr).Port
		if s.cfg.Port == 0 {
			held = append(held, probe)
		} else {
			probe.Close()
		}
		for range listeners {
			s.addrs = append(s.addrs, family+"://"+net.JoinHostPort(ip.String(), strconv.Itoa(s.port)))
		}
	}
	return held, nil
}

func reusePort(_, _ string, socket syscall.RawConn) (err error) {
	if over := socket.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); over != nil {
		return over
	}
	return err
}

// OnBoot is gnet's: the listeners of the first loop are open.
func (s *Server) OnBoot(e gnet.Engine) gnet.Action {
	s.engine = e
	return gnet.None
}

// OnTick is gnet's: the listeners of all loops are open. It is not needed again.
func (s *Server) OnTick() (time.Duration, gnet.Action) {
	s.booted <- nil
	return math.MaxInt64, gnet.None
}

// tune sets deferAccept on all listeners, so many: gnet has no option for it and does not tell their descriptors, which are
// among the lowest. Connections that came before it are as they would be without it.
func (s *Server) tune(missing int) error {
	for fd := 0; fd < 1<<16 && missing > 0; fd++ {
		if !slices.Contains(s.addrs, listensOn(fd)) {
			continue
		}
		missing--
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, deferAccept); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d of them were not found", missing)
	}
	return nil
}

// listensOn is the address on which fd listens, in gnet's spelling; "" if it does not.
func listensOn(fd int) string {
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 0 {
		return ""
	}
	switch at, _ := unix.Getsockname(fd); at := at.(type) {
	case *unix.SockaddrInet4:
		return "tcp4://" + netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
	case *unix.SockaddrInet6:
		return "tcp6://" + netip.AddrPortFrom(netip.AddrFrom16(at.Addr), uint16(at.Port)).String()
	}
	return ""
}
