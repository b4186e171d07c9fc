package openai

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/openai/openaitest"
)

func TestConversation(t *testing.T) {
	temperature := 0.0
	play(t, openaitest.Script{Key: testKey}, func(c *Config) {
		c.System, c.Temperature, c.MaxTokens = "Be brief.", &temperature, 77
	}, func(t *testing.T, s *stage) {
		h := s.ask(s.Context(), agent.Turn{Owner: owner, Text: "hello there"})
		require.NoError(t, h.err)
		require.Equal(t, heard{streamed: "turn 1: hello there", pieces: 4}, h)
		require.Equal(t, "turn 2: and again", s.say("and again"))

		r := s.last()
		require.Equal(t, "/v1/chat/completions", r.Path)
		require.Equal(t, "m-1", r.Model)
		require.Equal(t, 0.0, *r.Temperature)
		require.Equal(t, 77, r.MaxTokens)
		require.Equal(t, []openaitest.Message{
			{Role: "system", Text: "Be brief."},
			{Role: "user", Text: "hello there"}, {Role: "assistant", Text: "turn 1: hello there"},
			{Role: "user", Text: "and again"},
		}, r.Messages)
		require.Equal(t, agent.Health{Calls: 2, InputTokens: 4 + 10, OutputTokens: 8}, s.Health())
	})
}

func TestOwnersAreApart(t *testing.T) {
	play(t, openaitest.Script{}, nil, func(t *testing.T, s *stage) {
		other := agent.Owner{Device: owner.Device, Entry: "MOBILE_EXTRA_TOKENS[0]"}
		require.Equal(t, "turn 1: a secret", s.say("a secret"))
		require.Equal(t, "turn 1: what is it?", s.sayAs(other, "what is it?"))
		require.Len(t, s.last().Messages, 1)
		require.Equal(t, "A new conversation begins.", s.sayAs(other, "/new"))
		require.Equal(t, "turn 2: what was it?", s.say("what was it?"))
	})
}

func TestNew(t *testing.T) {
	play(t, openaitest.Script{}, nil, func(t *testing.T, s *stage) {
		s.say("one")
		for _, command := range []string{"/new", " /NEW\n"} {
			require.Equal(t, "turn 2: two", s.say("two"))
			require.Equal(t, "A new conversation begins.", s.say(command))
			require.Equal(t, "turn 1: three", s.say("three"))
		}
		require.Equal(t, "turn 2: /new car", s.say("/new car"), "no command")
	})
}

func TestStop(t *testing.T) {
	play(t, openaitest.Script{Steps: []openaitest.Step{{Pace: pace(time.Second)}}}, nil, func(t *testing.T, s *stage) {
		require.True(t, s.Stops(" /Stop "))
		require.False(t, s.Stops("/stop it"))
		require.False(t, s.Stops("stop"))
		require.Equal(t, "Nothing was running.", s.say("/stop"))

		ctx, stop := context.WithCancelCause(t.Context())
		start := time.Now()
		time.AfterFunc(3500*time.Millisecond, func() { stop(agent.ErrStopped) })
		h := s.ask(ctx, agent.Turn{Text: "a b c d e f"})
		require.Equal(t, 3500*time.Millisecond, time.Since(start))
		require.ErrorIs(t, h.err, agent.ErrStopped)
		require.Equal(t, "turn 1: a ", h.streamed)
		require.Equal(t, "Stopped.", s.hears(agent.Turn{Text: "/stop", Ended: true}))

		require.Equal(t, "turn 2: go on", s.say("go on"))
		require.Equal(t, []openaitest.Message{
			{Role: "user", Text: "a b c d e f"}, {Role: "assistant", Text: "turn 1: a "}, {Role: "user", Text: "go on"},
		}, s.last().Messages)
		require.Zero(t, s.Health().Failures)
	})
}

// Whatever a turn waits for, it ends with its context.
func TestStopAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		step openaitest.Step
		busy bool // there is no place for its file
	}{
		"for the service":  {step: openaitest.Step{Wait: hour}},
		"for the first":    {step: openaitest.Step{KeepAlive: 1, Pace: pace(time.Duration(hour))}},
		"between two":      {step: openaitest.Step{Then: openaitest.Silence, After: 2}},
		"for another try":  {step: openaitest.Step{Status: 503, RetryAfter: "25"}},
		"for its own turn": {busy: true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, openaitest.Script{Steps: []openaitest.Step{c.step}}, func(cfg *Config) { cfg.MaxFiles = 1 }, func(t *testing.T, s *stage) {
				turn := agent.Turn{Text: "hello"}
				if c.busy {
					turn.File = fileOf("image", "", "", pictureOf(t))
					s.files <- struct{}{}
					defer func() { <-s.files }()
				}
				ctx, stop := context.WithCancelCause(t.Context())
				start := time.Now()
				time.AfterFunc(10*time.Second, func() { stop(agent.ErrStopped) })
				require.ErrorIs(t, s.ask(ctx, turn).err, agent.ErrStopped)
				require.Equal(t, 10*time.Second, time.Since(start))
			})
		})
	}
}

// A turn that ends for another reason than its user's wish, before anything was said, leaves nothing behind.
func TestEndedTurnIsForgotten(t *testing.T) {
	play(t, openaitest.Script{Steps: []openaitest.Step{{Wait: hour}, {Wait: hour}}}, nil, func(t *testing.T, s *stage) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, s.ask(ctx, agent.Turn{Text: "hello"}).err)
		stopped, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(agent.ErrStopped) })
		require.Error(t, s.ask(stopped, agent.Turn{Text: "wait"}).err)
		require.Equal(t, "turn 2: once more", s.say("once more"))
		require.Equal(t, openaitest.Message{Role: "user", Text: "wait"}, s.last().Messages[0])
		require.Contains(t, s.last().Messages[1].Text, "stopped")
	})
}

