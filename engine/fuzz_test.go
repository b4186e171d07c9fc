package engine

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzFrames: whatever bytes come after the upgrade, and however they are cut, a conn makes of them what the reference does,
// answers in good frames only, and holds no more memory than it was given bytes.
func FuzzFrames(f *testing.F) {
	for i, rule := range rules() {
		if stream := bytes.Join(rule.frames, nil); len(stream) < 1000 {
			f.Add(stream, uint64(i))
		}
	}
	for _, length := range []uint64{1 << 16, maxMessage, 1 << 32, 1<<63 - 1} {
		f.Add(announce(fin|dataOp, 8, length, "x"), uint64(1))
		f.Add(append(wire(more|dataOp, "a"), announce(fin|contOp, 8, length, "x")...), uint64(2))
	}
	s, _ := bare(f, Config{MaxMessage: maxMessage, MaxHello: maxMessage}, newDesk())
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		scale := 1 + r.IntN(64)
		outcomeOf(t, s, stream, func(int) int { return 1 + r.IntN(scale) }).requireEqual(t, reference(stream, maxMessage), seed)
		holdsWhatCame(t, s, stream, scale, ahead)
	})
}

// holdsWhatCame plays stream to a conn and looks at what it has allocated after each piece: so many times what came, at most.
func holdsWhatCame(t *testing.T, s *Server, stream []byte, piece, times int) {
	l, _ := ownedBy(t, s, func(p *owner) { p.message = func(_ Conn, b *Buffer) { PutMessage(b) } })
	defer l.finish()
	came := 0
	l.takes(stream, func(left int) int {
		came = len(stream) - left
		if in := l.in; in != nil && in.message != nil {
			require.LessOrEqual(t, cap(in.message.B), max(maxPooled, times*came*9/8))
		}
		return piece
	})
}

// FuzzRequest: whatever bytes come on a new connection, and however they are cut, the answer is the same: none yet, or one
// well-formed HTTP response; and what is upgraded is a request of which net/http says the same.
func FuzzRequest(f *testing.F) {
	for _, x := range upgrades {
		f.Add([]byte(x.request), uint64(3))
	}
	f.Add([]byte(goodRequest+string(ping("x"))), uint64(9))
	s, _ := bare(f, Config{MaxConnections: 1}, newDesk())
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		if end := bytes.Index(stream, []byte("\r\n\r\n")); end >= 0 {
			stream = stream[:end+4]
		}
		r := rand.New(rand.NewPCG(seed, 0))
		scale := 1 + r.IntN(64)
		whole := responseTo(t, s, stream, func(left int) int { return left })
		require.Equal(t, whole, responseTo(t, s, stream, func(int) int { return 1 + r.IntN(scale) }))
		if whole == "" {
			require.Less(t, len(stream), maxRequest)
			require.False(t, bytes.HasSuffix(stream, []byte("\r\n\r\n")))
			return
		}
		method, _, _ := strings.Cut(string(stream), " ")
		b := bufio.NewReader(strings.NewReader(whole))
		response, err := http.ReadResponse(b, &http.Request{Method: method})
		require.NoError(t, err)
		if response.StatusCode != http.StatusSwitchingProtocols {
			require.True(t, response.StatusCode == http.StatusOK || response.StatusCode >= 400, response.Status)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			return
		}
		requireUpgrade(t, stream)
	})
}

// requireUpgrade wants stream to be what RFC 6455, 4.1, asks of a client.
func requireUpgrade(t *testing.T, stream []byte) {
	t.Helper()
	lower := bytes.ToLower(stream)
	if bytes.Contains(lower, []byte("content-length")) || bytes.Contains(lower, []byte("transfer-encoding")) {
		return // net/http reads a body, which an upgrade has none of
	}
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(stream)))
	require.NoError(t, err)
	require.Equal(t, "GET", request.Method)
	path, _, _ := strings.Cut(request.RequestURI, "?")
	require.Equal(t, "/ws", path)
	require.True(t, request.ProtoAtLeast(1, 1))
	require.True(t, strings.EqualFold(request.Header.Get("Upgrade"), "websocket"))
	require.Contains(t, strings.ToLower(strings.Join(request.Header["Connection"], ",")), "upgrade")
	require.Equal(t, "13", request.Header.Get("Sec-WebSocket-Version"))
	require.Len(t, request.Header.Get("Sec-WebSocket-Key"), 24)
}

// responseTo plays stream to a new conn and is all that it answers.
func responseTo(t *testing.T, s *Server, stream []byte, cut func(int) int) string {
	t.Helper()
	l := alone(t, s, requesting)
	defer l.finish()
	l.takes(stream, cut)
	l.Close(nil)
	all, err := io.ReadAll(l.far)
	require.NoError(t, err)
	return string(all)
}
