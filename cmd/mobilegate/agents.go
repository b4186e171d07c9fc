package main

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mobilegate/agent"
	"mobilegate/agent/hermes"
	"mobilegate/agent/openai"
	"mobilegate/codec"
)

// turns that run at a time, where the operator says nothing: what the agent's service can be expected to bear.
var concurrency = map[string]int{"echo": 10_000, "openai": 256, "hermes": 10}

// agents are the settings of those who may answer.
func (c *config) agents() []setting {
	return []setting{
		{"MOBILE_AGENT", "agent", "who answers: echo, openai or hermes (default echo)", oneOf(&c.agent, "echo", "openai", "hermes")},
		{"MOBILE_AGENT_CONCURRENCY", "agent-concurrency", "turns that run at a time, the others wait (default 10000 for echo, 256 for openai, 10 for hermes)", number(&c.session.MaxTurns, 1, 1<<20)},
		{"MOBILE_OPENAI_BASE_URL", "openai-base-url", "the API up to and with /v1 (default https://api.openai.com/v1)", text(&c.openai.BaseURL)},
		{"MOBILE_OPENAI_MODEL", "openai-model", "name of the model; required with openai", text(&c.openai.Model)},
		{"MOBILE_OPENAI_SYSTEM", "openai-system", "what the model is told before every conversation", text(&c.openai.System)},
		{"MOBILE_OPENAI_TRANSCRIBE_MODEL", "openai-transcribe-model", "name of the model that makes text of voice messages (default none)", text(&c.openai.TranscribeModel)},
		{"MOBILE_OPENAI_TEMPERATURE", "openai-temperature", "0 to 2 (default the service's)", func(v string) error {
			t, err := strconv.ParseFloat(v, 64)
			if err != nil || !(t >= 0 && t <= 2) {
				return errors.New("must be a number from 0 to 2")
			}
			c.openai.Temperature = &t
			return nil
		}},
		{"MOBILE_OPENAI_MAX_TOKENS", "openai-max-tokens", "tokens of an answer (default the service's)", number(&c.openai.MaxTokens, 1, 1<<24)},
		{"MOBILE_OPENAI_TIMEOUT", "openai-timeout", "silence of the service before it begins to answer, up to 10m (default 90s)", func(v string) error {
			d, err := time.ParseDuration(v)
			if err != nil || d < time.Second || d > 10*time.Minute {
				return errors.New("must be a duration such as 90s, from 1s to 10m")
			}
			c.openai.FirstTimeout = d
			return nil
		}},
		{"MOBILE_OPENAI_HISTORY_TURNS", "openai-history-turns", "questions with their answers that a conversation holds (default 40)", number(&c.openai.HistoryTurns, 1, 1000)},
		{"MOBILE_OPENAI_HISTORY_BYTES", "openai-history-bytes", "bytes of them: less for a model with a small context (default 65536)", number(&c.openai.HistoryBytes, 1000, 1<<20)},
		{"MOBILE_OPENAI_HISTORY", "openai-history", "file in which conversations outlive a restart (default none: they are kept in memory)", text(&c.openai.HistoryFile)},
		{"MOBILE_HERMES_URL", "hermes-url", "API server of the Hermes agent (default http://127.0.0.1:8642)", text(&c.hermes.URL)},
		{"MOBILE_MEDIA_DIR", "media-dir", "folder for the files of devices, which the Hermes agent reads as the same user (default none: it gets images only)", text(&c.hermes.MediaDir)},
		{"MOBILE_MEDIA_ROOTS", "media-roots", "folders whose files the Hermes agent may send to devices, joined by commas (default none)", func(v string) error {
			c.hermes.MediaRoots = items(v)
			for _, root := range c.hermes.MediaRoots {
				if !filepath.IsAbs(root) {
					return errors.New("must be absolute paths of folders, joined by commas")
				}
			}
			return nil
		}},
	}
}

// keys are the secrets that open the services behind the agents.
func (c *config) keys() []setting {
	key := func(to *string) func(string) error {
		return func(v string) error {
			if *to = strings.TrimSpace(v); strings.ContainsFunc(*to, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return errors.New("must be visible ASCII characters alone")
			}
			return nil
		}
	}
	return []setting{
		{env: "MOBILE_OPENAI_API_KEY", usage: "key of the OpenAI-compatible service", set: key(&c.openai.APIKey)},
		{env: "MOBILE_HERMES_KEY", usage: "API_SERVER_KEY of the Hermes agent", set: key(&c.hermes.Key)},
	}
}

// answerer makes the agent that was asked for. What it returns with it is called when no turn runs any more.
func (c *config) answerer(log *slog.Logger) (agent.Agent, func(), error) {
	if c.session.MaxTurns == 0 {
		c.session.MaxTurns = concurrency[c.agent]
	}
	switch c.agent {
	case "openai":
		if c.openai.Model == "" {
			return nil, nil, errors.New("MOBILE_OPENAI_MODEL must name the model")
		}
		c.openai.MaxCalls, c.openai.Log = c.session.MaxTurns, log
		a, err := openai.New(c.openai)
		if err != nil {
			return nil, nil, err
		}
		return a, func() {
			if err := a.Close(); err != nil {
				log.Error("the conversations were not closed as they should be", "error", err)
			}
		}, nil
	case "hermes":
		c.hermes.MaxMedia, c.hermes.Log = codec.MaxMediaBytes, log
		a, err := hermes.New(c.hermes)
		if err != nil {
			return nil, nil, err
		}
		return a, a.Close, nil
	}
	return &agent.Echo{}, func() {}, nil
}
