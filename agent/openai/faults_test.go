package openai

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/openai/openaitest"
	"mobilegate/internal/upstream"
)

// Every fault ends in one failure that says what it is, however often it is tried before, and after it all is well.
func TestFaults(t *testing.T) {
	type step = openaitest.Step
	long := "word" + strings.Repeat("-", 2000)
	for name, c := range map[string]struct {
		step  step
		calls int // that fail
		tell  string
		said  string
	}{
		"down":              {step{Status: 503, Body: "s3cret"}, 4, "has failed", ""},
		"broken":            {step{Status: 500, Body: `{"error":{"message":"s3cret"}}`}, 4, "has failed", ""},
		"busy":              {step{Status: 429, RetryAfter: "2"}, 4, "too much to do", ""},
		"busy for long":     {step{Status: 429, RetryAfter: "3600"}, 1, "too much to do", ""},
		"key":               {step{Status: 401, Body: `{"error":{"message":"` + testKey + `"}}`}, 1, "key", ""},
		"no money":          {step{Status: 402}, 1, "key", ""},
		"no model":          {step{Status: 404}, 1, "does not know the model", ""},
		"refused":           {step{Status: 400, Body: "s3cret"}, 2, "refused this message", ""},
		"too much":          {step{Status: 413}, 1, "refused this message", ""},
		"elsewhere":         {step{Status: 307}, 1, "is not where", ""},
		"silent":            {step{Wait: hour}, 1, "in time", ""},
		"silent, headers":   {step{Then: openaitest.Silence}, 1, "in time", ""},
		"cut":               {step{Then: openaitest.Cut}, 4, "broke off", ""},
		"no answer":         {step{Body: "<html>s3cret</html>"}, 4, "broke off", ""},
		"no JSON":           {step{Body: "{s3cret"}, 4, "broke off", ""},
		"error":             {step{Then: openaitest.Error}, 4, "has failed", ""},
		"error, whole":      {step{Body: `{"error":{"code":"s3cret"}}`}, 4, "has failed", ""},
		"error, busy":       {step{Body: `{"error":{"code":429}}`}, 4, "too much to do", ""},
		"comments":          {step{KeepAlive: 1000, Pace: pace(10 * time.Second)}, 1, "took too long", ""},
		"line without end":  {step{Body: "data: " + strings.Repeat("x", 2*maxEvent)}, 1, "too long", ""},
		"whole without end": {step{Body: "{" + strings.Repeat(" ", maxAnswer+1)}, 1, "too long", ""},
		"empty":             {step{Text: " "}, 1, "no answer", ""},
		"empty, whole":      {step{Plain: true, Text: " "}, 1, "no answer", ""},
		"empty, no choice":  {step{Body: `{"choices":[]}`}, 1, "no answer", ""},

		"cut later":     {step{Then: openaitest.Cut, After: 2}, 1, "broke off", "turn 1: "},
		"silent later":  {step{Then: openaitest.Silence, After: 1}, 1, "in time", "turn "},
		"error later":   {step{Then: openaitest.Error, After: 1}, 1, "has failed", "turn "},
		"comment later": {step{Then: openaitest.Comment, After: 1, Pace: pace(10 * time.Second)}, 1, "took too long", "turn "},
		"endless":       {step{Endless: true, Text: long}, 1, "became too long", strings.Repeat(long+" ", maxAnswer/2005)},
		"slow":          {step{Pace: pace(55 * time.Second), Text: strings.Repeat("a ", 50)}, 1, "took too long", strings.Repeat("a ", 10)},
	} {
		t.Run(name, func(t *testing.T) {
			steps := make([]step, c.calls)
			for i := range steps {
				steps[i] = c.step
			}
			var log bytes.Buffer
			play(t, openaitest.Script{Steps: steps}, func(cfg *Config) {
				cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			}, func(t *testing.T, s *stage) {
				start := time.Now()
				h, f := s.fails(agent.Turn{Text: "hello"})
				require.Contains(t, f.Tell, c.tell)
				require.Equal(t, c.said, h.streamed)
				require.Len(t, s.api.Requests(), c.calls)
				require.LessOrEqual(t, time.Since(start), 10*time.Minute)
				turn := "turn 1"
				if c.said != "" {
					turn = "turn 2" // the user has seen it, so the model is told
				}
				require.Contains(t, s.say("again"), turn)
			})
			require.Empty(t, log.String())
		})
	}
}

