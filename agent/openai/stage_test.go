package openai

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/openai/openaitest"
)

// stage is an agent with a service that follows a script. It lives in a bubble of driven time.
type stage struct {
	*testing.T
	*Agent
	api *openaitest.API
}

const testKey = "sk-the-key-of-these-tests"

// play runs a test on a stage.
func play(t *testing.T, script openaitest.Script, change func(*Config), test func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := openaitest.New(script)
		client, end := api.Client()
		defer end()
		cfg := Config{BaseURL: "http://model.test/v1", APIKey: testKey, Model: "m-1", Client: client}
		if change != nil {
			change(&cfg)
		}
		a, err := New(cfg)
		require.NoError(t, err)
		defer func() {
			require.NoError(t, a.Close())
			require.Empty(t, a.files, "every place was given back")
		}()
		test(t, &stage{t, a, api})
	})
}

var owner = agent.Owner{Device: "tel-1", Entry: "MOBILE_TOKEN"}

// heard is what a device hears of a turn.
type heard struct {
	streamed string // pieces joined
	pieces   int
	messages []string
	reply    string
	err      error
}

// ask puts a turn to the agent.
func (s *stage) ask(ctx context.Context, turn agent.Turn) (h heard) {
	if turn.Owner == (agent.Owner{}) {
		turn.Owner = owner
	}
	ended := false
	h.reply, h.err = s.Ask(ctx, &turn, func(e agent.Event) {
		require.False(s, ended)
		switch e.Kind {
		case agent.Delta:
			require.NotEmpty(s, e.Text)
			h.streamed += e.Text
			h.pieces++
		case agent.Message:
			h.messages = append(h.messages, e.Text)
		default:
			require.Fail(s, "unexpected event", "%v", e.Kind)
		}
	})
	ended = true
	return h
}

// say is a turn that has to succeed; it returns all that was said.
func (s *stage) say(text string) string {
	s.Helper()
	return s.sayAs(owner, text)
}

func (s *stage) sayAs(o agent.Owner, text string) string {
	s.Helper()
	return s.hears(agent.Turn{Owner: o, Text: text})
}

func (s *stage) hears(turn agent.Turn) string {
	s.Helper()
	h := s.ask(s.Context(), turn)
	require.NoError(s, h.err)
	return strings.Join(append([]string{h.streamed}, h.messages...), "") + h.reply
}

// fails is a turn that has to fail; what fails is told to the user, and holds nothing that is secret or not ours.
func (s *stage) fails(turn agent.Turn) (heard, *agent.Failure) {
	s.Helper()
	h := s.ask(s.Context(), turn)
	var f *agent.Failure
	require.ErrorAs(s, h.err, &f)
	require.Empty(s, h.reply)
	require.NotEmpty(s, f.Tell)
	for _, text := range []string{f.Tell, f.Error()} {
		require.NotContains(s, text, testKey)
		require.NotContains(s, text, "s3cret")
		require.NotContains(s, text, "model.test")
	}
	return h, f
}

// last returns the last request that the service saw.
func (s *stage) last() openaitest.Request {
	all := s.api.Requests()
	require.NotEmpty(s, all)
	return all[len(all)-1]
}

type held struct{ *bytes.Reader }

func (held) Close() error { return nil }

var errGone = errors.New("the file is gone")

func fileOf(kind, mime, name string, data []byte) *agent.File {
	return &agent.File{Kind: kind, Mime: mime, Name: name, Size: len(data), Open: func() (agent.Content, error) {
		if data == nil {
			return nil, errGone
		}
		return held{bytes.NewReader(data)}, nil
	}}
}
