package engine

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

// The answers to a request that is no upgrade. Those below 0 are further answers with a status of http.
const (
	statusTimeout = http.StatusRequestTimeout
	statusVersion = -http.StatusUpgradeRequired // 426 that names the version we speak
	statusOnlyGet = -http.StatusMethodNotAllowed
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
	add(statusOnlyGet, http.StatusMethodNotAllowed, "Allow: GET\r\n", "only GET is answered here\n")
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
	from := max(before-3, 0) // what came before was looked through, but the end may have come in pieces
	end := bytes.Index(block[from:min(len(block), maxRequest)], []byte("\r\n\r\n"))
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
	end += from + len("\r\n\r\n")
	c.route(block[:end], now)
	if m := c.in.message; m != nil {
		c.in.message = nil
		c.discharge()
		PutMessage(m)
	}
	return b[end-before:]
}

// route answers a whole request: the upgrade of the entry path, /healthz, or a refusal (spec 1).
func (c *conn) route(block []byte, now time.Time) {
	line, headers, _ := bytes.Cut(block, []byte("\r\n"))
	r, ok := parseRequestLine(line)
	key, via, wellFormed := checkHeaders(headers[:len(headers)-2])
	if via.proxy {
		c.mark(proxied)
		c.srv.origins.note(c, via.chain)
	}
	path, _, _ := bytes.Cut(r.target, []byte("?"))
	get, head := string(r.method) == http.MethodGet, string(r.method) == http.MethodHead
	health, entry := string(path) == "/healthz", string(path) == c.srv.cfg.Path
	unavailable := c.marked(overfull) || c.srv.draining.Load()
	switch {
	case !ok || !wellFormed:
		c.refuse(http.StatusBadRequest)
	case !health && !entry:
		c.answer(http.StatusNotFound, head)
	case health && !get && !head:
		c.refuse(http.StatusMethodNotAllowed)
	case health && unavailable:
		c.answer(http.StatusServiceUnavailable, head)
	case health:
		c.answer(http.StatusOK, head)
	case !get:
		c.answer(statusOnlyGet, head)
	case r.version[0] != '1' || r.version == "1.0":
		c.refuse(http.StatusHTTPVersionNotSupported)
	case via.body:
		c.refuse(http.StatusBadRequest) // it would be read as frames here, and as something else by a proxy
	case unavailable:
		c.srv.refused.Add(1)
		c.refuse(http.StatusServiceUnavailable)
	default:
		if via.proxy && c.peerAddr().IsLoopback() && !c.srv.proxySeen.Swap(true) {
			c.srv.cfg.Log.Warn("a proxy on this host passes devices on: where it leaves no header and runs as the gateway's own user, they count as programs of this host")
		}
		c.upgrade(block, key, now)
	}
}

// upgrade speaks the handshake. The query of the path is neither read nor kept: a token there is not accepted.
func (c *conn) upgrade(block, key []byte, now time.Time) {
	h := handshakes.Get().(*handshake)
	defer func() {
		*h = handshake{}
		handshakes.Put(h)
	}()
	h.request, h.response = block, GetBuffer()
	_, err := ws.Upgrader{}.Upgrade(h)
	switch {
	case err == nil && !isKey(key):
		c.refuse(http.StatusBadRequest)
	case err == nil:
		c.welcome(h.response, now)
		return
	case errors.Is(err, ws.ErrHandshakeUpgradeRequired), errors.Is(err, ws.ErrHandshakeBadSecVersion):
		c.refuse(statusVersion)
	case errors.Is(err, ws.ErrHandshakeBadUpgrade), errors.Is(err, ws.ErrHandshakeBadConnection):
		c.refuse(http.StatusUpgradeRequired)
	default:
		c.refuse(http.StatusBadRequest)
	}
	PutBuffer(h.response)
}