// What fails before anything was shown is tried again.
func TestTriedAgain(t *testing.T) {
	type step = openaitest.Step
	for name, c := range map[string]struct {
		steps       []step
		least, most time.Duration
	}{
		"busy":       {[]step{{Status: 429, RetryAfter: "7"}}, 7 * time.Second, 9 * time.Second},
		"down":       {[]step{{Status: 502}, {Status: 503}}, 750 * time.Millisecond, 3 * time.Second},
		"cut":        {[]step{{Then: openaitest.Cut}}, 0, 2 * time.Second},
		"one by one": {[]step{{Status: 500}, {Then: openaitest.Cut}, {Then: openaitest.Error}}, 0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, openaitest.Script{Steps: c.steps}, nil, func(t *testing.T, s *stage) {
				start := time.Now()
				require.Equal(t, heard{streamed: "turn 1: hello", pieces: 3}, s.ask(t.Context(), agent.Turn{Text: "hello"}))
				require.GreaterOrEqual(t, time.Since(start), c.least)
				require.LessOrEqual(t, time.Since(start), c.most)
				n := int64(len(c.steps))
				require.Equal(t, agent.Health{Calls: n + 1, Failures: n, Retries: n, InputTokens: 1, OutputTokens: 3}, s.Health())
			})
		})
	}
}

func TestCircuit(t *testing.T) {
	steps := make([]openaitest.Step, 5)
	for i := range steps {
		steps[i].Status = 500
	}
	var log bytes.Buffer
	play(t, openaitest.Script{Steps: steps}, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }, func(t *testing.T, s *stage) {
		s.fails(agent.Turn{Text: "one"})
		require.False(t, s.Health().Down)
		s.fails(agent.Turn{Text: "two"})
		require.True(t, s.Health().Down)
		start := time.Now()
		_, f := s.fails(agent.Turn{Text: "three"})
		require.Equal(t, upstream.ErrDown, f.Err)
		require.Contains(t, f.Tell, "cannot be reached")
		require.Zero(t, time.Since(start), "at once")
		require.Len(t, s.api.Requests(), 5)

		time.Sleep(16 * time.Second)
		require.Equal(t, "turn 1: four", s.say("four"))
		require.False(t, s.Health().Down)
	})
	require.Equal(t, 2, strings.Count(log.String(), "\n"), "it opens, and it closes")
}

// A slow answer does not keep others out that wait whether the service is back.
func TestCircuitClosesWithTheFirstPiece(t *testing.T) {
	steps := make([]openaitest.Step, 6)
	for i := range 5 {
		steps[i].Status = 500
	}
	steps[5].Pace = pace(10 * time.Second)
	play(t, openaitest.Script{Steps: steps}, nil, func(t *testing.T, s *stage) {
		s.fails(agent.Turn{Text: "one"})
		s.fails(agent.Turn{Text: "two"})
		time.Sleep(16 * time.Second)
		done := make(chan string)
		go func() { done <- s.say("slow") }()
		time.Sleep(11 * time.Second)
		require.False(t, s.Health().Down)
		require.Equal(t, "turn 1: quick", s.sayAs(agent.Owner{Device: "tel-2"}, "quick"))
		require.Equal(t, "turn 1: slow", <-done)
	})
}

func TestReason(t *testing.T) {
	wrap := func(err error) error { return &url.Error{Op: "Post", URL: "https://s3cret", Err: err} }
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{wrap(&net.DNSError{Name: "s3cret"}), errName},
		{wrap(&tls.CertificateVerificationError{Err: errors.New("s3cret")}), errIdentity},
		{wrap(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), syscall.ECONNREFUSED},
		{wrap(errors.New("s3cret")), errConnect},
		{fmt.Errorf("s3cret: %w", &upstream.Status{Code: 418}), &upstream.Status{Code: 418}},
	} {
		require.Equal(t, c.want, reason(t.Context(), c.err))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errSilent)
	require.Equal(t, errSilent, reason(ctx, wrap(ctx.Err())))
}
