package loadtest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/codec"
	"mobilegate/engine"
)

// liar is a gateway of the test's own, that echoes and now and then does wrong. One goroutine, its loop, does all of it.
type liar struct {
	server *engine.Server
	// lie is called for every tenth message of all devices, in place of an answer. nil: honest.
	lie func(p *party, id, text string)
	// every is called for every message before that, likewise.
	every func(p *party, id, text string) bool
	// again is called with the connection of a device that connects again; nil: nothing.
	again func(old *party)
	// greet is what the ready of a device says its id is; nil: the truth.
	greet func(id string) string
	// refuse is a code for every hello; empty: none.
	refuse codec.Code

	mu      sync.Mutex
	parties []*party
	heard   int // messages
	lies    int
	names   int // ids of frames
}

// party is one connection to a liar.
type party struct {
	*liar
	c    engine.Conn
	id   string
	held func() // said behind the next answer
}

func startLiar(t testing.TB, l *liar) (url string) {
	t.Helper()
	l.server = engine.New(engine.Config{Host: "127.0.0.1", MaxConnections: 1000, Log: slog.New(slog.DiscardHandler)}, l)
	require.NoError(t, l.server.Start())
	t.Cleanup(func() { require.NoError(t, l.server.Stop(context.Background())) })
	return fmt.Sprintf("ws://127.0.0.1:%d/ws", l.server.Port())
}

func (l *liar) Farewell(error, bool) *engine.Farewell { return engine.NewFarewell(nil, 1008, "no") }

func (l *liar) Hello(c engine.Conn, b *engine.Buffer) {
	defer engine.PutMessage(b)
	var in codec.In
	if codec.Decode(b.B, &in) != nil || in.Kind != codec.Hello {
		c.Close(l.Farewell(nil, false))
		return
	}
	p := &party{liar: l, c: c, id: strings.Clone(in.Device.ID)}
	if l.refuse != "" {
		p.frame(codec.AppendError(nil, &codec.ErrorFrame{Code: l.refuse, Message: "no", Fatal: true}))
		c.Close(engine.NewFarewell(nil, 1008, string(l.refuse)))
		return
	}
	if !c.Admit(p) {
		return
	}
	l.mu.Lock()
	for _, old := range l.parties {
		if old.id == p.id && l.again != nil {
			l.again(old)
		}
	}
	l.parties = append(l.parties, p)
	l.mu.Unlock()
	id := p.id
	if l.greet != nil {
		id = l.greet(id)
	}
	p.frame(codec.AppendReady(nil, &codec.Ready{DeviceID: id, DeviceName: id}))
}

func (p *party) Drained(engine.Conn)       {}
func (p *party) Closed(engine.Conn, error) {}

func (p *party) Message(_ engine.Conn, b *engine.Buffer) {
	defer engine.PutMessage(b)
	var in codec.In
	if codec.Decode(b.B, &in) != nil || in.Kind != codec.Text {
		return
	}
	id, text := strings.Clone(in.ID), strings.Clone(in.Text)
	if p.every != nil && p.every(p, id, text) {
		return
	}
	p.mu.Lock()
	p.heard++
	tenth := p.heard%10 == 5 // never the last of a run, behind which nobody listens any more
	lies := tenth && p.lie != nil
	if lies { // counted before it is told, since a run may end with it
		p.lies++
	}
	p.mu.Unlock()
	behind := p.held
	p.held = nil
	if lies {
		p.lie(p, id, text)
	} else {
		p.echo(text)
	}
	if behind != nil {
		behind()
	}
}

// echo answers with one message frame, and the frames that go with it.
func (p *party) echo(text string) {
	p.frame(codec.AppendAvatar(nil, codec.AvatarThinking))
	p.piece(p.name(), text, 0, 1, true)
	p.frame(codec.AppendTyping(nil, true))
}

func (p *party) name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names++
	return fmt.Sprint("reply-", p.names)
}

func (p *party) piece(name, text string, index, total int, final bool) {
	p.frame(codec.AppendMessage(nil, &codec.Message{ID: name, Text: text, Index: index, Total: total, Final: final}))
}

func (p *party) frame(json []byte) {
	b := engine.GetBuffer()
	start := engine.BeginFrame(b)
	b.B = append(b.B, json...)
	engine.EndFrame(b, start)
	p.c.Send(b)
}

// other is another device.
func (p *party) other() *party {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.parties {
		if q != p {
			return q
		}
	}
	return p
}

func (l *liar) count() (heard, lies int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.heard), int64(l.lies)
}
