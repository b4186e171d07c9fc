package interop

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestClients holds one conversation with each client, in the same words.
func TestClients(t *testing.T) {
	for name, library := range map[string]func(*testing.T) *client{
		"npm ws": npmWS, "python websockets": pythonWebsockets, "coder websocket": coderWebsocket,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := library(t)
			g := serve(t, "MOBILE_EXTRA_TOKENS=bound-1=b0und", "MOBILE_AVATAR_URL=https://avatar.example/", "MOBILE_PING_INTERVAL=1s")
			offersCompression(c)
			refusals(c, g.url)
			d := greeting(c, g.url)
			for _, step := range []func(*device){texts, stream, long, padded, pings, fragments, faults, keepAlive} {
				step(d)
			}
			second := takeOver(d, g.url)
			goodbyes(c, g.url)
			shutdown(second, g)
		})
	}
}

// offersCompression makes sure that the steps below show an offer being declined.
func offersCompression(c *client) {
	offer := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offer <- r.Header.Get("Sec-WebSocket-Extensions")
		w.WriteHeader(http.StatusTeapot)
	}))
	defer other.Close()
	c.do(command{Do: "dial", Conn: "other", URL: "ws" + strings.TrimPrefix(other.URL, "http") + "/ws"})
	require.Equal(c.t, event{Conn: "other", What: "refused", Code: http.StatusTeapot}, c.next("other"))
	require.Contains(c.t, <-offer, "permessage-deflate")
}

func refusals(c *client, url string) {
	c.do(command{Do: "dial", Conn: "lost", URL: url + "/nowhere"})
	require.Equal(c.t, event{Conn: "lost", What: "refused", Code: http.StatusNotFound}, c.next("lost"))

	d := c.connect(url, "no token")
	d.say(`{"t":"hello","device":{"id":"tel-1"}}`)
	d.refused(1008, "auth_failed")
	d = c.connect(url+"?token="+token, "token in the URL")
	d.hello("wr0ng", "tel-1")
	d.refused(1008, "auth_failed")
	d = c.connect(url, "token of another device")
	d.hello("b0und", "tel-1")
	d.refused(1008, "forbidden")
	d = c.connect(url, "device of another token")
	d.hello(token, "bound-1")
	d.refused(1008, "forbidden")
	d = c.connect(url, "no hello")
	d.text("hi")
	d.refused(1008, "bad_frame")
	d = c.connect(url, "a hello too long")
	d.hello(token, strings.Repeat("x", 70<<10))
	d.refused(1008, "too_big")
}

func greeting(c *client, url string) *device {
	d := c.connect(url, "first")
	d.say(`{"t":"hello","token":` + quote(token) + `,"device":{"id":"tel-1","name":"Phone ☎","platform":"android","app_version":"1.0.0"},"user":{"id":"u-1"}}`)
	require.JSONEq(c.t, `{"t":"ready","v":1,"session":"mobile:tel-1","device":{"id":"tel-1","name":"Phone ☎"},"avatar_url":"https://avatar.example/",
		"capabilities":{"text":true,"voice":true,"typing":true,"avatar_states":["idle","thinking","speaking"],
		"media_in":["image","video","document","audio"],"media_out":["image","voice","video","document","animation"],
		"prompts":["exec_approval","slash_confirm","clarify"],"edit":true,"max_media_bytes":8388608,"max_text_chars":12000}}`, d.hear().raw)
	return d
}

// texts come back in order, however fast they go out.
func texts(d *device) {
	said := func(i int) string {
		return fmt.Sprintf("text %d: \"Привет\" 👩‍👩‍👧‍👦 \\ \u2028 <b>&amp;", i)
	}
	for i := range 200 {
		d.text(said(i))
	}
	seen := map[string]bool{}
	for i := range 200 {
		f := d.await("message")
		require.Equal(d.t, said(i), f.Text)
		require.True(d.t, f.Final, f.raw)
		seen[f.ID] = true
	}
	require.Len(d.t, seen, 200, "every message has an id of its own")
}

func stream(d *device) {
	whole := strings.TrimSpace(strings.Repeat("слово word 👩🏽‍🚀 ", 60))
	d.text("/stream " + whole)
	first := d.await("message")
	require.False(d.t, first.Edit || first.Final, first.raw)
	edits := 0
	for last := first; !last.Final; edits++ {
		f := d.await("message")
		require.Equal(d.t, first.ID, f.ID)
		require.True(d.t, f.Edit, f.raw)
		require.True(d.t, strings.HasPrefix(f.Text, last.Text), "%q does not begin with %q", f.Text, last.Text)
		if last = f; f.Final {
			require.Equal(d.t, whole, f.Text)
		}
	}
	require.NotZero(d.t, edits)
}

// long is a reply in several frames; an application may say that much too.
func long(d *device) {
	const chars = 9_999
	d.text(fmt.Sprint("/long ", chars))
	whole := d.joined()
	require.Equal(d.t, chars, utf8.RuneCountInString(whole))
	d.text(whole)
	require.Equal(d.t, whole, d.joined())
}

