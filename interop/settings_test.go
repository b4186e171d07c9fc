package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refuses requires serve to end at once with one sentence on standard error and nothing else, and returns the sentence.
func refuses(t *testing.T, status int, env []string, args ...string) string {
	t.Helper()
	p := start(t, append([]string{"MOBILE_PORT=0"}, env...), append([]string{"serve"}, args...)...)
	p.exits(status)
	require.Empty(t, p.out.String())
	require.Regexp(t, `^mobilegate: [^\n]+\n$`, p.log.String())
	return p.log.String()
}

func TestWithoutToken(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, env := range [][]string{nil, {"MOBILE_TOKEN= "}, {"MOBILE_EXTRA_TOKENS= , "}, {"MOBILE_DELIVER_TOKENS=,"}, {"MOBILE_TOKEN_FILE=" + empty}} {
		said := refuses(t, 2, env)
		require.Contains(t, said, "export MOBILE_TOKEN=", "it says how to make one")
		require.Contains(t, said, "--dev")
	}
}

// settings are all that serve can be told: what it refuses, and what its sentence then says.
var settings = []struct {
	name, flag string
	bad        []string
	says       string
}{
	{"MOBILE_AGENT", "agent", []string{"gpt-x", "ECHO"}, "must be echo or openai or hermes"},
	{"MOBILE_AGENT_CONCURRENCY", "agent-concurrency", []string{"0", "-1", "1048577", "10k"}, "must be a whole number from 1 to 1048576"},
	{"MOBILE_OPENAI_BASE_URL", "openai-base-url", nil, ""},
	{"MOBILE_OPENAI_MODEL", "openai-model", nil, ""},
	{"MOBILE_OPENAI_SYSTEM", "openai-system", nil, ""},
	{"MOBILE_OPENAI_TRANSCRIBE_MODEL", "openai-transcribe-model", nil, ""},
	{"MOBILE_OPENAI_TEMPERATURE", "openai-temperature", []string{"hot", "-0.1", "2.1", "NaN"}, "must be a number from 0 to 2"},
	{"MOBILE_OPENAI_TIMEOUT", "openai-timeout", []string{"0", "90", "500ms", "11m"}, "must be a duration such as 90s, from 1s to 10m"},
	{"MOBILE_OPENAI_MAX_TOKENS", "openai-max-tokens", []string{"0", "many"}, "must be a whole number from 1 to 16777216"},
	{"MOBILE_OPENAI_HISTORY_TURNS", "openai-history-turns", []string{"0", "1001"}, "must be a whole number from 1 to 1000"},
	{"MOBILE_OPENAI_HISTORY_BYTES", "openai-history-bytes", []string{"64KiB", "999"}, "must be a whole number from 1000 to 1048576"},
	{"MOBILE_OPENAI_HISTORY", "openai-history", nil, ""},
	{"MOBILE_OPENAI_API_KEY", "", []string{"two words", "ключ"}, "must be visible ASCII characters alone"},
	{"MOBILE_HERMES_URL", "hermes-url", nil, ""},
	{"MOBILE_HERMES_KEY", "", []string{"two words"}, "must be visible ASCII characters alone"},
	{"MOBILE_MEDIA_DIR", "media-dir", nil, ""},
	{"MOBILE_MEDIA_ROOTS", "media-roots", []string{"files", "/tmp,files"}, "must be absolute paths of folders"},
	{"MOBILE_HOST", "host", []string{"no such host", "127.0.0.1:9", "http://127.0.0.1"}, "address"},
	{"MOBILE_PORT", "port", []string{"eighty", "-1", "65536", "80.0", "8787/tcp"}, "must be a whole number from 0 to 65535"},
	{"MOBILE_MAX_CONNECTIONS", "max-connections", []string{"0", "-5", "many", "1e3"}, "must be a whole number from 1 to "},
	{"MOBILE_PING_INTERVAL", "ping-interval", []string{"50", "-1s", "10ms", "often"}, "must be a duration such as 50s"},
	{"MOBILE_QUOTA", "quota", []string{"none", "0", "OFF"}, "must be on or off"},
	{"MOBILE_DELIVER_LOOPBACK", "deliver-loopback", []string{"no", "0", "OFF"}, "must be on or off"},
	{"MOBILE_QUOTA_DEVICE", "quota-device", badRates, "must be any of frames=N,bytes=SIZE,burst-frames=N,burst-bytes=SIZE"},
	{"MOBILE_QUOTA_TOKEN", "quota-token", badRates[:1], "must be any of frames=N,bytes=SIZE,burst-frames=N,burst-bytes=SIZE"},
	{"MOBILE_QUOTA_ADDRESS", "quota-address", badRates[:1], "must be any of frames=N,bytes=SIZE,burst-frames=N,burst-bytes=SIZE"},
	{"MOBILE_QUOTA_ERRORS", "quota-errors", []string{"0", "-1", "10001", "20/s"}, "must be a whole number from 1 to 10000"},
	{"MOBILE_QUOTA_TAKEOVERS", "quota-takeovers", []string{"0", "10001", "five"}, "must be a whole number from 1 to 10000"},
	{"MOBILE_QUOTA_FAILED_HELLOS", "quota-failed-hellos", []string{"0", "60001", "1.5"}, "must be a whole number from 1 to 60000"},
	{"MOBILE_TRUSTED_PROXIES", "trusted-proxies", []string{"10.0.0.1", "10.0.0.0/33", "localhost/8", "10.0.0.0/8;::1/128", "10.0.0.0/8,all"}, "must be networks such as 10.0.0.0/8"},
	{"MOBILE_MAX_INBOUND", "max-inbound", badSizes, "must be a number of bytes such as 65536, 64KiB, 256MiB or 2GiB"},
	{"MOBILE_MAX_OUTBOUND", "max-outbound", badSizes[:2], "must be a number of bytes such as"},
	{"MOBILE_MAX_STRANGERS", "max-strangers", badSizes[:2], "must be a number of bytes such as"},
	{"MOBILE_MAX_FILES", "max-files", badSizes[:2], "must be a number of bytes such as"},
	{"MOBILE_MAX_OFFLINE", "max-offline", []string{"0", "1073741825", "none"}, "must be a whole number from 1 to 1073741824"},
	{"MOBILE_LOG_LEVEL", "log-level", []string{"loud", "5"}, "must be debug, info, warn or error"},
	{"MOBILE_LOG_FORMAT", "log-format", []string{"xml", "JSON"}, "must be text or json"},
	{"MOBILE_ADMIN_ADDR", "admin-addr", []string{"9787", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:65536", "no such host:1"}, "address"},
	{"MOBILE_EXTRA_TOKENS", "", []string{"bound-1=", "good,bound-1==", "c2VjcmV0="}, "token is empty"},
	{"MOBILE_ALLOWED_DEVICES", "allowed-devices", []string{"mobile:tel-1", "tel-1," + strings.Repeat("x", 121)}, "must name device ids as the devices say them"},
	{"MOBILE_HOME_DEVICE", "home-device", []string{"mobile:tel-1", " tel-1", strings.Repeat("x", 121)}, "must name device ids as the devices say them"},
	{"MOBILE_AVATAR_URL", "avatar-url", nil, ""},
	{"MOBILE_TOKEN", "", nil, ""},
	{"MOBILE_DELIVER_TOKENS", "", nil, ""},
}

var (
	badRates = []string{"frames=0", "50", "frames", "frames=", "frames=fifty", "fps=50", "frames=50;bytes=1MiB", "bytes=2MB", "burst-frames=-1", "Frames=50", "frames=50,burst=1"}
	badSizes = []string{"0", "64 MiB", "-1", "64kb", "1.5GiB", "lots", "MiB", "2000000GiB", "9223372036854775808"}
)

func TestBadValues(t *testing.T) {
	t.Parallel()
	for _, s := range settings {
		if s.bad == nil { // takes any text
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			for _, v := range s.bad {
				said := refuses(t, 2, []string{"MOBILE_TOKEN=" + token, s.name + "=" + v})
				require.Contains(t, said, "mobilegate: "+s.name+" ")
				require.Contains(t, said, s.says)
				if s.flag == "" {
					continue
				}
				said = refuses(t, 2, []string{"MOBILE_TOKEN=" + token}, "--"+s.flag+"="+v)
				require.Contains(t, said, "mobilegate: --"+s.flag+" ")
				require.Contains(t, said, s.says)
			}
		})
	}
	for _, name := range []string{"MOBILE_TOKEN", "MOBILE_EXTRA_TOKENS", "MOBILE_DELIVER_TOKENS"} {
		said := refuses(t, 2, []string{name + "_FILE=" + filepath.Join(t.TempDir(), "absent")})
		require.Contains(t, said, name+"_FILE")
		require.Contains(t, said, "no such file")
	}
}

// TestBadServices: what only an agent can judge is said at the start as well, and not by a device's first message.
func TestBadServices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, []byte(strings.Repeat("no conversation ", 1000)), 0o600))
	for _, c := range []struct {
		env  []string
		says string
	}{
		{[]string{"MOBILE_AGENT=openai"}, "MOBILE_OPENAI_MODEL must name the model"},
		{[]string{"MOBILE_AGENT=openai", "MOBILE_OPENAI_MODEL=m", "MOBILE_OPENAI_BASE_URL=localhost:1/v1"}, "https://HOST/v1"},
		{[]string{"MOBILE_AGENT=openai", "MOBILE_OPENAI_MODEL=m", "MOBILE_OPENAI_HISTORY=" + broken}, "history"},
		{[]string{"MOBILE_AGENT=openai", "MOBILE_OPENAI_MODEL=m", "MOBILE_OPENAI_HISTORY=" + dir}, "history"},
		{[]string{"MOBILE_AGENT=hermes", "MOBILE_HERMES_URL=127.0.0.1:8642"}, "http://HOST:PORT"},
		{[]string{"MOBILE_AGENT=hermes", "MOBILE_MEDIA_ROOTS=" + filepath.Join(dir, "absent")}, "media root"},
		{[]string{"MOBILE_AGENT=hermes", "MOBILE_MEDIA_DIR=" + broken}, "media"},
	} {
		require.Contains(t, refuses(t, 2, append(c.env, "MOBILE_TOKEN="+token)), c.says, c.env)
	}
}

// TestHelp holds the list of settings above to what serve says that it takes.
func TestHelp(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "serve", "-h")
	p.exits(0)
	require.Empty(t, p.log.String())
	told := map[string]bool{}
	for _, name := range regexp.MustCompile(`MOBILE_[A-Z_]+`).FindAllString(p.out.String(), -1) {
		told[name] = true
	}
	for _, s := range settings {
		require.Contains(t, told, s.name)
		if delete(told, s.name); s.flag != "" {
			require.Regexp(t, `(?m)^  --`+s.flag+`$`, p.out.String())
		}
	}
	require.Empty(t, told, "these have no test")

	p = start(t, nil)
	p.exits(2)
	require.Contains(t, p.log.String(), "mobilegate serve")
}
