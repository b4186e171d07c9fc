package interop

import (
	"bufio"
	endian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// line is a connection that does what no client library would: it stops in the middle of a message, never reads, or sends
// thousands of frames in one write. Its frames are masked with zeros, so that data for many lines is shared between them.
type line struct {
	net.Conn
	in      *bufio.Reader
	writing sync.Mutex
}

// openLine connects and says hello; it answers once the device is ready.
func openLine(address, id string) (*line, error) {
	conn, err := net.DialTimeout("tcp", address, late)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	hello := fmt.Sprintf(`{"t":"hello","token":%s,"device":{"id":%s}}`, quote(token), quote(id))
	_, err = fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n%s", text(hello))
	if err == nil {
		err = l.welcomed()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

func (l *line) welcomed() error {
	l.SetReadDeadline(time.Now().Add(late))
	defer l.SetReadDeadline(time.Time{})
	answer, err := http.ReadResponse(l.in, nil)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return errors.New(answer.Status)
	}
	head, _, err := l.hear()
	if err == nil && !strings.HasPrefix(head, `{"t":"ready"`) {
		err = errors.New("no ready: " + head)
	}
	return err
}

// header is the header of a frame with so many bytes of payload.
func header(op byte, size int) []byte {
	b := []byte{0x80 | op}
	switch {
	case size <= 125:
		b = append(b, 0x80|byte(size))
	case size <= 65535:
		b = endian.BigEndian.AppendUint16(append(b, 0x80|126), uint16(size))
	default:
		b = endian.BigEndian.AppendUint64(append(b, 0x80|127), uint64(size))
	}
	return append(b, 0, 0, 0, 0)
}

// text is a whole text frame.
func text(payload string) []byte { return append(header(1, len(payload)), payload...) }

// send writes one text message, which is given in parts so that it need not be put together.
func (l *line) send(parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	whole := net.Buffers(append([][]byte{header(1, size)}, parts...))
	_, err := whole.WriteTo(l.Conn)
	return err
}

// goodbye is the end of a connection as the gateway said it.
type goodbye struct {
	code   int
	reason string
}

func (g goodbye) Error() string { return fmt.Sprint(g.code, " ", g.reason) }

// hear reads the next message: the beginning of it, and how long it is. Pings are answered.
func (l *line) hear() (head string, size int, err error) {
	var begin []byte
	for {
		var h [10]byte
		if _, err = io.ReadFull(l.in, h[:2]); err != nil {
			return "", 0, err
		}
		n := int(h[1])
		switch n {
		case 126:
			_, err = io.ReadFull(l.in, h[2:4])
			n = int(endian.BigEndian.Uint16(h[2:]))
		case 127:
			_, err = io.ReadFull(l.in, h[2:10])
			n = int(endian.BigEndian.Uint64(h[2:]))
		}
		if err != nil {
			return "", 0, err
		}
		if op := h[0] & 0x0F; op >= 8 {
			if err = l.control(op, n); err != nil {
				return "", 0, err
			}
			continue
		}
		keep := make([]byte, min(n, 2<<10-len(begin)))
		if _, err = io.ReadFull(l.in, keep); err != nil {
			return "", 0, err
		}
		if _, err = l.in.Discard(n - len(keep)); err != nil {
			return "", 0, err
		}
		begin, size = append(begin, keep...), size+n
		if h[0]&0x80 != 0 {
			return string(begin), size, nil
		}
	}
}

// control takes a control frame; a close frame is the end.
func (l *line) control(op byte, n int) error {
	body := make([]byte, n)
	if _, err := io.ReadFull(l.in, body); err != nil {
		return err
	}
	switch {
	case op == 8 && n >= 2:
		return goodbye{int(endian.BigEndian.Uint16(body)), string(body[2:])}
	case op == 8:
		return goodbye{}
	case op == 9:
		l.writing.Lock()
		defer l.writing.Unlock()
		_, err := l.Write(append(header(10, n), body...))
		return err
	}
	return nil
}