// joined is a reply that may come in several frames.
func (d *device) joined() string {
	d.t.Helper()
	var first frame
	text := ""
	for i := 0; ; i++ {
		f := d.await("message")
		if i == 0 {
			first = f
		}
		require.Equal(d.t, first.ID, f.ID)
		require.Equal(d.t, i, f.Chunk.Index)
		require.Equal(d.t, first.Chunk.Total, f.Chunk.Total)
		require.Equal(d.t, i == f.Chunk.Total-1, f.Final)
		require.LessOrEqual(d.t, utf8.RuneCountInString(f.Text), 3_500)
		if text += f.Text; f.Final {
			return text
		}
	}
}

// padded is a message of 200 KiB of which the gateway knows a few bytes.
func padded(d *device) {
	frame := `{"t":"text","id":"padded","padding":"","text":"a large frame"}`
	d.say(strings.Replace(frame, `""`, quote(strings.Repeat("x", 200<<10-len(frame))), 1))
	d.hears("a large frame")
}

func pings(d *device) {
	for _, ts := range []string{
		`0`, `-0`, `1700000000123`, `-1.50e+300`, `1E400`, `123456789012345678901234567890`, `true`, `""`, `"\u0441 \ud83d"`, `"</script>"`,
		`[ ]`, `[1, [2,null]]`, `{"b":1,"a":{},"b":2}`, `{ "t" : "pong" }`,
	} {
		d.say(`{"t":"ping","ts":` + ts + `}`)
		require.Equal(d.t, ts, string(d.await("pong").TS))
	}
	for _, ping := range []string{`{"t":"ping"}`, `{"t":"PING","ts":null}`} {
		d.say(ping)
		require.JSONEq(d.t, `{"t":"pong"}`, d.await("pong").raw)
	}
	for _, payload := range []string{"p", strings.Repeat("p", 125)} {
		d.do(command{Do: "ping", Conn: d.conn, Text: payload})
		for {
			ev := d.next(d.conn)
			if ev.What == "pong" {
				require.Equal(d.t, payload, ev.Text)
				break
			}
			require.Regexp(d.t, `^\{"t":"avatar","state":"idle"`, ev.Text, "only the end of the pause may come now")
		}
	}
}

func fragments(d *device) {
	d.say(`{"t":"te`, `xt","id":"fragments","padding":"`+strings.Repeat("y", 100<<10), `","te`, ``, `xt":"in `, `pieces"}`)
	d.hears("in pieces")
	d.do(command{Do: "send", Conn: d.conn, Binary: true, Parts: []string{`{"t":"text","id":"binary","text":"in bytes"}`}})
	d.hears("in bytes")
	d.do(command{Do: "send", Conn: d.conn, Binary: true, Parts: []string{`{"t":"text",`, `"id":"binary pieces",`, `"text":"in pieces of bytes"}`}})
	d.hears("in pieces of bytes")
}

// faults that are not fatal leave the conversation as it was.
func faults(d *device) {
	for said, code := range map[string]string{
		`{"t":"text","text":"no id"}`: "bad_frame",
		`[]`:                          "bad_frame",
		`{"t":"text","id":"long","text":"` + strings.Repeat("ы", 12_001) + `"}`: "too_big",
	} {
		d.say(said)
		f := d.await("error")
		require.Equal(d.t, code, f.Code)
		require.False(d.t, f.Fatal, f.raw)
	}
	d.say(`{"t":"something new"}`)
	d.text("still here")
	d.hears("still here")
}

// keepAlive is silent for longer than the gateway bears without an answer to its pings, which the library gives.
func keepAlive(d *device) {
	d.text("/sleep 4 awake")
	d.hears("awake")
}

func takeOver(first *device, url string) *device {
	second := first.connect(url, "second")
	second.hello(token, "tel-1")
	require.Equal(first.t, "ready", second.hear().T)
	first.closed(4001, "replaced")
	second.text("it is me")
	second.hears("it is me")
	return second
}

// goodbyes of a client are answered with the same code.
func goodbyes(c *client, url string) {
	for code, reason := range map[int]string{1000: "bye", 1001: "", 4321: "до свидания"} {
		d := c.online(url, fmt.Sprint("bye ", code), "tel-2")
		d.text("one last thing")
		d.hears("one last thing")
		c.do(command{Do: "close", Conn: d.conn, Code: code, Text: reason})
		for {
			ev := c.next(d.conn)
			if ev.What == "close" {
				require.Equal(c.t, code, ev.Code)
				break
			}
			require.Regexp(c.t, `^\{"t":"(avatar|typing)"`, ev.Text)
		}
	}
}

func shutdown(d *device, g *gateway) {
	third := d.online(g.url, "third", "tel-3")
	g.stop()
	d.closed(1001, "going away")
	third.closed(1001, "going away")
}

// TestLockFile: the package's hash is pinned, and where to fetch it from is each machine's own affair.
func TestLockFile(t *testing.T) {
	lock, err := os.ReadFile("testdata/package-lock.json")
	require.NoError(t, err)
	require.Contains(t, string(lock), `"integrity": "sha512-`)
	require.NotContains(t, string(lock), `"resolved"`)
	require.NotContains(t, string(lock), "://")
}
