package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/engine"
)

// BenchmarkFramesOut: the header of RFC 6455 around a payload that is built in place.
func BenchmarkFramesOut(b *testing.B) {
	for _, size := range []int{100, 1000, 60000} {
		b.Run(fmt.Sprint(size, "B"), func(b *testing.B) {
			payload := bytes.Repeat([]byte("x"), size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				buf := engine.GetBuffer()
				start := engine.BeginFrame(buf)
				buf.B = append(buf.B, payload...)
				engine.EndFrame(buf, start)
				engine.PutBuffer(buf)
			}
		})
	}
}

// counter takes messages from the engine and throws them away.
type counter struct {
	wanted, got int // belongs to the loop
	all         chan struct{}
}

func (c *counter) Hello(conn engine.Conn, b *engine.Buffer) {
	engine.PutMessage(b)
	conn.Admit(c)
}
func (c *counter) Farewell(error, bool) *engine.Farewell { return engine.NewFarewell(nil, 1001, "") }
func (c *counter) Drained(engine.Conn)                   {}
func (c *counter) Closed(engine.Conn, error)             {}
func (c *counter) Message(_ engine.Conn, b *engine.Buffer) {
	engine.PutMessage(b)
	if c.got++; c.got%c.wanted == 0 {
		c.all <- struct{}{}
	}
}

// BenchmarkFramesIn: masked frames through loopback, the loop and the rules of RFC 6455 to whole messages, with no session
// behind. An op is one write of the device.
func BenchmarkFramesIn(b *testing.B) {
	for _, c := range []struct{ frames, size int }{{1, 100}, {100, 100}, {1, 64 << 10}, {1, 1 << 20}} {
		b.Run(fmt.Sprintf("%dx%dB", c.frames, c.size), func(b *testing.B) {
			h := &counter{wanted: c.frames, all: make(chan struct{}, 1)}
			s := engine.New(engine.Config{Host: "127.0.0.1", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, h)
			require.NoError(b, s.Start())
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				require.NoError(b, s.Stop(ctx))
			}()
			p := dial(b, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())))
			defer p.conn.Close()
			p.say("hello")
			frames := bytes.Repeat(clientFrame(opText, bytes.Repeat([]byte("x"), c.size)), c.frames)
			b.SetBytes(int64(c.frames * c.size))
			b.ReportAllocs()
			for b.Loop() {
				p.write(frames)
				<-h.all
			}
		})
	}
}
