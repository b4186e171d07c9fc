package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPortTaken(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	g := serve(t)
	for _, port := range []string{port(other.Addr().String()), port(g.address())} {
		said := refuses(t, 1, []string{"MOBILE_TOKEN=" + token, "MOBILE_PORT=" + port})
		require.Contains(t, said, "port "+port+" is taken")
	}
	g.stop()
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }

func TestVersion(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "version")
	p.exits(0)
	require.Regexp(t, `^mobilegate v9\.8\.7, commit c0ffee5, `+runtime.Version()+` `+runtime.GOOS+`/`+runtime.GOARCH+`, JSON path (fast|slow)[^\n]*\n$`, p.out.String())
}

// TestFlags gives as flags what the other tests give as variables, which flags outdo.
func TestFlags(t *testing.T) {
	t.Parallel()
	g := &gateway{process: start(t, []string{"MOBILE_TOKEN=" + token, "MOBILE_PORT=1", "MOBILE_AVATAR_URL=https://other.example/", "MOBILE_LOG_LEVEL=error"},
		"serve", "--port=0", "--host", "localhost", "--agent=echo", "--avatar-url=https://avatar.example/", "--allowed-devices", "tel-1, tel-2",
		"--max-connections=2", "--ping-interval=0", "--quota=off", "--log-level=info", "--log-format=json", "--home-device=tel-1")}
	g.listens()
	require.Contains(t, g.log.String(), `"max_connections":2,`)
	c := coderWebsocket(t)
	d := c.connect(g.url, "a")
	d.hello(token, "tel-1")
	require.Contains(t, d.hear().raw, `"avatar_url":"https://avatar.example/"`)
	other := c.connect(g.url, "b")
	c.do(command{Do: "dial", Conn: "one too many", URL: g.url})
	require.Equal(t, http.StatusServiceUnavailable, c.next("one too many").Code)
	other.hello(token, "tel-3")
	other.refused(1008, "auth_failed")
	g.stop()
	d.closed(1001, "going away")
}

// TestDevLine pastes the line that --dev prints into a shell.
func TestDevLine(t *testing.T) {
	t.Parallel()
	g := &gateway{process: start(t, []string{"MOBILE_PORT=0"}, "serve", "--dev")}
	g.listens()
	line := g.out.await(t, `(?m)^ *(MOBILE_TOKEN=(\S+) \S*mobilegate chat .*)$`, g.ended)
	require.NotNil(t, line, g.out)
	shell := exec.Command("sh", "-c", line[1])
	shell.Env = environment()
	shell.Env[0] = "PATH=" + filepath.Dir(binary) + string(filepath.ListSeparator) + os.Getenv("PATH")
	shell.Stdin = strings.NewReader("hello there\n/long 9999\n")
	said, err := shell.Output()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(said), "hello there\nevery word"), "%.100q", said)
	require.NotContains(t, g.log.String(), line[2])
	g.stop()
}

func TestTokenFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var env []string
	for name, content := range map[string]string{
		"MOBILE_TOKEN": "from-a-file\n", "MOBILE_EXTRA_TOKENS": "extra-1\nbound-1=extra-2\n", "MOBILE_DELIVER_TOKENS": " deliver-1 , deliver-2",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		env = append(env, name+"_FILE="+filepath.Join(dir, name))
	}
	g := serve(t, append(env, "MOBILE_TOKEN=")...)
	c := coderWebsocket(t)
	for secret, id := range map[string]string{"from-a-file": "tel-1", "extra-1": "tel-2", "extra-2": "bound-1", "deliver-1": "tel-3", "deliver-2": "tel-4"} {
		d := c.connect(g.url, id)
		d.hello(secret, id)
		require.Equal(t, "ready", d.hear().T, secret)
	}
	d := c.connect(g.url, "lines joined")
	d.hello("extra-1\nbound-1=extra-2", "tel-5")
	d.refused(1008, "auth_failed")
	g.stop()
}

// TestSecrets holds conversations of every kind at the most talkative level, and then looks for what no log may hold.
func TestSecrets(t *testing.T) {
	t.Parallel()
	secrets := []string{token, "b0und-secret", "wr0ng-secret", "what-was-said", "dev1ce-id", "tel-bound", "query-secret", "unkn0wn", "br0ken"}
	for _, format := range []string{"text", "json"} {
		g := serve(t, "MOBILE_LOG_LEVEL=debug", "MOBILE_LOG_FORMAT="+format, "MOBILE_EXTRA_TOKENS=tel-bound=b0und-secret")
		c := coderWebsocket(t)
		d := c.online(g.url+"?token=query-secret", "a", "dev1ce-id")
		d.text("what-was-said")
		d.hears("what-was-said")
		d.say(`{"t":"unkn0wn","text":"what-was-said"}`)
		d.say(`{"t":"text","text":br0ken`)
		require.Equal(t, "bad_frame", d.await("error").Code)
		d.text("/fail what-was-said")
		require.Equal(t, "internal_error", d.await("error").Code)
		d.text("/sleep x what-was-said")
		require.Equal(t, "internal_error", d.await("error").Code)
		again := c.online(g.url, "b", "dev1ce-id")
		d.closed(4001, "replaced")
		for _, secret := range []string{"wr0ng-secret", "b0und-secret"} {
			stranger := c.connect(g.url, secret)
			stranger.hello(secret, "dev1ce-id")
			stranger.await("error")
		}
		stranger := c.connect(g.url, "c")
		stranger.say(`{"t":"hello","token":"` + token + `","device":{"id":"dev1ce-id\u0007"}}`)
		stranger.refused(1008, "bad_frame")
		if list, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", g.cmd.Process.Pid)); err == nil {
			require.NotContains(t, string(list), token)
		}
		g.stop()
		again.closed(1001, "going away")
		log := g.log.String()
		require.Contains(t, log, "unknown type", "debug lines are there")
		for _, secret := range secrets {
			require.NotContains(t, log, secret)
		}
		require.Empty(t, g.out.String())
		if format == "json" {
			jsonLines(t, log)
		}
	}
}