// An answer may come in many ways.
func TestAnswers(t *testing.T) {
	const want = "turn 1: hello"
	many := strings.Repeat("word ", 2_000)
	for name, c := range map[string]struct {
		step openaitest.Step
		want string
	}{
		"as the service itself":   {openaitest.Step{Role: true}, want},
		"with its thoughts":       {openaitest.Step{Reasoning: "they say hello so I do"}, want},
		"whole":                   {openaitest.Step{Plain: true}, want},
		"whole, under a name":     {openaitest.Step{Plain: true, ContentType: "text/event-stream"}, want},
		"under another name":      {openaitest.Step{ContentType: "application/json"}, want},
		"with garbage":            {openaitest.Step{Garbage: true}, want},
		"with comments":           {openaitest.Step{KeepAlive: 12, Pace: pace(30 * time.Second)}, want},
		"without its end":         {openaitest.Step{NoEnd: true}, want},
		"each piece twice":        {openaitest.Step{Twice: true}, "turn turn 1: 1: hellohello"},
		"slowly":                  {openaitest.Step{Wait: openaitest.Duration(80 * time.Second), Pace: pace(50 * time.Second)}, want},
		"long":                    {openaitest.Step{Text: many}, many},
		"too short":               {openaitest.Step{Finish: "length"}, want + notes["length"]},
		"too short, and whole":    {openaitest.Step{Finish: "length", Plain: true}, want + notes["length"]},
		"filtered":                {openaitest.Step{Finish: "content_filter"}, want + notes["content_filter"]},
		"as a list of parts":      {openaitest.Step{Body: `{"choices":[{"message":{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`}, "ab"},
		"as a refusal":            {openaitest.Step{Body: "data: {\"choices\":[{\"delta\":{\"content\":null,\"refusal\":\"I cannot\"}}],\"error\":null}\n\ndata: [DONE]"}, "I cannot"},
		"in another way of lines": {openaitest.Step{Body: "\r\n: hi\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"\\n yes\"},\"finish_reason\":\"stop\"}]}\r\n\r\n"}, "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, openaitest.Script{Steps: []openaitest.Step{c.step}}, nil, func(t *testing.T, s *stage) {
				require.Equal(t, c.want, s.say("hello"))
				require.Zero(t, s.Health().Failures)
				require.Contains(t, s.say("again"), "turn 2: again", "it is in the history")
			})
		})
	}
}

// A whole answer leaves with the end of the turn.
func TestWholeAnswerIsTheReply(t *testing.T) {
	play(t, openaitest.Script{Steps: []openaitest.Step{{Plain: true}}}, nil, func(t *testing.T, s *stage) {
		require.Equal(t, heard{reply: "turn 1: hello"}, s.ask(t.Context(), agent.Turn{Text: "hello"}))
		require.EqualValues(t, 3, s.Health().OutputTokens)
	})
}

// A service that does not end its stream keeps nobody waiting for long.
func TestLingeringAnswer(t *testing.T) {
	play(t, openaitest.Script{Steps: []openaitest.Step{{Linger: true}}}, nil, func(t *testing.T, s *stage) {
		start := time.Now()
		require.Equal(t, "turn 1: hello", s.say("hello"))
		require.Equal(t, lastWait, time.Since(start))
	})
}

func TestFormsAreLearned(t *testing.T) {
	for name, c := range map[string]struct {
		script    openaitest.Script
		maxTokens int
		refused   int
		usage     bool
	}{
		"all is known":         {openaitest.Script{}, 9, 0, true},
		"no options":           {openaitest.Script{NoOptions: true}, 9, 1, false},
		"the newer limit":      {openaitest.Script{NewLimit: true}, 9, 2, true},
		"both":                 {openaitest.Script{NoOptions: true, NewLimit: true}, 9, 3, false},
		"no options, no limit": {openaitest.Script{NoOptions: true, NewLimit: true}, 0, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, c.script, func(cfg *Config) { cfg.MaxTokens = c.maxTokens }, func(t *testing.T, s *stage) {
				for i := range 3 {
					require.NotEmpty(t, s.say("hello"))
					require.Len(t, s.api.Requests(), c.refused+1+i, "learned once")
				}
				require.Equal(t, c.usage, s.last().Usage)
				require.Equal(t, c.maxTokens, s.last().MaxTokens)
				require.Equal(t, c.usage, s.Health().OutputTokens > 0)
				require.Zero(t, s.Health().Failures)
			})
		})
	}
}

// Once the service took a request, a refused one is not asked again in other forms.
func TestRefusedOnce(t *testing.T) {
	play(t, openaitest.Script{Steps: []openaitest.Step{{}, {Status: 400}}}, nil, func(t *testing.T, s *stage) {
		s.say("hello")
		s.fails(agent.Turn{Text: "bad"})
		require.Len(t, s.api.Requests(), 2)
		require.Equal(t, "turn 2: good", s.say("good"), "what was refused is not in the history")
	})
}

const hour = openaitest.Duration(time.Hour)

func pace(d time.Duration) *openaitest.Duration { p := openaitest.Duration(d); return &p }
