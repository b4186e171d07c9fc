package hermes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/agent/hermes/hermestest"
)

func TestConversation(t *testing.T) {
	for name, features := range generations {
		t.Run(name, func(t *testing.T) {
			play(t, hermestest.Config{Features: features, Pace: 1e6}, Config{}, func(s *stage) {
				h := s.says("m-1", "hello there", "turn 1: hello there")
				require.Greater(s, len(h.events), 2, "it was streamed")
				require.Empty(s, h.reply)
				s.says("m-2", "and again", "turn 2: and again")
				other := turn("m-1", "hello there")
				other.Entry = "MOBILE_EXTRA_TOKENS"
				require.Equal(s, "turn 1: hello there", s.ask(other).text(), "another owner, another conversation")
				require.Equal(s, 1, s.count("GET /v1/capabilities"))
				runs := s.hermes.Runs()
				require.Equal(s, "agent:main:mobile:dm:tel-1", runs[0].SessionKey)
				require.Equal(s, "agent:main:mobile:dm:tel-1:MOBILE_EXTRA_TOKENS", runs[2].SessionKey)
			})
		})
	}
}

func TestNothingIsRunning(t *testing.T) {
	play(t, hermestest.Config{}, Config{}, func(s *stage) {
		for text, stops := range map[string]bool{"/stop": true, " /STOP\n": true, "/stop it": false, "please /stop": false, "/stopp": false} {
			require.Equal(s, stops, s.agent.Stops(text), text)
		}
		require.Equal(s, "Nothing was running.", s.ask(turn("m-1", "/Stop")).reply)
		ended := turn("m-2", "/stop")
		ended.Ended = true
		require.Equal(s, "Stopped.", s.ask(ended).reply)
		require.Empty(s, s.hermes.Requests())
	})
}

func TestConfig(t *testing.T) {
	for _, bad := range []Config{
		{URL: "127.0.0.1:8642"}, {URL: "ftp://x"}, {URL: "http://u:p@x"}, {URL: "http://x?key=1"}, {URL: "http://x/#y"},
		{Key: "two words"}, {Key: "a\nb"}, {MediaRoots: []string{"relative"}}, {MediaRoots: []string{"/no/such/folder"}},
		{MediaRoots: []string{"/dev/null"}}, {MediaDir: "/dev/null"},
	} {
		_, err := New(bad)
		require.Error(t, err, "%+v", bad)
	}
	a, err := New(Config{})
	require.NoError(t, err)
	require.Equal(t, agent.Health{}, a.Health())
	require.Equal(t, "http://127.0.0.1:8642", a.base)
	a.Close()
}
