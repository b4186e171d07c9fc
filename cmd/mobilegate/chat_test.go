package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func piped(t *testing.T, input string, args ...string) (*fakeGateway, *client) {
	t.Helper()
	g := newFakeGateway(t)
	return g, startPiped(t, t.Context(), strings.NewReader(input), 0, append([]string{"--url", g.url}, args...)...)
}

func TestChatPiped(t *testing.T) {
	g, c := piped(t, "hi\n\n  \n/help\r\nlast, without a line end", "--device", "tel-1")
	l := g.accept()
	l.text("hi")
	l.say(turn("m1", "hello\nthere")...)
	l.text("/help")
	l.say(`{"t":"hologram"}`, `{"t":"avatar","state":"thinking"}`, typing,
		`{"t":"message","id":"m2","text":"part one, ","chunk":{"index":0,"total":2},"final":false}`,
		`{"t":"message","id":"m2","text":"part two","chunk":{"index":1,"total":2},"final":true}`, stop)
	l.text("last, without a line end")
	l.say(typing, message("m3", "it"), message("m3", "it grows", "edit"), message("m3", "it grew up", "edit", "final"), stop)
	require.Empty(t, l.drain())
	c.exits(0)
	require.Equal(t, "hello\nthere\npart one, part two\nit grew up\n", c.out.String())
	require.Empty(t, c.errOut.String())
}

func TestChatPipedWaitsForEachAnswer(t *testing.T) {
	g, c := piped(t, "one\ntwo\n")
	l := g.accept()
	id := l.text("one")
	l.say(`{"t":"error","code":"rate_limited","message":"Wait.","fatal":false,"id":"another"}`)
	l.say(typing, `{"t":"error","code":"internal_error","message":"It failed.","fatal":false,"id":"`+id+`"}`)
	id = l.text("two") // an error with the id is an answer
	l.say(stop)        // of the turn that failed, not of this one
	l.say(`{"t":"error","code":"too_big","message":"Too long.","fatal":false,"id":"` + id + `"}`)
	require.Empty(t, l.drain())
	c.exits(0)
	require.Empty(t, c.out.String())
	require.Equal(t, "rate_limited: Wait.\ninternal_error: It failed.\ntoo_big: Too long.\n", c.errOut.String())
}

func TestChatPipedTellsTurnsOfEarlierRunsApart(t *testing.T) {
	g, c := piped(t, "hi\n")
	l := g.accept()
	l.say(typing) // a turn of an earlier run goes on
	l.text("hi")
	l.say(message("m0", "old", "final"), stop)
	l.say(turn("m1", "new")...)
	l.drain()
	c.exits(0)
	require.Equal(t, "old\nnew\n", c.out.String())
}

func TestChatEmptyInputChecksTheConnection(t *testing.T) {
	g, c := piped(t, "")
	require.Empty(t, g.accept().drain())
	c.exits(0)
}

func TestChatRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		code         int
		reason, want string
		say          []string
	}{
		"with its error frame": {1008, "auth_failed", "chat: the gateway refused: auth_failed: The token is\x1b[0m wrong.\n", []string{`{"t":"error","code":"auth_failed","message":"The token is\u001b[0m wrong.","fatal":true}`}},
		"bare":                 {1008, "forbidden", "chat: the gateway refused: forbidden\n", nil},
		"replaced":             {4001, "replaced", "chat: another instance has connected as this device (replaced)\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g, c := piped(t, "hi\n")
			l := g.hello()
			l.say(tc.say...)
			l.close(tc.code, tc.reason)
			c.exits(1)
			require.Equal(t, strings.ReplaceAll(tc.want, "\x1b", ""), c.errOut.String())
			require.Empty(t, c.out.String())
		})
	}
}

