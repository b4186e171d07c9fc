package interop

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbers reads what the listener for operators says, by series.
func (g *gateway) numbers() map[string]string {
	g.t.Helper()
	at := g.log.await(g.t, `url=(http://[^ ]+/metrics)\b`, g.ended)
	require.NotNil(g.t, at, "there is no listener for operators: %s", g.log)
	status, body, _ := get(g.t, http.MethodGet, at[1])
	require.Equal(g.t, http.StatusOK, status)
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([^# ][^ ]*) (.+)$`).FindAllStringSubmatch(body, -1) {
		all[m[1]] = m[2]
	}
	return all
}

// TestNumbers: operators see what happens, and the number of series stays the same however many devices come.
func TestNumbers(t *testing.T) {
	t.Parallel()
	g := serve(t, "MOBILE_ADMIN_ADDR=127.0.0.1:0", "MOBILE_QUOTA=off")
	require.Equal(t, "0", g.numbers()["mobilegate_turns_total"])
	before := g.numbers()
	c := coderWebsocket(t)
	for i := range 50 {
		d := c.online(g.url, "c"+string(rune('0'+i)), "secret-device-"+string(rune('0'+i)))
		d.text("hi")
		d.hears("hi")
	}
	d := c.online(g.url, "bad", "bad")
	d.say(`{"t":"text"}`)
	require.Equal(t, "bad_frame", d.hear().Code)
	d.text("/fail")
	d.await("error")
	c.connect(g.url, "stranger").hello("no token", "x")
	after := g.numbers()
	for name, value := range map[string]string{"mobilegate_devices_online": "51", "mobilegate_turns_total": "51", "mobilegate_turns_failed_total": "1",
		"mobilegate_frame_errors_total": "1", `mobilegate_panics_total{in="engine"}`: "0", `mobilegate_panics_total{in="session"}`: "0"} {
		require.Equal(t, value, after[name], name)
	}
	require.NotContains(t, after, "mobilegate_agent_up", "the echo agent has no service behind it")
	require.LessOrEqual(t, len(after), 250, "series")
	for name := range after {
		require.NotContains(t, name, "secret-device")
	}
	// Go's histograms name a bucket when something fell into it.
	own := func(all map[string]string) (names []string) {
		for name := range all {
			if !strings.HasPrefix(name, "go_") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	require.Equal(t, own(before), own(after))
	g.stop()
}
