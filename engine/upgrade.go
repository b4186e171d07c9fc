package engine

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gobwas/ws"
)

// The answers to a request that is no upgrade. Those below 0 are further answers with a status of http.
const (
	statusTimeout = http.StatusRequestTimeout
	statusVersion = -http.StatusUpgradeRequired // 426 that names the version we speak
)

// answers are the whole HTTP responses, compiled once; the body comes last.
var answers = map[int][]byte{}

func init() {
	add := func(key, status int, header, body string) {
		answers[key] = fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n%sContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			status, http.StatusText(status), header, len(body), body)
	}
	add(http.StatusOK, http.StatusOK, "Cache-Control: no-store\r\n", "ok\n")
	add(http.StatusBadRequest, http.StatusBadRequest, "", "this is no well-formed HTTP request\n")
	add(http.StatusNotFound, http.StatusNotFound, "", "nothing here; devices connect to the WebSocket entry, checks ask /healthz\n")
	add(http.StatusMethodNotAllowed, http.StatusMethodNotAllowed, "Allow: GET, HEAD\r\n", "only GET is answered here\n")
	add(statusTimeout, statusTimeout, "", "the request did not come within 10 seconds\n")
	add(http.StatusUpgradeRequired, http.StatusUpgradeRequired, "Upgrade: websocket\r\n", "this is a WebSocket entry: ask for an upgrade\n")
	add(statusVersion, http.StatusUpgradeRequired, "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", "only WebSocket version 13 is spoken here\n")
	add(http.StatusRequestHeaderFieldsTooLarge, http.StatusRequestHeaderFieldsTooLarge, "", "a request may have 8 KiB of headers\n")
	add(http.StatusServiceUnavailable, http.StatusServiceUnavailable, "Retry-After: 5\r\n", "no capacity just now\n")
	add(http.StatusHTTPVersionNotSupported, http.StatusHTTPVersionNotSupported, "", "an upgrade needs HTTP/1.1\n")
}

// request gathers the opening request; it returns what came behind it, which is frames already.
func (c *conn) request(b []byte, now time.Time) (rest []byte) {
	block, before := b, 0
	if m := c.in.message; m != nil {
		before = len(m.B)
		m.B = append(m.B, b[:min(len(b), maxRequest)]...)
		block = m.B
	}
	end := bytes.Index(block[:min(len(block), maxRequest)], []byte("\r\n\r\n"))
	if end < 0 {
		switch {
		case len(block) >= maxRequest:
			c.refuse(http.StatusRequestHeaderFieldsTooLarge)
		case c.in.message == nil:
			c.in.message = getMessage()
			c.in.message.B = append(c.in.message.B, b...)
		}
		return nil
	}
	end += len("\r\n\r\n")
	c.route(block[:end], now)
	if m := c.in.message; m != nil {
		c.in.message = nil
		PutMessage(m)
	}
	return b[end-before:]
}

// route answers a whole request: the upgrade of the entry path, /healthz, or a refusal (spec 1).
func (c *conn) route(block []byte, now time.Time) {
	line, headers, _ := bytes.Cut(block, []byte("\r\n"))
	r, ok := parseRequestLine(string(line))
	head := ok && r.method == http.MethodHead
	key, wellFormed := checkHeaders(headers[:len(headers)-2])
	path, _, _ := strings.Cut(r.target, "?")
	unavailable := c.marked(overfull) || c.srv.draining.Load()
	switch {
	case !ok || !wellFormed:
		c.refuse(http.StatusBadRequest)
	case path != "/healthz" && path != c.srv.cfg.Path:
		c.answer(http.StatusNotFound, head)
	case r.method != http.MethodGet && !(head && path == "/healthz"):
		c.answer(http.StatusMethodNotAllowed, head)
	case path == "/healthz" && unavailable:
		c.answer(http.StatusServiceUnavailable, head)
	case path == "/healthz":
		c.answer(http.StatusOK, head)
	case r.version < "HTTP/1.1":
		c.refuse(http.StatusHTTPVersionNotSupported)
	case unavailable:
		c.srv.refused.Add(1)
		c.refuse(http.StatusServiceUnavailable)
	default:
		c.upgrade(block, key, now)
	}
}

