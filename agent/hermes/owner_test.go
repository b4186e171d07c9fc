package hermes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
)

func TestSessionKey(t *testing.T) {
	for o, want := range map[agent.Owner]string{
		{Device: "tel-1", Entry: "MOBILE_TOKEN"}:          "agent:main:mobile:dm:tel-1",
		{Device: "tel-1", Entry: "MOBILE_EXTRA_TOKENS#2"}: "agent:main:mobile:dm:tel-1:MOBILE_EXTRA_TOKENS#2",
		{Device: "a:b%c d", Entry: "MOBILE_TOKEN"}:        "agent:main:mobile:dm:a%3Ab%25c%20d",
		{Device: "я\n", Entry: "MOBILE_TOKEN"}:            "agent:main:mobile:dm:%D1%8F%0A",
	} {
		require.Equal(t, want, sessionKey(o))
	}
}

// TestOwnersNeverCollide takes owners that look alike when they are written side by side.
func TestOwnersNeverCollide(t *testing.T) {
	names := []string{"", "a", "a:b", "a%3Ab", ":", "%", "b", "MOBILE_TOKEN", strings.Repeat("я", 120), strings.Repeat("я", 119) + "ю", ownerHash(phone)}
	keys, sessions := map[string]agent.Owner{}, map[string]agent.Owner{}
	for _, device := range names {
		for _, entry := range append(names, ":"+device, device+":") {
			o := agent.Owner{Device: device, Entry: entry}
			for name, seen := range map[string]map[string]agent.Owner{sessionKey(o): keys, sessionID(o): sessions} {
				if other, ok := seen[name]; ok {
					require.Equal(t, other, o, name)
				}
				seen[name] = o
				require.LessOrEqual(t, len(name), maxKey)
				require.Regexp(t, `^[!-~]+$`, name)
			}
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	seen := map[string]string{}
	for _, device := range []string{"a", "ab", "mobile:a"} {
		for _, entry := range []string{"", "b", "ab"} {
			for _, id := range []string{"", "1", "11", "b"} {
				for attempt := 1; attempt < 12; attempt++ {
					k := idempotencyKey(&agent.Turn{Owner: agent.Owner{Device: device, Entry: entry}, ID: id}, attempt)
					what := fmt.Sprintf("%q %q %q %d", device, entry, id, attempt)
					require.Regexp(t, `^[0-9a-f]{64}$`, k)
					require.Empty(t, seen[k], what)
					seen[k] = what
				}
			}
		}
	}
}
