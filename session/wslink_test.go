package session

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"mobilegate/internal/transcript"
)

// pieces is how the bytes of a device are cut on their way.
type pieces int

const (
	wholeMessages pieces = iota
	singleBytes
	randomPieces
	corked // until somebody wants to hear the answer
)

// wsLink is a WebSocket client that frames by itself.
type wsLink struct {
	t      *testing.T
	conn   *net.TCPConn
	pieces pieces
	done   chan struct{} // closed when the reader has ended

	out    sync.Mutex // guards the writing side
	cork   []byte
	random *rand.Rand

	mu            sync.Mutex
	heard         []transcript.Heard
	spoke, ready  bool // the hello was said; ready was heard
	asleep, ended bool
	device        string
	stopped       chan struct{} // closed when the device reads on; nil while it does
	wire          assembly
	owed          [][]byte // pings that came in its sleep
	pinged, pong  uint64   // numbers of the last ping of ours and of its answer
	taken         uint64   // bytes that the reader has looked at
}

// state is the phase as far as the device knows it.
func (l *wsLink) state() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return ended
	case l.ready:
		return admitted
	case l.spoke:
		return deciding
	}
	return stranger
}

// canPing: a device that sleeps sends nothing, and while a hello is decided the engine reads nothing.
func (l *wsLink) canPing() bool {
	state := l.state()
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.asleep && l.stopped == nil && state != ended && state != deciding
}

func (l *wsLink) ping() {
	l.mu.Lock()
	l.pinged++
	n := l.pinged
	l.mu.Unlock()
	l.write(clientFrame(9, binary.BigEndian.AppendUint64(nil, n)))
	l.flush()
}

// ponged tells whether the last ping was answered: then the server has read everything before it.
func (l *wsLink) ponged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pong == l.pinged
}

// idle tells whether the reader has looked at all that the server wrote, as far as the network has taken it.
func (l *wsLink) idle() bool {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return false
	}
	var info *unix.TCPInfo
	raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO) })
	l.mu.Lock()
	defer l.mu.Unlock()
	const established = 1
	return l.ended || l.stopped != nil || err == nil && info.State == established && info.Bytes_received == l.taken
}

func (l *wsLink) Say(message []byte) {
	l.mu.Lock()
	l.spoke = true
	l.mu.Unlock()
	l.write(clientFrame(1, message))
}

func (l *wsLink) Hear() (transcript.Heard, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.heard) == 0 {
		return transcript.Heard{}, false
	}
	h := l.heard[0]
	l.heard = l.heard[1:]
	return h, true
}

func (l *wsLink) Do(deed transcript.Deed) {
	l.flush()
	l.mu.Lock()
	was := l.ended
	l.ended = was || deed == transcript.Leave || deed == transcript.Break
	l.asleep = deed == transcript.Sleep
	owed := l.owed
	if deed == transcript.Wake {
		l.owed = nil
	}
	switch {
	case deed == transcript.Stop:
		l.conn.SetReadBuffer(64 << 10) // or the kernel takes in the device's place
		l.stopped = make(chan struct{})
	case l.stopped != nil:
		close(l.stopped)
		l.stopped = nil
	}
	l.mu.Unlock()
	switch {
	case was:
	case deed == transcript.Leave:
		l.write(clientFrame(8, []byte{0x03, 0xE8}))
		l.flush()
	case deed == transcript.Break:
		l.conn.Close()
	case deed == transcript.Wake:
		for _, payload := range owed {
			l.write(clientFrame(10, payload))
			l.flush()
		}
	}
}

