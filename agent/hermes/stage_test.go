package hermes

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"mobilegate/agent"
	"mobilegate/agent/hermes/hermestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "a-key-that-nobody-guesses"

// stage is an agent before a fake Hermes, in a bubble of synctest.
type stage struct {
	*testing.T
	hermes *hermestest.Server
	agent  *Agent
	log    bytes.Buffer
}

// play runs f with an agent before a Hermes as fake says, and looks whether the key got into the log.
func play(t *testing.T, fake hermestest.Config, cfg Config, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if fake.Key == "" {
			fake.Key = key
		}
		s := &stage{T: t, hermes: hermestest.New(fake)}
		defer s.hermes.Close()
		cfg.URL, cfg.Client, cfg.Log = hermestest.URL, s.hermes.Client(), slog.New(slog.NewTextHandler(&s.log, nil))
		if cfg.Key == "" {
			cfg.Key = key
		}
		var err error
		s.agent, err = New(cfg)
		require.NoError(t, err)
		f(s)
		s.agent.Close()
		require.NotContains(t, s.log.String(), cfg.Key)
	})
}

// heard is what a device heard of one turn.
type heard struct {
	reply  string
	err    error
	mu     sync.Mutex
	events []agent.Event
	shown  chan *agent.Card // every card
}

// text is all that was said, a message or a streamed message a line.
func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	open := false
	line := func() {
		if open || b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteString("\n")
		}
		open = false
	}
	for _, e := range h.events {
		switch e.Kind {
		case agent.Delta:
			b.WriteString(e.Text)
			open = true
		case agent.Message:
			line()
			b.WriteString(e.Text + "\n")
		default:
			line()
		}
	}
	if h.reply != "" {
		line()
		b.WriteString(h.reply)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (h *heard) files() (files []*agent.File) {
	for _, e := range h.events {
		if e.Kind == agent.SendFile {
			files = append(files, e.File)
		}
	}
	return files
}

// tell is the sentence of a turn that failed.
func (h *heard) tell(t *testing.T) string {
	t.Helper()
	var f *agent.Failure
	require.ErrorAs(t, h.err, &f)
	require.Empty(t, h.reply)
	require.NotEmpty(t, f.Tell)
	return f.Tell
}

var phone = agent.Owner{Device: "tel-1", Entry: defaultEntry}

func turn(id, text string) *agent.Turn { return &agent.Turn{Owner: phone, ID: id, Text: text} }

// begin asks, and returns at once.
func (s *stage) begin(ctx context.Context, t *agent.Turn) (*heard, chan struct{}) {
	h := &heard{shown: make(chan *agent.Card, 32)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.reply, h.err = s.agent.Ask(ctx, t, func(e agent.Event) {
			if ctx.Err() != nil {
				return // as the session does
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, e)
			if e.Kind == agent.ShowCard {
				h.shown <- e.Card
			}
		})
	}()
	return h, done
}

func (s *stage) ask(t *agent.Turn) *heard {
	h, done := s.begin(s.Context(), t)
	<-done
	return h
}

// says asks and wants an answer.
func (s *stage) says(id, text, want string) *heard {
	s.Helper()
	h := s.ask(turn(id, text))
	require.NoError(s, h.err)
	require.Equal(s, want, h.text())
	return h
}

// press answers a card, and returns what the agent made of that.
func press(c *agent.Card, option string) error {
	confirmed := make(chan error, 1)
	c.Answers <- agent.Answer{Option: option, Confirm: func(err error) { confirmed <- err }}
	return <-confirmed
}

// rule answers every text with these steps.
func rule(steps ...hermestest.Step) []hermestest.Rule { return []hermestest.Rule{{Steps: steps}} }

func step(do, text string) hermestest.Step { return hermestest.Step{Do: do, Text: text} }

// count is how many requests a route had.
func (s *stage) count(route string) (n int) {
	for _, r := range s.hermes.Requests() {
		if r.Route == route {
			n++
		}
	}
	return n
}

// generations are the two kinds of Hermes.
var generations = map[string]hermestest.Features{"A": hermestest.A, "B": hermestest.B}

func content(t *testing.T, f *agent.File) []byte {
	t.Helper()
	c, err := f.Open()
	require.NoError(t, err)
	defer c.Close()
	b, err := io.ReadAll(io.NewSectionReader(c, 0, int64(f.Size)))
	require.NoError(t, err)
	require.Len(t, b, f.Size)
	return b
}

// fileOf is a file from a device.
func fileOf(kind, name, mime string, b []byte) *agent.File {
	return &agent.File{Kind: kind, Name: name, Mime: mime, Size: len(b), Open: func() (agent.Content, error) {
		return memory{bytes.NewReader(b)}, nil
	}}
}