func TestChatSendsAgainAfterReconnect(t *testing.T) {
	g, c := piped(t, "hi\nand\n")
	l := g.accept()
	id := l.text("hi")
	l.say(typing)
	l.close(1001, "going away")
	l = g.accept()
	require.Equal(t, id, l.text("hi"), "the gateway's dedup window needs the same id")
	l.say(turn("m1", "hello")...)
	l.text("and")
	l.say(turn("m2", "bye")...)
	l.drain()
	c.exits(0)
	require.Equal(t, "hello\nbye\n", c.out.String())
	require.Equal(t, "not connected (closed by the gateway (1001): going away); trying again\nconnected again\n", c.errOut.String())
}

func TestChatSaysWhenAnswersWereLost(t *testing.T) {
	g := newFakeGateway(t)
	c := startPiped(t, t.Context(), strings.NewReader("hi\n"), 20*time.Millisecond, "--url", g.url)
	l := g.accept()
	l.text("hi")
	l.close(1013, "overloaded")
	l = g.accept() // the turn ended while there was no connection: its id is known and no answer comes
	l.text("hi")
	l.drain()
	c.exits(1)
	require.Contains(t, c.errOut.String(), "chat: the connection broke, and the answers to 1 lines may be lost\n")
}

func TestChatInterrupted(t *testing.T) {
	g := newFakeGateway(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := startPiped(t, ctx, strings.NewReader("hi\n"), 0, "--url", g.url)
	l := g.accept()
	l.text("hi")
	cancel()
	l.drain()
	c.exits(1)
	require.Equal(t, "chat: interrupted before every line was answered\n", c.errOut.String())
}

func TestChatCards(t *testing.T) {
	const approve = `{"t":"prompt","id":"p1","kind":"exec_approval","text":"Run it?","command":"rm\u001b[2J x","description":"danger","options":[{"id":"once","label":"Once"},{"id":"deny","label":"No"}],"session":"mobile:tel-1","timeout_seconds":300}`
	const clarify = `{"t":"prompt","id":"p1","kind":"clarify","text":"Which?","options":[{"id":"c0","label":"A"},{"id":"other","label":"Else"}],"session":"mobile:tel-1","timeout_seconds":9}`
	for name, tc := range map[string]struct{ card, lines, option, text string }{
		"a number":             {approve, "2\n", "deny", ""},
		"an id in any case":    {approve, "ONCE\n", "once", ""},
		"what is no answer":    {approve, "yes\n3\nonce\n", "once", ""},
		"clarify, a number":    {clarify, "1\n", "c0", ""},
		"clarify, a free text": {clarify, " 3 of them \n", "other", "3 of them"},
		"clarify, other first": {clarify, "other\n/usr/bin\n", "other", "/usr/bin"},
	} {
		t.Run(name, func(t *testing.T) {
			g, c := piped(t, "/card\n"+tc.lines+"next\n")
			l := g.accept()
			l.text("/card")
			l.say(typing, tc.card)
			want := map[string]any{"t": "prompt", "prompt_id": "p1", "option_id": tc.option}
			if tc.text != "" {
				want["text"] = tc.text
			}
			require.Equal(t, want, l.hear())
			l.say(`{"t":"prompt_done","id":"p1","option_id":"`+tc.option+`"}`, message("m1", "done", "final"), stop)
			l.text("next")
			l.say(turn("m2", "ok")...)
			l.drain()
			c.exits(0)
			require.Equal(t, "done\nok\n", c.out.String())
			require.Contains(t, c.errOut.String(), "card answered: "+tc.option)
			require.Equal(t, name == "what is no answer", strings.Count(c.errOut.String(), "not an answer to the card") == 2)
			if tc.card == approve {
				require.True(t, strings.HasPrefix(c.errOut.String(), "? exec_approval: Run it?\n    command: rm[2J x\n    danger\n  1  once  Once\n  2  deny  No\n  answer with a number or an option id within 300 s\n"), c.errOut)
			}
		})
	}
}

func TestChatCardsOneAfterTheOther(t *testing.T) {
	g, c := piped(t, "/cards\n/stop\n1\n1\n")
	l := g.accept()
	l.text("/cards")
	card := func(id string) string {
		return `{"t":"prompt","id":"` + id + `","kind":"slash_confirm","text":"` + id + `?","options":[{"id":"cancel","label":"No"}],"timeout_seconds":5}`
	}
	l.say(typing, card("p1"), card("p2"))
	id := l.text("/stop") // a command is never an answer
	l.say(`{"t":"error","code":"bad_frame","message":"No.","id":"` + id + `"}`)
	require.Equal(t, "p1", l.hear()["prompt_id"])
	require.NotContains(t, c.errOut.String(), "p2?")
	l.say(`{"t":"prompt_done","id":"p1","expired":true}`)
	require.Equal(t, "p2", l.hear()["prompt_id"])
	l.say(`{"t":"prompt_done","id":"p2","option_id":"cancel"}`, `{"t":"prompt_done","id":"p9","expired":true}`, stop)
	l.drain()
	c.exits(0)
	require.Contains(t, c.errOut.String(), "card expired\n? slash_confirm: p2?")
}

func TestChatControlCharacters(t *testing.T) {
	g, c := piped(t, "hi\n")
	l := g.accept()
	l.text("hi")
	l.say(turn("m1", "a\x1b]0;title\x07b\u009b31mc\r\u202ed\te\x7f\n🙂\u200d!")...)
	l.drain()
	c.exits(0)
	require.Equal(t, "a]0;titleb31mcd\te\n🙂\u200d!\n", c.out.String())
}

func TestChatShowsFiles(t *testing.T) {
	chunk := func(part, rest string) string {
		return `{"t":"media","id":"f","kind":"document","mime":"x/y","filename":"a\u001b[2J.pdf","parts":2,"size":5,"part":` + part + rest + `}`
	}
	g, c := piped(t, "hi\n")
	l := g.accept()
	l.text("hi")
	l.say(typing, chunk("0", `,"final":false,"data":"AQID"`), chunk("1", `,"final":true,"data":"BAU=","caption":"one\ntwo"`),
		`{"t":"media","id":"g","kind":"image","mime":"x/y","filename":"","part":0,"parts":1,"final":true,"size":9,"url":"https://h/f"}`, stop)
	l.drain()
	c.exits(0)
	require.Empty(t, c.out.String())
	require.Equal(t, "file: document a[2J.pdf, 5 bytes: one two\nfile: image, 9 bytes, at https://h/f\n", c.errOut.String())
}

func TestChatJSON(t *testing.T) {
	g, c := piped(t, `{"t":"ping","ts":1}`+"\nhi\n"+`{"t":"text","id":"x","text":"raw"}`+"\n"+`{"t":"text","id":"x","text":"again"}`+"\n{broken\n", "--json")
	l := g.accept()
	require.Equal(t, map[string]any{"t": "ping", "ts": 1.0}, l.hear())
	l.say(`{"t":"pong","ts":1}`)
	l.text("hi")
	l.say(typing, "{\"t\":\"hologram\",\n \"x\":\"a\u009b31m\x7f\"}", stop)
	require.Equal(t, "x", l.text("raw"))
	l.say(typing, stop)
	require.Equal(t, "x", l.text("again"), "a repeated id gets no answer, and is not waited for")
	require.Equal(t, map[string]any{"broken": "{broken"}, l.hear())
	l.say(`{"t":"error","code":"bad_frame","message":"Not JSON.","fatal":false}`)
	l.drain()
	c.exits(0)
	require.Equal(t, []string{
		`{"t":"ready","v":1,"session":"mobile:tel-1","device":{"id":"tel-1","name":"tel-1"}}`,
		`{"t":"pong","ts":1}`,
		typing, `{"t":"hologram",  "x":"a\u009b31m\u007f"}`, stop,
		typing, stop,
		`{"t":"error","code":"bad_frame","message":"Not JSON.","fatal":false}`,
	}, strings.Split(strings.TrimSpace(c.out.String()), "\n"))
	require.Empty(t, c.errOut.String())
}

func TestChatTerminal(t *testing.T) {
	g := newFakeGateway(t)
	c := startTerminal(t, t.Context(), "--url", g.url)
	l := g.accept()
	c.out.await(t, "connected as tel-1; Ctrl-D leaves")
	c.typeIn("one\ntwo\nthree\n")
	for _, s := range []string{"one", "two", "three"} {
		l.text(s) // in order, without waiting for answers
	}
	l.say(`{"t":"avatar","state":"thinking"}`, typing)
	c.out.await(t, "· thinking")
	l.say(message("m1", "it"), message("m1", "it \x1b[31mgrows", "edit"))
	c.out.await(t, "it [31mgrows")
	l.say(message("m1", "rewritten", "edit", "final"), `{"t":"avatar","state":"speaking"}`)
	c.out.await(t, eraseLine+"rewritten\r\n")
	c.out.await(t, "· speaking")
	l.say(stop, `{"t":"prompt","id":"p1","kind":"clarify","text":"Which?","options":[{"id":"c0","label":"A"}],"timeout_seconds":9}`)
	c.out.await(t, "  1  c0  A\r\n")
	c.typeIn("free\n")
	require.Equal(t, map[string]any{"t": "prompt", "prompt_id": "p1", "option_id": "other", "text": "free"}, l.hear())

	l.close(1001, "going away")
	c.out.await(t, "not connected (closed by the gateway (1001): going away); trying again")
	c.typeIn("later\n")
	c.out.await(t, "sent later")
	l = g.accept()
	c.out.await(t, "connected again")
	for _, s := range []string{"two", "three", "later"} {
		l.text(s) // "one" was answered
	}
	c.typeIn("\x04")
	l.drain()
	c.exits(0)
	require.Empty(t, c.errOut.String())
}

func TestChatTerminalLeavesWhileOffline(t *testing.T) {
	c := startTerminal(t, t.Context(), "--url", "ws://127.0.0.1:1/ws")
	c.out.await(t, "connection refused); trying again")
	c.typeIn("\x04")
	c.exits(0)
}

func TestChatTerminalRefused(t *testing.T) {
	g := newFakeGateway(t)
	c := startTerminal(t, t.Context(), "--url", g.url)
	l := g.accept()
	l.close(4001, "replaced")
	c.exits(1)
	require.Contains(t, c.errOut.String(), "(replaced)")
}

func TestChatUsage(t *testing.T) {
	none := func(string) string { return "" }
	empty := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(empty, []byte(" \n"), 0o600))
	for name, tc := range map[string]struct {
		env  func(string) string
		args []string
		want string
	}{
		"no token":         {none, nil, "MOBILE_TOKEN"},
		"empty token file": {testEnv, []string{"--token-file", empty}, "no token"},
		"no token file":    {testEnv, []string{"--token-file", empty + "x"}, "no such file"},
		"token as a flag":  {testEnv, []string{"--token=" + chatToken}, "not defined: -token"},
		"odd address":      {testEnv, []string{"--url", "http://h/?token=" + chatToken}, "ws://host"},
		"argument":         {testEnv, []string{chatToken}, "unexpected argument"},
		"odd device":       {testEnv, []string{"--device", "a\nb"}, "--device"},
		"long device":      {testEnv, []string{"--device", strings.Repeat("ж", 121)}, "--device"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut strings.Builder
			require.Equal(t, 2, runChat(t.Context(), tc.args, tc.env, strings.NewReader(""), &out, &errOut))
			require.Contains(t, errOut.String(), tc.want)
			require.NotContains(t, errOut.String(), chatToken)
			require.Empty(t, out.String())
		})
	}
	var errOut strings.Builder
	require.Equal(t, 0, runChat(t.Context(), []string{"--help"}, none, strings.NewReader(""), io.Discard, &errOut))
	require.Contains(t, errOut.String(), "usage: mobilegate chat")
}

func TestChatTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(chatToken+"\n"), 0o600))
	cfg, _, err := chatConfig([]string{"--token-file", file}, func(string) string { return "" }, io.Discard)
	require.NoError(t, err)
	require.Equal(t, chatToken, cfg.Token)
	require.Regexp(t, `^chat-[A-Za-z0-9._-]{1,64}$`, cfg.Device.ID)
}
