package bench

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// device is one simulated device: an own small client of RFC 6455 and of the protocol, so that the yardstick does not
// measure the gateway's code with the gateway's code. It belongs to its crowd's goroutine.
type device struct {
	fd     int
	id     string // 36 characters
	in     []byte // bytes of a frame that is not whole yet
	out    []byte // what the socket has not taken
	ready  bool
	silent bool // misbehaves: nothing is read and no ping answered, or its frame is never finished

	said  int         // turns asked for, which also names them
	due   []time.Time // of the turns under way, oldest first: they end in this order
	heard bool        // the running turn had a message or a file
	got   int         // bytes of files in the running turn
	want  int         // and how many they must be at least
	left  int         // turns to ask for, one after the other
}

const upgradeRequest = "GET /ws HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n\r\n"

var mask = [4]byte{0x37, 0xFA, 0x21, 0x3D}

// Operation codes of RFC 6455 that a device meets.
const (
	opMore  = 0
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

// clientFrame is a whole masked frame.
func clientFrame(op byte, payload []byte) []byte {
	b := append(frameHead(op, len(payload)), payload...)
	for i := range payload {
		b[len(b)-len(payload)+i] ^= mask[i&3]
	}
	return b
}

// frameHead is the header of a masked frame with a payload of n bytes.
func frameHead(op byte, n int) []byte {
	b := make([]byte, 0, 14+n)
	switch {
	case n <= 125:
		b = append(b, 0x80|op, 0x80|byte(n))
	case n <= 65535:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|op, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|op, 0x80|127), uint64(n))
	}
	return append(b, mask[:]...)
}

// open begins to connect. A narrow device has the segments of a mobile link and a small window, so that the gateway's
// kernel takes little of what the device does not read.
func (d *device) open(to *unix.SockaddrInet4, narrow bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d.fd = fd
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // no TIME_WAIT: ports are few
	if narrow {
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1400)
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	}
	if err := unix.Connect(fd, to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	d.out = []byte(upgradeRequest)
	return nil
}

func (d *device) hello(token string) []byte {
	return clientFrame(opText, fmt.Appendf(nil, `{"t":"hello","token":%q,"device":{"id":%q,"name":"Phone","platform":"android","app_version":"1.0.0"}}`, token, d.id))
}

// text is a text frame of size bytes, or of its natural size with 0.
func (d *device) text(text string, size int) []byte {
	d.said++
	b := fmt.Appendf(nil, `{"t":"text","id":"6f9619ff-8b86-4d01-b42d-%012d","text":%s`, d.said, strconv.Quote(text))
	if pad := size - len(b) - len(`,"pad":""}`); pad > 0 {
		b = append(b, `,"pad":"`...)
		b = append(b, bytes.Repeat([]byte("x"), pad)...)
		b = append(b, '"')
	}
	return clientFrame(opText, append(b, '}'))
}

// uploadParts is how many frames bring an upload.
const uploadParts = 4

// voice is an audio frame of about size bytes.
func (d *device) voice(size int) []byte {
	d.said++
	data := encoded(size / 4 * 3)
	d.want = len(data)
	return clientFrame(opText, fmt.Appendf(nil, `{"t":"audio","id":"6f9619ff-8b86-4d01-b42d-%012d","format":"ogg","data":"%s"}`, d.said, data))
}

// part is one part, of size bytes, of an upload.
func (d *device) part(part, size int) []byte {
	if part == 0 {
		d.said++
	}
	data := encoded(size)
	d.want += len(data)
	return clientFrame(opText, fmt.Appendf(nil, `{"t":"media","id":"6f9619ff-8b86-4d01-b42d-%012d","kind":"document","filename":"plan.pdf","part":%d,"parts":%d,"data":"%s"}`,
		d.said, part, uploadParts, data))
}

// encoded is base64 of size bytes that do not repeat themselves.
func encoded(size int) []byte {
	if b := files[size]; b != nil {
		return b
	}
	raw := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(raw)
	files[size] = base64.StdEncoding.AppendEncode(nil, raw)
	return files[size]
}

var files = map[int][]byte{}

// keep holds b, which does not end a frame, until more comes. b may be what is held, or its end.
func (d *device) keep(b []byte) {
	if len(d.in) != len(b) {
		d.in = append(d.in[:0], b...)
	}
}

// heardFrame is what a device makes of one frame of the gateway.
type heardFrame uint8

const (
	other heardFrame = iota
	ready
	message
	file // the first fragment of it
	turnEnd
	idle // the avatar frame that comes 3 s after a turn
	refusal
	delivered
)

func classify(payload []byte) heardFrame {
	starts := func(s string) bool { return bytes.HasPrefix(payload, []byte(s)) }
	switch {
	case starts(`{"t":"message"`):
		return message
	case starts(`{"t":"media"`):
		return file
	case starts(`{"t":"typing"`) && bytes.Contains(payload, []byte(`"stop":true`)):
		return turnEnd
	case starts(`{"t":"avatar"`) && bytes.Contains(payload, []byte(`"idle"`)):
		return idle
	case starts(`{"t":"ready"`):
		return ready
	case starts(`{"t":"error"`):
		return refusal
	case starts(`{"t":"delivered"`):
		return delivered
	}
	return other
}

// serverFrame splits the first frame off b; whole is false when b does not hold all of it.
func serverFrame(b []byte) (op byte, payload, rest []byte, whole bool) {
	if len(b) < 2 {
		return 0, nil, b, false
	}
	n, head := int(b[1]), 2
	switch {
	case n == 126 && len(b) >= 4:
		n, head = int(binary.BigEndian.Uint16(b[2:])), 4
	case n == 127 && len(b) >= 10:
		n, head = int(binary.BigEndian.Uint64(b[2:])), 10
	case n >= 126:
		return 0, nil, b, false
	}
	if len(b) < head+n {
		return 0, nil, b, false
	}
	return b[0] & 0x0F, b[head : head+n], b[head+n:], true
}
