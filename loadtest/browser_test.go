package loadtest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A browser draws the page: all of its plots and phases, with nothing to complain of, and nothing wider than the window.
func TestPageInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: apt-get install chromium")
	}
	// Nothing of the page runs, so a frame around it says how wide it is.
	dir := t.TempDir()
	var html bytes.Buffer
	require.NoError(t, phasedPicture().WriteHTML(&html))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "report.html"), html.Bytes(), 0o600))
	dom, said := render(t, browser, "file://"+filepath.Join(dir, "report.html"))
	require.NotContains(t, said, "CONSOLE")
	require.Equal(t, 6, strings.Count(dom, "<svg"), "%s", said)
	require.Equal(t, 5, strings.Count(dom, "<tr>"))
	require.NotRegexp(t, `<(script|img)`, dom)

	const frame = `<!doctype html><body><script>
async function look() {
	for (const width of [1280, 390]) {
		const f = document.createElement("iframe")
		f.style.width = width + "px"
		f.srcdoc = page
		await new Promise(done => { f.onload = done; document.body.append(f) })
		const d = f.contentDocument
		const p = document.createElement("p")
		p.textContent = "width " + width + " " + (d.documentElement.scrollWidth <= f.clientWidth) + " " + [...d.querySelectorAll("svg")].every(s => s.getBoundingClientRect().width > 250)
		document.body.append(p)
		f.remove()
	}
}
const page = `
	quoted := appendQuoted(nil, html.String())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "frame.html"), []byte(frame+string(quoted)+"\nlook()</script>"), 0o600))
	dom, said = render(t, browser, "file://"+filepath.Join(dir, "frame.html"))
	require.NotContains(t, said, "CONSOLE")
	require.Equal(t, []string{"width 1280 true true", "width 390 true true"}, regexp.MustCompile(`width \d+ \w+ \w+`).FindAllString(dom, -1), said)
}

func render(t *testing.T, browser, url string) (dom, said string) {
	t.Helper()
	profile, err := os.MkdirTemp("", "loadtest-browser-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(profile) }) // as far as its last processes let us
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+profile, "--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom", url)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errOut, 5*time.Second
	require.NoError(t, cmd.Run(), errOut.String())
	return out.String(), errOut.String()
}
