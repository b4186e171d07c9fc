package engine

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asking is the good request with its lines changed: "Name: value" replaces the line of that name, "-Name" takes it out,
// anything else is put behind the rest. Lines that hold a line end are put in as they are.
func asking(changes ...string) string {
	lines := strings.Split(strings.TrimSuffix(goodRequest, "\r\n\r\n"), "\r\n")
	for _, change := range changes {
		name, _, _ := strings.Cut(strings.TrimPrefix(change, "-"), ":")
		at := -1
		for i, line := range lines {
			if strings.HasPrefix(line, name+":") {
				at = i
			}
		}
		switch {
		case strings.HasPrefix(change, "-"):
			lines = append(lines[:at], lines[at+1:]...)
		case at < 0:
			lines = append(lines, change)
		default:
			lines[at] = change
		}
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// first is the good request with another request line.
func first(line string) string {
	_, rest, _ := strings.Cut(goodRequest, "\r\n")
	return line + "\r\n" + rest
}

// long is the good request as n bytes.
func long(n int) string {
	const name = "X-Long: "
	return asking(name + strings.Repeat("h", n-len(asking(name))))
}

type exchange struct {
	request string
	status  int
	header  string // "Name: value" that the response has
}

const (
	version13 = "Sec-WebSocket-Version: 13"
	again     = "Retry-After: 5"
)

// upgrades is the table of spec 1.
var upgrades = map[string]exchange{
	"good":                        {goodRequest, 101, "Sec-WebSocket-Accept: " + goodAccept},
	"good, the connection":        {goodRequest, 101, "Connection: Upgrade"},
	"query":                       {first("GET /ws?x=1&y=%20?/ HTTP/1.1"), 101, ""},
	"token in the query":          {first("GET /ws?token=secret HTTP/1.1"), 101, ""},
	"HTTP/1.2":                    {first("GET /ws HTTP/1.2"), 101, ""},
	"origin is not looked at":     {asking("Origin: http://elsewhere"), 101, ""},
	"names are case-blind":        {strings.NewReplacer("Upgrade:", "UPGRADE:", "Sec-Web", "sEC-wEB", "Host", "host").Replace(goodRequest), 101, ""},
	"values are case-blind":       {asking("Upgrade: WebSocket", "Connection: keep-alive, uPGRADE"), 101, ""},
	"blanks around values":        {asking("Host: \t gate \t", "Sec-WebSocket-Key:"+goodKey+"  "), 101, "Sec-WebSocket-Accept: " + goodAccept},
	"an empty host":               {asking("Host:"), 101, ""},
	"bytes over 7F in a value":    {asking("X-Name: \xD0\xB6"), 101, ""},
	"another path":                {first("GET /other HTTP/1.1"), 404, ""},
	"the root":                    {first("GET / HTTP/1.1"), 404, ""},
	"a longer path":               {first("GET /ws/ HTTP/1.1"), 404, ""},
	"another path and method":     {first("POST /other HTTP/1.1"), 404, ""},
	"POST":                        {first("POST /ws HTTP/1.1"), 405, "Allow: GET"},
	"HEAD":                        {first("HEAD /ws HTTP/1.1"), 405, "Allow: GET"},
	"methods have a case":         {first("get /ws HTTP/1.1"), 405, "Allow: GET"},
	"POST with a body":            {strings.Replace(first("POST /ws HTTP/1.1"), "Host", "Content-Length: 3\r\nHost", 1) + "abc", 405, "Allow: GET"},
	"HTTP/1.0":                    {first("GET /ws HTTP/1.0"), 505, ""},
	"HTTP/0.9":                    {first("GET /ws HTTP/0.9"), 505, ""},
	"HTTP/2.0":                    {first("GET /ws HTTP/2.0"), 505, ""},
	"no upgrade":                  {"GET /ws HTTP/1.1\r\nHost: gate\r\n\r\n", 426, "Upgrade: websocket"},
	"another upgrade":             {asking("Upgrade: h2c"), 426, "Upgrade: websocket"},
	"no connection":               {asking("-Connection:"), 426, "Upgrade: websocket"},
	"another connection":          {asking("Connection: keep-alive"), 426, "Upgrade: websocket"},
	"version 8":                   {asking("Sec-WebSocket-Version: 8"), 426, version13},
	"version 130":                 {asking("Sec-WebSocket-Version: 130"), 426, version13},
	"no version":                  {asking("-Sec-WebSocket-Version:"), 426, version13},
	"no HTTP":                     {"this is no request\r\n\r\n", 400, ""},
	"nothing":                     {"\r\n\r\n", 400, ""},
	"a line of two words":         {first("GET /ws"), 400, ""},
	"a line of four words":        {first("GET /ws HTTP/1.1 x"), 400, ""},
	"two blanks in the line":      {first("GET  /ws HTTP/1.1"), 400, ""},
	"a blank before the line":     {first(" GET /ws HTTP/1.1"), 400, ""},
	"a version in small letters":  {first("GET /ws http/1.1"), 400, ""},
	"a version of three digits":   {first("GET /ws HTTP/1.10"), 400, ""},
	"a method that is no token":   {first("G(T /ws HTTP/1.1"), 400, ""},
	"a target without a slash":    {first("GET ws HTTP/1.1"), 400, ""},
	"a whole URL as the target":   {first("GET http://gate/ws HTTP/1.1"), 400, ""},
	"a control in the target":     {first("GET /ws\x01 HTTP/1.1"), 400, ""},
	"a tab in the line":           {first("GET\t/ws HTTP/1.1"), 400, ""},
	"a blank before the colon":    {asking("X-Name : 1"), 400, ""},
	"a blank in a name":           {asking("X Name: 1"), 400, ""},
	"a name that is no token":     {asking("X(Name): 1"), 400, ""},
	"a name beyond ASCII":         {asking("X-\xD0\xB6: 1"), 400, ""},
	"no name":                     {asking(": 1"), 400, ""},
	"no colon":                    {asking("X-Name"), 400, ""},
	"a folded line":               {asking("X-Name: 1\r\n 2"), 400, ""},
	"a folded line with a colon":  {asking("X-Name: 1\r\n Y: 2"), 400, ""},
	"a first line that is folded": {first("GET /ws HTTP/1.1\r\n X: 1"), 400, ""},
	"a control in a value":        {asking("X-Name: a\x01b"), 400, ""},
	"a zero byte in a value":      {asking("X-Name: a\x00b"), 400, ""},
	"DEL in a value":              {asking("X-Name: a\x7Fb"), 400, ""},
	"a bare CR":                   {asking("X-Name: a\rb"), 400, ""},
	"a bare LF":                   {asking("X-Name: a\nY: b"), 400, ""},
	"no host":                     {asking("-Host:"), 400, ""},
	"two hosts":                   {asking("Host: gate\r\nHost: gate"), 400, ""},
	"no key":                      {asking("-Sec-WebSocket-Key:"), 400, ""},
	"a short key":                 {asking("Sec-WebSocket-Key: c2hvcnQ="), 400, ""},
	"a key of 15 bytes":           {asking("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAA"), 400, ""},
	"a key of 17 bytes":           {asking("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAAA="), 400, ""},
	"a key of 18 bytes":           {asking("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAAAA"), 400, ""},
	"a key that is no base64":     {asking("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ!="), 400, ""},
	"a key with bits left":        {asking("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR=="), 400, ""},
	"at the limit":                {long(8 << 10), 101, ""},
	"above the limit":             {long(8<<10 + 1), 431, ""},
	"at the limit without an end": {long(8<<10 + 4)[:8<<10], 431, ""},
	"far above the limit":         {long(40 << 10), 431, ""},
	"healthz":                     {"GET /healthz HTTP/1.1\r\nHost: gate\r\n\r\n", 200, "Content-Length: 3"},
	"healthz with a query":        {"GET /healthz?x HTTP/1.1\r\nHost: gate\r\n\r\n", 200, ""},
	"healthz by HEAD":             {"HEAD /healthz HTTP/1.1\r\nHost: gate\r\n\r\n", 200, "Content-Length: 3"},
	"healthz by HTTP/1.0":         {"GET /healthz HTTP/1.0\r\n\r\n", 200, ""},
	"healthz by HEAD, HTTP/1.0":   {"HEAD /healthz HTTP/1.0\r\n\r\n", 200, ""},
	"healthz by POST":             {"POST /healthz HTTP/1.1\r\nHost: gate\r\n\r\n", 405, "Allow: GET, HEAD"},
	"healthz, malformed":          {"GET /healthz HTTP/1.1\r\nHost : gate\r\n\r\n", 400, ""},
}

var draining = map[string]exchange{
	"the entry":           {goodRequest, 503, again},
	"healthz":             {"GET /healthz HTTP/1.1\r\nHost: gate\r\n\r\n", 503, again},
	"healthz by HEAD":     {"HEAD /healthz HTTP/1.0\r\n\r\n", 503, again},
	"another path":        {first("GET /other HTTP/1.1"), 404, ""},
	"no upgrade":          {"GET /ws HTTP/1.1\r\nHost: gate\r\n\r\n", 503, again},
	"a malformed request": {"x\r\n\r\n", 400, ""},
}

// check reads the response to x, and that nothing follows it.
func (x exchange) check(t *testing.T, r *bufio.Reader) {
	t.Helper()
	method, _, _ := strings.Cut(x.request, " ")
	response, err := http.ReadResponse(r, &http.Request{Method: method})
	require.NoError(t, err)
	require.Equal(t, x.status, response.StatusCode)
	if name, value, ok := strings.Cut(x.header, ": "); ok {
		require.Equal(t, value, response.Header.Get(name), name)
	}
	if x.status == 101 {
		require.Empty(t, response.Header.Get("Sec-WebSocket-Extensions"))
		require.Empty(t, response.Header.Get("Sec-WebSocket-Protocol"))
		return
	}
	require.True(t, response.Close)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if method == "HEAD" {
		require.Empty(t, body)
	} else {
		require.Len(t, body, int(response.ContentLength))
	}
	if x.status == 200 && method == "GET" {
		require.Equal(t, "ok\n", string(body))
	}
	if method == "HEAD" && x.status == 405 {
		_, _ = io.Copy(io.Discard, r)
		return
	}
	_, err = r.ReadByte()
	require.Equal(t, io.EOF, err)
}

func TestUpgradeOverLoopback(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	for name, x := range upgrades {
		t.Run(name, func(t *testing.T) {
			d := r.dial(t)
			d.put([]byte(x.request))
			x.check(t, d.r)
		})
	}
	t.Run("byte by byte", func(t *testing.T) {
		d := r.dial(t)
		for i := range len(goodRequest) {
			d.put([]byte{goodRequest[i]})
		}
		d.upgraded()
		d.put(text("x"))
		d.wants("text x")
	})
}

func TestUpgradeWhileDraining(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	d, _ := r.join(t)
	r.Drain()
	for name, x := range draining {
		t.Run(name, func(t *testing.T) {
			d := r.dial(t)
			d.put([]byte(x.request))
			x.check(t, d.r)
		})
	}
	d.put(text("who was here goes on"))
	d.wants("text who was here goes on")
	require.Equal(t, int64(2), r.Stats().Refused)
}

// However a request is cut, its answer is the same: byte by byte, and in two at every position.
func TestUpgradeInPieces(t *testing.T) {
	t.Parallel()
	s, _ := bare(t, Config{MaxConnections: 1}, newDesk())
	for name, x := range upgrades {
		t.Run(name, func(t *testing.T) {
			play := func(cut func(int) int) {
				l := alone(t, s, requesting)
				l.takes([]byte(x.request), cut)
				l.Close(nil)
				x.check(t, bufio.NewReader(l.far))
				l.finish()
			}
			play(func(int) int { return 1 })
			step := max(1, len(x.request)/400)
			if raceEnabled {
				step *= 8 // the detector makes it ten times as slow, and nothing is concurrent here
			}
			for at := 1; at < len(x.request); at += step {
				play(func(left int) int { return at + (left-len(x.request))*at })
			}
		})
	}
}

// What comes in the segment of the request, or of its end, is read as frames.
func TestPipelined(t *testing.T) {
	t.Parallel()
	frames := append(text("a"), append(ping("b"), text("c")...)...)
	stream := append([]byte(goodRequest), frames...)
	r := start(t, Config{}, newDesk())
	d := r.dial(t)
	d.put(stream)
	d.upgraded()
	heard := []string{d.hears(), d.hears(), d.hears()}
	require.ElementsMatch(t, []string{"text a", "pong b", "text c"}, heard)

	s, _ := bare(t, Config{MaxConnections: 1}, newDesk())
	for at := 1; at < len(stream); at++ {
		l := alone(t, s, requesting)
		l.traffic(stream[:at], s.cfg.Now())
		l.traffic(stream[at:], s.cfg.Now())
		d := newDevice(t, l.far)
		d.upgraded()
		heard := []string{d.hears(), d.hears(), d.hears()}
		require.ElementsMatch(t, []string{"text a", "pong b", "text c"}, heard, at)
		l.finish()
	}
}

func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{"nothing": "", "half a request": goodRequest[:50]} {
		t.Run(name, func(t *testing.T) {
			r := start(t, Config{}, newDesk())
			slow, late := r.dial(t), r.dial(t)
			slow.put([]byte(sent))
			late.put([]byte(sent))
			r.caughtUp(t, 2)
			r.pass(RequestTimeout - tick)
			slow.put([]byte(goodRequest[len(sent):]))
			slow.upgraded()
			r.pass(tick)
			exchange{request: "GET", status: 408}.check(t, late.r)
			slow.put(text("in time"))
			slow.wants("text in time")
		})
	}
}

// A device that is upgraded has HelloTimeout for its first message, whatever else it says.
func TestHelloTimeout(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]byte{"nothing": nil, "a fragment": wire(1, "hello"), "many fragments": bytes.Repeat(wire(0, ""), 9)} {
		if name == "many fragments" {
			sent[0] = 1
		}
		t.Run(name, func(t *testing.T) {
			for _, limit := range []time.Duration{0, 60 * time.Second} {
				s, k := bare(t, Config{MaxConnections: 1, HelloTimeout: limit}, newDesk())
				l := alone(t, s, requesting)
				d := newDevice(t, l.far)
				l.traffic(append([]byte(goodRequest), sent...), k.now())
				d.upgraded()
				whole := s.cfg.HelloTimeout
				for range 3 {
					k.pass(s, whole/3-tick)
					l.traffic(ping("x"), k.now())
					d.wants("pong x")
				}
				k.pass(s, 3*tick)
				d.wants("text "+lastWords(ErrNoHello, false), "close 1008 no_hello", "end")
				l.finish()
			}
		})
	}
}