func jsonLines(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var entry struct {
			Time       time.Time
			Level, Msg string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		require.False(t, entry.Time.IsZero() || entry.Level == "" || entry.Msg == "", line)
	}
}

// TestSecretsInRefusals: nor may what the operator reads when it does not start, since that ends in logs too.
func TestSecretsInRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  []string
		args []string
	}{
		{env: []string{"MOBILE_TOKEN=" + token, "MOBILE_EXTRA_TOKENS=tel-1=" + token}},
		{env: []string{"MOBILE_EXTRA_TOKENS=" + token + "="}},
		{env: []string{"MOBILE_TOKEN_FILE=" + token}},
		{env: []string{"MOBILE_PORT=" + token}},
		{args: []string{"--token=" + token}},
		{args: []string{"--token", token}},
		{args: []string{token}},
		{args: []string{"--port=" + token}},
	} {
		require.NotContains(t, refuses(t, 2, c.env, c.args...), token, "%v %v", c.env, c.args)
	}
}

// TestSilentDevice answers no ping, which no client library would leave out.
func TestSilentDevice(t *testing.T) {
	t.Parallel()
	g := serve(t, "MOBILE_PING_INTERVAL=1s")
	conn, err := net.Dial("tcp", g.address())
	require.NoError(t, err)
	defer conn.Close()
	hello := `{"t":"hello","token":"` + token + `"}`
	_, err = fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81%s\x00\x00\x00\x00%s", []byte{0x80 | byte(len(hello))}, hello) // masked with zeros
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(8*time.Second)))
	said, err := io.ReadAll(conn)
	require.NoError(t, err, "the device is not given up")
	require.Contains(t, string(said), `"t":"ready"`)
	require.True(t, strings.HasSuffix(string(said), "\x89\x00"), "the last that came is no ping: %.20q", said)
	g.stop()
}

// get asks the gateway over HTTP and returns the status, the body and Retry-After.
func get(t *testing.T, method, url string, headers ...string) (status int, body, retry string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(b), answer.Header.Get("Retry-After")
}

var upgrade = []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}

// TestStop ends a gateway while turns run and other devices do nothing.
func TestStop(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			g := serve(t)
			c := coderWebsocket(t)
			status, body, _ := get(t, http.MethodGet, "http://"+g.address()+"/healthz")
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, "ok", strings.TrimSpace(body))
			status, body, _ = get(t, http.MethodHead, "http://"+g.address()+"/healthz")
			require.Equal(t, http.StatusOK, status)
			require.Empty(t, body)

			idle := c.online(g.url, "idle", "idle")
			var busy []*device
			for i := range 20 {
				d := c.online(g.url, fmt.Sprint("busy ", i), fmt.Sprint("busy-", i))
				d.text("/sleep 2 done")
				d.await("typing")
				busy = append(busy, d)
			}
			begun := time.Now()
			g.signal(signal)
			for status = 0; status != http.StatusServiceUnavailable; {
				require.Less(t, time.Since(begun), 1500*time.Millisecond, "load balancers are not told")
				var retry string
				if status, _, retry = get(t, http.MethodGet, "http://"+g.address()+"/healthz"); status == http.StatusServiceUnavailable {
					require.Regexp(t, `^[1-9][0-9]*$`, retry)
				}
			}
			status, _, retry := get(t, http.MethodGet, "http://"+g.address()+"/ws", upgrade...)
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Regexp(t, `^[1-9][0-9]*$`, retry)
			for _, d := range busy {
				d.hears("done")
				d.closed(1001, "going away")
			}
			idle.closed(1001, "going away")
			g.exits(0)
			require.Less(t, time.Since(begun), 6*time.Second)
		})
	}
}

// TestStopCutsLongTurns is the one test that waits: running turns get 10 s.
func TestStopCutsLongTurns(t *testing.T) {
	t.Parallel()
	g := serve(t)
	d := coderWebsocket(t).online(g.url, "a", "tel-1")
	d.text("/sleep 60 never")
	d.await("typing")
	begun := time.Now()
	g.signal(syscall.SIGTERM)
	d.closed(1001, "going away")
	require.InDelta(t, 10, time.Since(begun).Seconds(), 2)
	g.exits(0)
	require.Less(t, time.Since(begun), 16*time.Second)
}

// TestStopTwice: an operator who does not want to wait says so once more.
func TestStopTwice(t *testing.T) {
	t.Parallel()
	g := serve(t)
	d := coderWebsocket(t).online(g.url, "a", "tel-1")
	d.text("/sleep 60 never")
	d.await("typing")
	begun := time.Now()
	g.signal(syscall.SIGTERM)
	require.NotNil(t, g.log.await(t, `msg="stopping`, g.ended))
	g.signal(syscall.SIGTERM)
	g.exits(-1) // of the signal
	require.Less(t, time.Since(begun), 5*time.Second)
}

// TestStopWithStrangers: who has not said hello, or not even asked for an upgrade, does not keep a gateway up.
func TestStopWithStrangers(t *testing.T) {
	t.Parallel()
	g := serve(t)
	silent, err := net.Dial("tcp", g.address())
	require.NoError(t, err)
	defer silent.Close()
	stranger := coderWebsocket(t).connect(g.url, "a")
	begun := time.Now()
	g.stop()
	stranger.closed(1001, "going away")
	require.Less(t, time.Since(begun), 8*time.Second)
}
