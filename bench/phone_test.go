package bench

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// phone is a single device that waits for its answers, in this process: for what is measured by the turn, and for what two
// servers say.
type phone struct {
	tb   testing.TB
	conn *net.TCPConn
	in   []byte // received and not yet told
	buf  []byte
}

func dial(tb testing.TB, address string) *phone {
	c, err := net.Dial("tcp", address)
	require.NoError(tb, err)
	p := &phone{tb: tb, conn: c.(*net.TCPConn), buf: make([]byte, 64<<10)}
	p.conn.SetLinger(0) // no TIME_WAIT: ports are few
	p.conn.SetDeadline(time.Now().Add(time.Minute))
	p.write([]byte(upgradeRequest))
	r := bufio.NewReader(p.conn)
	answer, err := http.ReadResponse(r, nil)
	require.NoError(tb, err)
	require.Equal(tb, http.StatusSwitchingProtocols, answer.StatusCode)
	require.Zero(tb, r.Buffered(), "nobody speaks before the device")
	return p
}

func (p *phone) write(b []byte) {
	if _, err := p.conn.Write(b); err != nil {
		require.NoError(p.tb, err)
	}
}

func (p *phone) say(frame string) { p.write(clientFrame(opText, []byte(frame))) }

// hear waits for the next message, whole, or for a control frame; op is -1 when the server has ended the connection.
func (p *phone) hear() (op int, payload []byte) {
	var parts []byte
	for {
		first, part, rest, whole := serverFrame(p.in)
		if !whole {
			n, err := p.conn.Read(p.buf)
			if err == io.EOF {
				return -1, nil
			}
			require.NoError(p.tb, err)
			p.in = append(p.in, p.buf[:n]...)
			continue
		}
		final := p.in[0]&0x80 != 0
		p.in = rest
		if final && first != opMore {
			return int(first), part
		}
		if parts = append(parts, part...); final {
			return opText, parts
		}
	}
}

// until waits for a frame of a kind.
func (p *phone) until(wanted heardFrame) {
	for {
		op, payload := p.hear()
		if op < 0 {
			require.Fail(p.tb, "the connection is gone")
		}
		if op == opText && classify(payload) == wanted {
			return
		}
	}
}

// hello lets the device in.
func (p *phone) hello(d *device) {
	p.write(d.hello(token))
	p.until(ready)
}

// ownWords are the fields that servers fill as they like: names of replies, sentences for people.
var ownWords = map[string][]string{"message": {"id"}, "media": {"id"}, "error": {"message"}}

// frame is the next message but for what is the server's own, or a close frame with its code and reason.
func (p *phone) frame() (heard map[string]any) {
	op, payload := p.hear()
	switch {
	case op == opClose && len(payload) >= 2:
		return map[string]any{"close": int(payload[0])<<8 | int(payload[1]), "reason": string(payload[2:])}
	case op != opText:
		return map[string]any{"op": op}
	}
	require.NoError(p.tb, json.Unmarshal(payload, &heard))
	for _, key := range ownWords[heard["t"].(string)] {
		delete(heard, key)
	}
	if data, ok := heard["data"].(string); ok {
		heard["data"] = sha256.Sum256([]byte(data)) // short enough to be shown
	}
	return heard
}

// dialogue is all that a server says to a device that does everything that is measured.
func dialogue(tb testing.TB, address string) (heard []map[string]any) {
	hears := func(p *phone, frames int) {
		for range frames {
			heard = append(heard, p.frame())
		}
	}
	p, d := dial(tb, address), &device{id: "tel-1"}
	p.write(d.hello(token))
	hears(p, 1)
	p.say(`{"t":"ping","ts":{"a":[1719400000123]}}`)
	hears(p, 1)
	p.say(`{"t":"text","id":"m-1","text":"Grüße, \"all\" of you \ud83d\ude00"}`)
	hears(p, 5)
	p.write(d.voice(300 << 10))
	hears(p, 5)
	for _, part := range []int{0, 2, 1, 3} {
		p.write(d.part(part, 1<<20))
	}
	hears(p, 6) // two chunks of a file of 4 MiB
	p.say(`{"t":"text","id":"m-2","text":" "}`)
	p.say(`{"t":"audio","id":"m-3","format":"mp3","data":"AAAA"}`)
	hears(p, 2)
	p.write(clientFrame(opPing, []byte("still there?")))
	hears(p, 1)

	second := dial(tb, address)
	second.write(d.hello(token))
	hears(second, 1)
	hears(p, 1) // replaced
	second.write(clientFrame(opClose, []byte{0x03, 0xE8}))
	hears(second, 2) // the same code, and the end

	stranger := dial(tb, address)
	stranger.write(d.hello(strings.Repeat("x", 8)))
	hears(stranger, 2)
	early := dial(tb, address)
	early.say(`{"t":"ping"}`)
	hears(early, 2)
	return heard
}

// sameWords fails when the two programs do not say the same: then they would not do the same work.
func (c *contest) sameWords() {
	c.t.Run("the same words", func(t *testing.T) {
		var heard [2][]map[string]any
		for i, p := range c.programs {
			heard[i] = dialogue(t, p.start(t, nil).address)
		}
		require.Equal(t, heard[0], heard[1])
	})
}