// upgrade speaks the handshake. The query of the path is neither read nor kept: a token there is not accepted.
func (c *conn) upgrade(block, key []byte, now time.Time) {
	exchange := handshake{in: bytes.NewReader(block), out: GetBuffer()}
	_, err := ws.Upgrader{}.Upgrade(&exchange)
	switch {
	case err == nil && !isKey(key):
		c.refuse(http.StatusBadRequest)
	case err == nil:
		c.Send(exchange.out)
		c.mu.Lock()
		if c.phase.Load() == requesting {
			c.phase.Store(stranger)
			c.srv.upgraded.Add(1)
		}
		c.mu.Unlock()
		c.srv.wheel.Set(c, now.Add(c.srv.cfg.HelloTimeout))
		return
	case errors.Is(err, ws.ErrHandshakeUpgradeRequired), errors.Is(err, ws.ErrHandshakeBadSecVersion):
		c.refuse(statusVersion)
	case errors.Is(err, ws.ErrHandshakeBadUpgrade), errors.Is(err, ws.ErrHandshakeBadConnection):
		c.refuse(http.StatusUpgradeRequired)
	default:
		c.refuse(http.StatusBadRequest)
	}
	PutBuffer(exchange.out)
}

// handshake lets the upgrader read exactly the request: given more, it would read ahead and lose the first frames.
type handshake struct {
	in  *bytes.Reader
	out *Buffer
}

func (h *handshake) Read(p []byte) (int, error)  { return h.in.Read(p) }
func (h *handshake) Write(p []byte) (int, error) { return h.out.Write(p) }

var _ io.ReadWriter = (*handshake)(nil)

func (c *conn) refuse(key int) { c.answer(key, false) }

// answer says a compiled HTTP response, without its body to HEAD, and closes.
func (c *conn) answer(key int, head bool) {
	wire := answers[key]
	if head {
		wire = wire[:bytes.Index(wire, []byte("\r\n\r\n"))+4]
	}
	c.end(&Farewell{wire: wire}, nil)
}

type requestLine struct{ method, target, version string }

func parseRequestLine(line string) (r requestLine, ok bool) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 {
		return r, false
	}
	r = requestLine{parts[0], parts[1], parts[2]}
	v := r.version
	ok = isToken(r.method) && strings.HasPrefix(r.target, "/") && printable(r.target) && len(v) == len("HTTP/1.1") &&
		strings.HasPrefix(v, "HTTP/") && isDigit(v[5]) && v[6] == '.' && isDigit(v[7])
	return r, ok
}

// checkHeaders tells whether every line is a header as RFC 9112, 5 writes it, and finds the WebSocket key.
func checkHeaders(block []byte) (key []byte, ok bool) {
	for len(block) > 0 {
		var line []byte
		line, block, _ = bytes.Cut(block, []byte("\r\n"))
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || !isToken(string(name)) {
			return nil, false
		}
		value = bytes.Trim(value, " \t")
		for _, b := range value {
			if b < ' ' && b != '\t' || b == 0x7F {
				return nil, false
			}
		}
		if strings.EqualFold(string(name), "Sec-WebSocket-Key") {
			key = value
		}
	}
	return key, true
}

// isKey: RFC 6455, 4.2.1: a "base64-encoded value that, when decoded, is 16 bytes in length".
func isKey(key []byte) bool {
	var raw [18]byte
	n := -1
	if len(key) == 24 {
		n, _ = base64.StdEncoding.Strict().Decode(raw[:], key)
	}
	return n == 16
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7F {
			return false
		}
	}
	return true
}

func isToken(s string) bool {
	for i := range len(s) {
		b := s[i]
		letter := 'a' <= b|0x20 && b|0x20 <= 'z'
		if !letter && !isDigit(b) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(b)) {
			return false
		}
	}
	return s != ""
}
