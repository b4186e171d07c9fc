package engine

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// host is a server of the test's own: it says what it is told after the upgrade, and keeps what it reads.
type host struct {
	net.Listener
	conn net.Conn
	r    *bufio.Reader
}

func newForeign(t testing.TB) *host {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	f := &host{Listener: l}
	t.Cleanup(func() {
		l.Close()
		if f.conn != nil {
			f.conn.Close()
		}
	})
	return f
}

// meet takes one connection and answers its request with answer, in which KEY stands for the right one.
func (f *host) meet(answer string) error {
	conn, err := f.Accept()
	if err != nil {
		return err
	}
	f.conn, f.r = conn, bufio.NewReader(conn)
	request, err := http.ReadRequest(f.r)
	if err != nil {
		return err
	}
	digest := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, err = io.WriteString(conn, strings.ReplaceAll(answer, "KEY", base64.StdEncoding.EncodeToString(digest[:])))
	return err
}

const welcome = "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nsec-websocket-accept: KEY\r\n\r\n"

// bareFrame is a frame of a server.
func bareFrame(first byte, payload string) string {
	var b Buffer
	start := BeginFrame(&b)
	b.B = append(b.B, payload...)
	EndFrame(&b, start)
	b.B[start] = first
	return string(b.B)
}

// What the answer of another server may be, in whole and byte by byte, and what a link makes of it.
var foreignAnswers = []struct {
	name, answer string
	heard        []string
	err          error // errors.Is, or equal
}{
	{"frames right behind the upgrade", welcome + bareFrame(fin|textOp, "a") + bareFrame(fin|dataOp, "b"), []string{"a", "b"}, ErrLost},
	{"fragments, and a ping between", welcome + bareFrame(textOp, "a") + bareFrame(fin|byte(ws.OpPing), "x") + bareFrame(contOp, "b") + bareFrame(fin|contOp, "c"), []string{"abc"}, ErrLost},
	{"an empty fragment", welcome + bareFrame(textOp, "") + bareFrame(fin|contOp, ""), []string{""}, ErrLost},
	{"a close frame", welcome + bareFrame(fin|byte(ws.OpClose), "\x03\xf0no") + bareFrame(fin|textOp, "late"), nil, &CloseError{1008, "no"}},
	{"a close frame without a code", welcome + bareFrame(fin|byte(ws.OpClose), ""), nil, &CloseError{1005, ""}},
	{"half a frame", welcome + bareFrame(fin|textOp, "abc")[:3], nil, ErrLost},
	{"a masked frame", welcome + string(text("a")), nil, ErrViolation},
	{"a reserved bit", welcome + bareFrame(fin|0x40|textOp, "a"), nil, ErrViolation},
	{"a long length of a short frame", welcome + "\x81\x7e\x00\x01a", nil, ErrViolation},
	{"a continuation of nothing", welcome + bareFrame(fin|contOp, "a"), nil, ErrViolation},
	{"a close frame of one byte", welcome + bareFrame(fin|byte(ws.OpClose), "x"), nil, ErrViolation},
	{"a bad close code", welcome + bareFrame(fin|byte(ws.OpClose), "\x00\x01"), nil, ErrViolation},
	{"text that is not UTF-8", welcome + bareFrame(fin|textOp, "\xff"), nil, ErrNotUTF8},
	{"text that is not UTF-8, in fragments", welcome + bareFrame(textOp, "\xd0") + bareFrame(fin|contOp, "a"), nil, ErrNotUTF8},
	{"a message over the limit", welcome + bareFrame(fin|textOp, strings.Repeat("x", maxMessage+1)), nil, ErrTooBig},
	{"fragments over the limit", welcome + bareFrame(textOp, strings.Repeat("x", maxMessage)) + bareFrame(fin|contOp, "x"), nil, ErrTooBig},
	{"no capacity", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", nil, &StatusError{503}},
	{"a wrong key", strings.ReplaceAll(welcome, "KEY", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), nil, ErrViolation},
	{"an extension nobody asked for", strings.Replace(welcome, "\r\n\r\n", "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n", 1), nil, ErrViolation},
	{"no Upgrade", strings.Replace(welcome, "upgrade: WebSocket\r\n", "", 1), nil, ErrViolation},
	{"another protocol", "SSH-2.0-OpenSSH_9.6\r\n\r\n", nil, ErrNoHTTP},
	{"half an answer", welcome[:40], nil, ErrNoHTTP},
	{"no end of headers", "HTTP/1.1 101 x\r\n" + strings.Repeat("x", maxRequest), nil, ErrNoHTTP},
	{"nothing", "", nil, ErrLost},
}

func TestClientAgainstForeignServers(t *testing.T) {
	for _, x := range foreignAnswers {
		t.Run(x.name, func(t *testing.T) {
			f := newForeign(t)
			c := newClient(t, f.Addr().String(), ClientConfig{MaxMessage: maxMessage, Target: "/ws?x=1"})
			var who caller
			l, err := c.Call(&who, 0)
			require.NoError(t, err)
			served := make(chan error, 1)
			go func() {
				err := f.meet(x.answer)
				if err == nil {
					err = f.conn.(*net.TCPConn).CloseWrite()
				}
				served <- err
			}()
			runUntil(t, c, "the link ends", func() bool { return len(who.ended) > 0 })
			<-served
			require.Equal(t, x.heard, who.heard)
			requireIs(t, x.err, who.ended[0])
			require.Len(t, who.ended, 1)
			require.False(t, l.Open())
			require.NoError(t, f.conn.SetDeadline(time.Now().Add(patience)))
			if strings.Contains(x.name, "ping") {
				requireMasked(t, f.r, "pong x")
			}
			if want, is := x.err.(*CloseError); is && want.Code == 1008 {
				requireMasked(t, f.r, "close 1008")
			}
		})
	}
}

func requireIs(t *testing.T, want, got error) {
	t.Helper()
	if !errors.Is(got, want) {
		require.Equal(t, want, got)
	}
}

// requireMasked reads one masked control frame.
func requireMasked(t *testing.T, r io.Reader, want string) {
	t.Helper()
	f, err := ws.ReadFrame(r)
	require.NoError(t, err)
	require.True(t, f.Header.Masked)
	require.NotZero(t, f.Header.Mask)
	f = ws.UnmaskFrameInPlace(f)
	got := map[ws.OpCode]string{ws.OpPong: "pong ", ws.OpClose: "close "}[f.Header.OpCode]
	if f.Header.OpCode == ws.OpClose {
		code, _ := ws.ParseCloseFrameData(f.Payload)
		got += fmt.Sprint(uint16(code))
	} else {
		got += string(f.Payload)
	}
	require.Equal(t, want, got)
}

// However the stream is cut, a link makes the same of it.
func TestClientSlices(t *testing.T) {
	c := newClient(t, "127.0.0.1:1", ClientConfig{MaxMessage: maxMessage, Seed: 7})
	random := rand.New(rand.NewPCG(1, 2))
	for _, x := range foreignAnswers {
		for range 5 {
			var who caller
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			l := &Link{client: c, caller: &who, fd: int32(pair[0]), phase: linkRequesting, dial: 1}
			c.links, c.free = []*Link{l}, nil
			key := l.key()
			digest := sha1.Sum(append(key[:], "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...))
			stream := []byte(strings.ReplaceAll(x.answer, "KEY", base64.StdEncoding.EncodeToString(digest[:])))
			for scale := 1 + random.IntN(40); len(stream) > 0 && l.phase < linkGone; {
				n := min(1+random.IntN(scale), len(stream))
				if err := l.traffic(bytes.Clone(stream[:n])); err != nil {
					l.finish(err)
				}
				stream = stream[n:]
			}
			if l.phase < linkGone {
				l.ended()
			}
			require.Equal(t, x.heard, who.heard, x.name)
			require.Len(t, who.ended, 1, x.name)
			requireIs(t, x.err, who.ended[0])
			require.Nil(t, l.in)
			require.NoError(t, unix.Close(pair[1]))
		}
	}
	c.links, c.free = nil, nil
}
