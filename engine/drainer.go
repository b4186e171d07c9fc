package engine

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// drainer waits for sockets that took less than they were given, and tells their connections when they take more. gnet does
// not say when its outbound queue is empty, and a bounded queue and files in steps need just that. It is an epoll
// descriptor of its own, on which one goroutine waits through Go's poller: it costs nothing while no device is slow.
type drainer struct {
	file *os.File // the descriptor, known to Go's poller
	raw  syscall.RawConn
	done chan struct{}

	mu    sync.Mutex
	conns map[uint64]*conn // by a number, not by descriptor: an event may be older than the descriptor's present owner
	last  uint64
}

func newDrainer() (*drainer, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // else os.NewFile keeps it away from the poller
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	d := &drainer{file: os.NewFile(uintptr(fd), "drainer"), done: make(chan struct{}), conns: map[uint64]*conn{}}
	if d.raw, err = d.file.SyscallConn(); err != nil {
		d.file.Close()
		return nil, err
	}
	go d.run()
	return d, nil
}

func (d *drainer) close() {
	d.file.Close()
	<-d.done
}

func (d *drainer) run() {
	defer close(d.done)
	var events [64]unix.EpollEvent
	for {
		n := 0
		var err error
		over := d.raw.Read(func(fd uintptr) bool {
			n, err = unix.EpollWait(int(fd), events[:], 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
		if over != nil || err != nil {
			return
		}
		for _, e := range events[:max(n, 0)] {
			d.mu.Lock()
			c := d.conns[name(e)]
			d.mu.Unlock()
			if c != nil {
				c.guard(c.drain)
			}
		}
	}
}

// watch asks for one call of c.drain when the socket takes bytes. It needs c.mu.
func (d *drainer) watch(c *conn) error {
	op := unix.EPOLL_CTL_MOD
	if c.out.watch == 0 {
		op = unix.EPOLL_CTL_ADD
		d.mu.Lock()
		d.last++
		c.out.watch = d.last
		d.conns[d.last] = c
		d.mu.Unlock()
	}
	e := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT, Fd: int32(c.out.watch), Pad: int32(c.out.watch >> 32)}
	return d.control(op, c, &e)
}

// forget ends the watch. It needs c.mu, and must come before the descriptor is closed.
func (d *drainer) forget(c *conn) {
	d.mu.Lock()
	delete(d.conns, c.out.watch)
	d.mu.Unlock()
	d.control(unix.EPOLL_CTL_DEL, c, nil)
}

// control is epoll_ctl, but for a drainer that is closed: its descriptor may be another's by then.
func (d *drainer) control(op int, c *conn, e *unix.EpollEvent) (err error) {
	if over := d.raw.Control(func(fd uintptr) { err = unix.EpollCtl(int(fd), op, c.sock.Fd(), e) }); over != nil {
		return over
	}
	return err
}

func name(e unix.EpollEvent) uint64 { return uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32 }