// clientFrame is a whole masked frame.
func clientFrame(op byte, payload []byte) []byte {
	b := []byte{0x80 | op}
	switch n := len(payload); {
	case n <= 125:
		b = append(b, 0x80|byte(n))
	case n <= 65535:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := [4]byte{0x37, 0xFA, 0x21, 0x3D}
	b = append(b, mask[:]...)
	key := bytes.Repeat(mask[:], (len(payload)+3)/4)
	subtle.XORBytes(key, key, payload)
	return append(b, key[:len(payload)]...)
}

// write sends b in pieces. That the server has ended the connection meanwhile is no error.
func (l *wsLink) write(b []byte) {
	l.out.Lock()
	defer l.out.Unlock()
	switch l.pieces {
	case corked:
		l.cork = append(l.cork, b...)
	case wholeMessages:
		l.conn.Write(b)
	default:
		for at := 0; len(b) > 0; at++ {
			n := 1
			if at > 500 && len(b) > 4<<10 {
				n = 4000 // the inside of a long message, where no byte differs from the next
			} else if l.pieces == randomPieces {
				if l.random == nil {
					l.random = rand.New(rand.NewPCG(uint64(len(b)), 1))
				}
				n = min(len(b), 1+l.random.IntN(1+l.random.IntN(40)))
			}
			if _, err := l.conn.Write(b[:n]); err != nil {
				return
			}
			b = b[n:]
			runtime.Gosched() // the loop shall meet the piece alone
		}
	}
}

func (l *wsLink) flush() {
	l.out.Lock()
	defer l.out.Unlock()
	if len(l.cork) > 0 {
		l.conn.Write(l.cork)
		l.cork = nil
	}
}

// read takes what the server sends until the end.
func (l *wsLink) read() {
	defer close(l.done)
	defer l.conn.Close()
	var in []byte
	upgraded, farewell := false, false
	chunk := make([]byte, 16<<10)
	for {
		n, err := l.conn.Read(chunk)
		l.pause()
		in = append(in, chunk[:n]...)
		if !upgraded {
			head, rest, whole := bytes.Cut(in, []byte("\r\n\r\n"))
			if whole && !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
				l.t.Errorf("no upgrade: %.80q", head)
				return
			}
			if upgraded = whole; whole {
				in = rest
			}
		}
		for upgraded {
			f, size, err := readServerFrame(in)
			if err == nil && size == 0 {
				break
			}
			if err == nil {
				err = l.take(f)
			}
			if err != nil {
				l.t.Errorf("the server sends what is no frame: %v", err)
				return
			}
			farewell = farewell || f.op == 8
			in = in[size:]
		}
		l.mu.Lock()
		l.taken += uint64(n)
		l.mu.Unlock()
		if err != nil {
			l.end(err, farewell)
			return
		}
	}
}

// pause waits while the device reads nothing.
func (l *wsLink) pause() {
	l.mu.Lock()
	stopped := l.stopped
	l.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

// isStopped tells whether the device takes nothing.
func (l *wsLink) isStopped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped != nil
}

// habits tells whether the link is the device's, and whether that has stopped, or sleeps.
func (l *wsLink) habits(device string) (is, stopped, asleep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.device == device, l.stopped != nil, l.asleep
}

// take notes what came.
func (l *wsLink) take(f wireFrame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch f.op {
	case 10:
		l.pong = binary.BigEndian.Uint64(f.payload)
		return nil
	case 9:
		if p := append([]byte{}, f.payload...); l.asleep {
			l.owed = append(l.owed, p)
		} else {
			defer func() { // the writing side may wait for a reader
				go func() { l.write(clientFrame(10, p)); l.flush() }()
			}()
		}
	case 8:
		l.ended = true
	}
	h, whole, err := l.wire.take(f)
	if err != nil || !whole {
		return err
	}
	if rest, ready := bytes.CutPrefix(h.Frame, []byte(`{"t":"ready","v":1,"session":"mobile:`)); ready {
		device, _, _ := bytes.Cut(rest, []byte(`"`))
		l.ready, l.device = true, string(device)
	}
	l.heard = append(l.heard, h)
	return nil
}

// end notes the end of TCP. After a close frame it must be an orderly one.
func (l *wsLink) end(err error, farewell bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if farewell && err != io.EOF && !errors.Is(err, net.ErrClosed) {
		l.t.Errorf("the last words may be lost: %v", err)
	}
	if !farewell && !l.ended {
		l.heard = append(l.heard, transcript.Heard{Reason: fmt.Sprint(err)})
	}
	l.ended = true
}
