package openai

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/openai/openaitest"
)

func TestConfig(t *testing.T) {
	for _, c := range []Config{
		{},
		{Model: "m", BaseURL: "model.test/v1"},
		{Model: "m", BaseURL: "ftp://model.test"},
		{Model: "m", BaseURL: "https://user:" + testKey + "@%zz"},
	} {
		_, err := New(c)
		require.Error(t, err)
		require.NotContains(t, err.Error(), testKey)
	}
	a, err := New(Config{Model: "m"})
	require.NoError(t, err)
	require.Equal(t, agent.Health{}, a.Health())
	require.NoError(t, a.Close())
}

// The agent is what its configuration says, not what the environment of the library says.
func TestEnvironmentIsNotRead(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "from elsewhere")
	t.Setenv("OPENAI_BASE_URL", "http://elsewhere.test/v1")
	t.Setenv("OPENAI_ORG_ID", "elsewhere")
	play(t, openaitest.Script{}, func(c *Config) { c.APIKey = "" }, func(t *testing.T, s *stage) {
		s.say("hello")
		require.Empty(t, s.last().Key)
		require.Equal(t, "model.test", s.last().Host)
	})
}