func TestStartSaysWhyNot(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}, newDesk())
	err := New(Config{Host: "127.0.0.1", Port: r.Port(), MaxConnections: 1}, newDesk()).Start()
	require.EqualError(t, err, fmt.Sprintf("port %d is taken by another program", r.Port()))
	require.EqualError(t, New(Config{Host: "no.such.host.invalid", MaxConnections: 1}, newDesk()).Start(), "the host to listen on has no address")
}

// Without a host, both families are served on one port.
func TestBothFamilies(t *testing.T) {
	t.Parallel()
	s := New(Config{Loops: 2, MaxConnections: 10}, newDesk())
	require.NoError(t, s.Start())
	defer func() { require.NoError(t, s.Stop(context.Background())) }()
	for _, host := range []string{"127.0.0.1", "::1"} {
		c, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(s.Port())))
		if err != nil && host == "::1" {
			t.Skip("no IPv6 here")
		}
		require.NoError(t, err)
		d := newDevice(t, c)
		d.put([]byte(goodRequest))
		d.upgraded()
	}
}

// Stop says 1001 to everyone who is upgraded, and frees the port at once.
func TestStop(t *testing.T) {
	t.Parallel()
	desk := newDesk()
	s := New(Config{Host: "127.0.0.1", MaxConnections: 10}, desk)
	require.NoError(t, s.Start())
	r := &rig{Server: s, desk: desk}
	admitted, p := r.join(t)
	asking, open := r.dial(t), r.open(t)
	asking.put([]byte(goodRequest[:50]))
	r.caughtUp(t, 3)
	require.NoError(t, s.Stop(context.Background()))
	admitted.bidden(ErrGoingAway, true)
	open.bidden(ErrGoingAway, true) // compiled once, for all
	asking.wants("end")
	p.closed(t, ErrGoingAway)
	require.NoError(t, s.Err())
	<-s.Ended()

	s = New(Config{Host: "127.0.0.1", Port: s.Port(), MaxConnections: 10}, desk)
	require.NoError(t, s.Start())
	require.NoError(t, s.Stop(context.Background()))
}