// welcome says 101 and turns the connection into a WebSocket, unless its time was up just now.
func (c *conn) welcome(response *Buffer, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase.Load() != requesting {
		PutBuffer(response)
		return
	}
	c.srv.wheel.Set(c, now.Add(c.srv.cfg.HelloTimeout))
	c.phase.Store(stranger)
	c.srv.upgraded.Add(1)
	c.write(response)
}

// handshake lets the upgrader read exactly the request: given more, it would read ahead and lose the first frames.
type handshake struct {
	request  []byte
	response *Buffer
}

var handshakes = sync.Pool{New: func() any { return new(handshake) }}

func (h *handshake) Read(p []byte) (int, error) {
	if len(h.request) == 0 {
		return 0, io.EOF
	}
	n := copy(p, h.request)
	h.request = h.request[n:]
	return n, nil
}

func (h *handshake) Write(p []byte) (int, error) { return h.response.Write(p) }

func (c *conn) refuse(key int) { c.answer(key, false) }

// answer says a compiled HTTP response, without its body to HEAD, and closes.
func (c *conn) answer(key int, head bool) {
	wire := answers[key]
	if head {
		wire = wire[:bytes.Index(wire, []byte("\r\n\r\n"))+4]
	}
	c.end(&Farewell{wire: wire}, nil)
}

type requestLine struct {
	method, target []byte
	version        string // 1.1
}

func parseRequestLine(line []byte) (r requestLine, ok bool) {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, protocol, _ := bytes.Cut(rest, []byte(" "))
	r = requestLine{method: method, target: target}
	if !isToken(method) || !printable(target) || target[0] != '/' {
		return r, false
	}
	version, http := bytes.CutPrefix(protocol, []byte("HTTP/"))
	if !http || len(version) != 3 || !isDigit(version[0]) || version[1] != '.' || !isDigit(version[2]) {
		return r, false
	}
	if r.version = "1.1"; string(version) != r.version {
		r.version = string(version)
	}
	return r, true
}

// checkHeaders tells whether every line is a header as RFC 9112, 5 writes it, with one Host at most. It finds the WebSocket
// key, and what proxies left.
func checkHeaders(block []byte) (key []byte, via passage, ok bool) {
	hosts := 0
	for len(block) > 0 {
		var line []byte
		line, block, _ = bytes.Cut(block, []byte("\r\n"))
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || !isToken(name) {
			return nil, via, false
		}
		value = bytes.Trim(value, " \t")
		for _, b := range value {
			if b < ' ' && b != '\t' || b == 0x7F {
				return nil, via, false
			}
		}
		switch {
		case is(name, "Sec-WebSocket-Key"):
			key = value
		case is(name, "Host"):
			hosts++
		case is(name, "Transfer-Encoding"), is(name, "Content-Length") && string(value) != "0":
			via.body = true
		case is(name, "X-Forwarded-For"):
			via.proxy, via.chain = true, append(via.chain, value)
		case ofProxy(name):
			via.proxy = true
		}
	}
	return key, via, hosts <= 1
}

func is(name []byte, header string) bool {
	return len(name) == len(header) && strings.EqualFold(string(name), header)
}

// ofProxy tells whether a header is one that a proxy leaves (spec 9).
func ofProxy(name []byte) bool {
	const family = "X-Forwarded-"
	if len(name) > len(family) && is(name[:len(family)], family) {
		return true
	}
	for _, known := range [...]string{"Forwarded", "Via", "X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP"} {
		if is(name, known) {
			return true
		}
	}
	return false
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

func printable(s []byte) bool {
	for _, b := range s {
		if b <= ' ' || b == 0x7F {
			return false
		}
	}
	return len(s) > 0
}

func isToken(s []byte) bool {
	for _, b := range s {
		letter := 'a' <= b|0x20 && b|0x20 <= 'z'
		if !letter && !isDigit(b) && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), b) < 0 {
			return false
		}
	}
	return len(s) > 0
}
