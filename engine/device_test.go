package engine

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"
)

const (
	goodKey     = "dGhlIHNhbXBsZSBub25jZQ=="     // the example of RFC 6455, 1.3
	goodAccept  = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" // its answer
	goodRequest = "GET /ws HTTP/1.1\r\nHost: gate\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + goodKey + "\r\n\r\n"
)

func gnetDone(done chan struct{}) gnet.AsyncCallback {
	return func(gnet.Conn, error) error {
		close(done)
		return nil
	}
}

// maskKey masks every frame of the tests: the one of the examples in RFC 6455, 5.7.
var maskKey = [4]byte{0x37, 0xFA, 0x21, 0x3D}

// wire is a masked frame with the first byte first, and the length in its shortest form.
func wire(first byte, payload string) []byte {
	form := 0
	switch {
	case len(payload) > 65535:
		form = 8
	case len(payload) > 125:
		form = 2
	}
	return announce(first, form, uint64(len(payload)), payload)
}

// announce is a masked frame that says length in form further bytes, whatever the payload is.
func announce(first byte, form int, length uint64, payload string) []byte {
	b := []byte{first}
	switch form {
	case 0:
		b = append(b, 0x80|byte(length))
	case 2:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(length))
	case 8:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), length)
	}
	b = append(b, maskKey[:]...)
	head := len(b)
	b = append(b, payload...)
	ws.Cipher(b[head:], maskKey, 0)
	return b
}

const fin = 0x80

func text(s string) []byte { return wire(fin|byte(ws.OpText), s) }
func data(s string) []byte { return wire(fin|byte(ws.OpBinary), s) }
func ping(s string) []byte { return wire(fin|byte(ws.OpPing), s) }
func goodbye(code int, reason string) []byte {
	return wire(fin|byte(ws.OpClose), string(binary.BigEndian.AppendUint16(nil, uint16(code)))+reason)
}

// pipe is a net.Conn or one end of a socketpair.
type pipe interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}

// device is the client's side of a connection.
type device struct {
	pipe
	t testing.TB
	r *bufio.Reader
}

func newDevice(t testing.TB, c pipe) *device {
	d := &device{pipe: c, t: t, r: bufio.NewReader(c)}
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { c.Close() })
	return d
}

// put writes b in one segment, if it is small.
func (d *device) put(b ...[]byte) {
	d.t.Helper()
	var all []byte
	for _, p := range b {
		all = append(all, p...)
	}
	_, err := d.Write(all)
	require.NoError(d.t, err)
}

// response reads an HTTP response to a request with the method.
func (d *device) response(method string) (r *http.Response, body string) {
	d.t.Helper()
	r, err := http.ReadResponse(d.r, &http.Request{Method: method})
	require.NoError(d.t, err)
	if r.StatusCode == http.StatusSwitchingProtocols {
		return r, ""
	}
	b, err := io.ReadAll(r.Body)
	require.NoError(d.t, err)
	return r, string(b)
}

func (d *device) upgraded() {
	d.t.Helper()
	r, _ := d.response("GET")
	require.Equal(d.t, http.StatusSwitchingProtocols, r.StatusCode)
	require.Equal(d.t, goodAccept, r.Header.Get("Sec-WebSocket-Accept"))
}

// hears is the next frame in words: "text hello", "pong x", "close 1000 reason"; or how the stream ended: "end" after the
// server ended TCP in order.
func (d *device) hears() string {
	s, err := readFrame(d.r)
	switch {
	case err == nil:
		return s
	case errors.Is(err, io.EOF):
		return "end"
	}
	return err.Error()
}

func (d *device) wants(frames ...string) {
	d.t.Helper()
	for _, want := range frames {
		if got := d.hears(); got != want {
			require.Equal(d.t, brief(want), brief(got))
			require.FailNow(d.t, "frames of equal begin differ", brief(want))
		}
	}
}

// bidden reads the last words that belong to err, and the end of TCP.
func (d *device) bidden(err error, admitted bool) {
	d.t.Helper()
	w := words[err]
	d.wants("text "+lastWords(err, admitted), fmt.Sprintf("close %d %s", w.code, w.reason), "end")
}

func brief(s string) string {
	if len(s) > 200 {
		return fmt.Sprintf("%s… (%d bytes)", s[:200], len(s))
	}
	return s
}

// readFrame reads one frame of a server and holds it to RFC 6455: whole, unmasked, no reserved bits, shortest length.
func readFrame(r *bufio.Reader) (string, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return "", io.ErrUnexpectedEOF
	}
	op, length := ws.OpCode(head[0]&0x0F), uint64(head[1])
	if head[0]&0xF0 != fin || head[1]&0x80 != 0 {
		return "", fmt.Errorf("a frame that begins with %x", head)
	}
	if form := map[uint64]int{126: 2, 127: 8}[length]; form > 0 {
		var ext [8]byte
		if _, err := io.ReadFull(r, ext[8-form:]); err != nil {
			return "", io.ErrUnexpectedEOF
		}
		length = binary.BigEndian.Uint64(ext[:])
		if length < 126 || form == 8 && length < 1<<16 || op.IsControl() || length > 64<<20 {
			return "", fmt.Errorf("a frame of %d bytes in form %d", length, form)
		}
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return "", io.ErrUnexpectedEOF
	}
	switch op {
	case ws.OpText:
		return "text " + string(payload), nil
	case ws.OpPing:
		return "ping " + string(payload), nil
	case ws.OpPong:
		return "pong " + string(payload), nil
	case ws.OpClose:
		if len(payload) < 2 {
			return strings.TrimSpace("close " + string(payload)), nil
		}
		return strings.TrimSpace(fmt.Sprintf("close %d %s", binary.BigEndian.Uint16(payload), payload[2:])), nil
	}
	return "", fmt.Errorf("a frame with opcode %x", op)
}
