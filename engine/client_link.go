package engine

import (
	"encoding/binary"
	"os"

	"github.com/gobwas/ws"
	"golang.org/x/sys/unix"
)

// The phases of a Link. They only go forward.
const (
	linkDialling   uint8 = iota // TCP's handshake is under way
	linkRequesting              // the request left, its answer is awaited
	linkOpen                    // a WebSocket
	linkLeaving                 // our close frame left, what comes is dropped but for the other one
	linkTold                    // their close frame came and was answered; they end TCP
	linkGone                    // the descriptor is closed
)

// Link is one outgoing connection of a Client. At rest it holds nothing but this.
//
// It ends with one of these: an error of the system while it was dialled; *StatusError or ErrNoHTTP instead of the upgrade;
// *CloseError; ErrLost; one that wraps ErrViolation, and ErrTooBig or ErrNotUTF8.
type Link struct {
	client *Client
	caller Caller
	in     *inbound    // what is half received; nil at rest
	out    *outbound   // what the socket has not taken; nil at rest
	told   *CloseError // the close frame that came
	slot   uint32      // in Client.links
	dial   uint32      // its number, which tells it from others in the same slot
	fd     int32
	phase  uint8
	deaf   bool
}

// Send writes b, which holds whole frames (BeginMasked, EndMasked), and queues without bound what the socket does not take.
// The Link owns b from now on. It does nothing unless the link is open.
func (l *Link) Send(b *Buffer) {
	owned(b)
	if l.phase != linkOpen {
		PutBuffer(b)
		return
	}
	l.write(b)
}

// write leaves a failure to the event that follows it: a Caller is never told of the end in the middle of a call of its own.
func (l *Link) write(b *Buffer) {
	if l.out != nil {
		l.out.waiting = append(l.out.waiting, b)
		l.out.size += len(b.B)
		return
	}
	n, err := writeSome(int(l.fd), b.B)
	if n == len(b.B) || err != unix.EAGAIN {
		PutBuffer(b)
		return
	}
	l.out = &outbound{waiting: []*Buffer{b}, written: n, size: len(b.B) - n}
}

// Pending is the number of sent bytes that the socket has not taken yet.
func (l *Link) Pending() int {
	if l.out == nil {
		return 0
	}
	return l.out.size
}

// Open tells whether Send still sends.
func (l *Link) Open() bool { return l.phase == linkOpen }

// SetDeaf makes the link read nothing, answer no ping and notice only that the other end is gone; or ends that.
func (l *Link) SetDeaf(deaf bool) {
	was := l.deaf
	l.deaf = deaf
	if was && !deaf && l.phase < linkGone {
		l.event(unix.EPOLLIN)
	}
}

// Close says goodbye with the code; Closed(nil) comes once the other end has answered and ended TCP. A link that is not open
// is dropped, and Closed(nil) called at once.
func (l *Link) Close(code int) {
	switch l.phase {
	case linkDialling, linkRequesting:
		l.finish(nil)
	case linkOpen:
		b := GetBuffer()
		start := BeginMasked(b)
		b.B = binary.BigEndian.AppendUint16(b.B, uint16(code))
		l.client.endMasked(b, start, ws.OpClose)
		l.write(b)
		l.phase = linkLeaving
	}
}

// Drop ends the connection at once, with a reset: no port is left to wait. Closed is not called.
func (l *Link) Drop() {
	if l.phase == linkGone {
		return
	}
	unix.SetsockoptLinger(int(l.fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	l.release()
}

func (l *Link) release() {
	l.phase = linkGone
	unix.Close(int(l.fd))
	l.client.links[l.slot] = nil
	l.client.free = append(l.client.free, l.slot)
	if l.in != nil {
		l.in.release()
		l.in = nil
	}
	if l.out != nil {
		l.out.release()
		l.out = nil
	}
}

// finish is the end, of which the caller is told.
func (l *Link) finish(err error) {
	if l.phase == linkGone {
		return
	}
	l.release()
	l.caller.Closed(l, err, l.client.cfg.Now())
}

// event is called on the loop with what epoll says.
func (l *Link) event(events uint32) {
	const gone = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	if l.phase == linkDialling {
		if events&(unix.EPOLLOUT|gone) == 0 {
			return
		}
		if errno, err := unix.GetsockoptInt(int(l.fd), unix.SOL_SOCKET, unix.SO_ERROR); err != nil || errno != 0 {
			l.finish(os.NewSyscallError("connect", unix.Errno(errno)))
			return
		}
		l.connected()
	}
	if events&unix.EPOLLOUT != 0 && l.out != nil {
		if l.out.flush(int(l.fd)) != nil {
			events |= unix.EPOLLERR // reading finds out the rest
			l.out.release()
			l.out = nil
		} else if l.out.size == 0 {
			l.out = nil
		}
	}
	if l.phase < linkGone && events&(unix.EPOLLIN|gone) != 0 && (!l.deaf || events&gone != 0) {
		l.receive(events&gone != 0)
	}
}

// receive reads until nothing is left. A read that does not fill the buffer is the last one, unless the stream has ended too.
func (l *Link) receive(toTheEnd bool) {
	for l.phase < linkGone {
		n, err := unix.Read(int(l.fd), l.client.read)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return
		case err != nil, n <= 0:
			l.ended()
			return
		}
		if err := l.traffic(l.client.read[:n]); err != nil {
			l.finish(err)
			return
		}
		if n < len(l.client.read) && !toTheEnd {
			return
		}
	}
}

// ended is called at the end of the stream, in order or not.
func (l *Link) ended() {
	switch {
	case l.phase == linkLeaving && l.told != nil:
		l.finish(nil)
	case l.told != nil:
		l.finish(l.told)
	case l.phase == linkRequesting && l.in != nil:
		l.finish(ErrNoHTTP)
	default:
		l.finish(ErrLost)
	}
}

func (l *Link) connected() {
	l.phase = linkRequesting
	l.caller.Connected(l, l.client.cfg.Now())
	if l.phase != linkRequesting {
		return
	}
	b, key := GetBuffer(), l.key()
	b.B = append(b.B, l.client.request...)
	b.B = append(b.B, key[:]...)
	b.B = append(b.B, "\r\n\r\n"...)
	l.write(b)
}
