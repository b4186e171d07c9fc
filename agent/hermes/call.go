package hermes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"mobilegate/internal/upstream"
)

const (
	maxRequest = 10_000_000 // bytes that Hermes takes
	maxAnswer  = 12 << 20   // bytes of an answer that are read: the output of a run, in JSON
	maxRefusal = 64 << 10
)

// answered is the error of a call that Hermes answered with a status that is no success.
type answered struct {
	*upstream.Status
	code string // one of the codes that Hermes documents; compared, never shown
}

func (e *answered) Unwrap() error { return e.Status }

// is tells whether Hermes answered with that code.
func is(err error, code string) bool {
	var a *answered
	return errors.As(err, &a) && a.code == code
}

// status of an answer, 0 if there was none.
func status(err error) int {
	var a *answered
	if errors.As(err, &a) {
		return a.Code
	}
	return 0
}

// sent tells whether the request of err may have reached Hermes although no answer came.
func sent(err error) bool {
	var op *net.OpError
	return status(err) == 0 && !errors.Is(err, upstream.ErrDown) && !(errors.As(err, &op) && op.Op == "dial")
}

// crowded tells whether the agent is there and takes no more for now.
func crowded(err error) bool {
	var a *answered
	if !errors.As(err, &a) {
		return false
	}
	return a.Code == http.StatusTooManyRequests || a.Code == http.StatusServiceUnavailable && (a.After > 0 || a.code == "gateway_draining") ||
		a.code == "run_already_active"
}

// request makes a request with the gateway's key. It is sent at most once: what may be sent again is not for the transport
// to decide.
func (a *Agent) request(ctx context.Context, method, path string, body []byte) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		panic(err) // New has looked at the base, and the paths are ours
	}
	r.GetBody = nil
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	} else {
		r.Body = http.NoBody
	}
	if a.cfg.Key != "" {
		r.Header.Set("Authorization", "Bearer "+a.cfg.Key)
	}
	return r
}

// do sends r. The caller closes the body of a response, which always is a success. The error holds no text from outside.
func (a *Agent) do(r *http.Request) (*http.Response, error) {
	resp, err := a.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the address
		}
		return nil, &unanswered{err}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	var body struct {
		Error struct {
			Code text `json:"code"`
		} `json:"error"`
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	_ = json.Unmarshal(b, &body) // whatever it is, the status counts
	return nil, &answered{upstream.StatusOf(resp.StatusCode, resp.Header), string(body.Error.Code)}
}

// unanswered is the error of a call that had no answer. What the network says of it may name hosts, so it says less.
type unanswered struct{ err error }

func (e *unanswered) Error() string {
	var timeout net.Error
	switch {
	case errors.As(e.err, &timeout) && timeout.Timeout(), errors.Is(e.err, context.Canceled):
		return "no answer in time"
	case !sent(e.err):
		return "no connection"
	}
	return "the connection broke"
}

func (e *unanswered) Unwrap() error { return e.err }

// call makes one short call and decodes its answer.
func (a *Agent) call(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	var b []byte
	if body != nil {
		b = encode(body)
	}
	resp, err := a.do(a.request(ctx, method, path, b))
	if err != nil {
		return err
	}
	return decode(resp, into)
}

// decode reads the answer of resp and closes it.
func decode(resp *http.Response, into any) error {
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return &unanswered{err}
	case len(b) > maxAnswer, into != nil && json.Unmarshal(b, into) != nil:
		return errAnswer
	}
	return nil
}

// encode writes v as JSON, without the escapes that only a web page needs.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings, all of it
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// text is a string of an answer; anything else counts as an empty one.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	*t = ""
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = text(s)
	}
	return nil
}

// seconds is a time in an answer; anything but a number that makes sense counts as none, 0.
type seconds float64

// UnmarshalJSON implements json.Unmarshaler.
func (s *seconds) UnmarshalJSON(b []byte) error {
	var f float64
	if json.Unmarshal(b, &f) != nil || !(f > 0 && f < 1e11) {
		f = 0
	}
	*s = seconds(f)
	return nil
}

func (s seconds) time() time.Time { return time.UnixMicro(int64(s * 1e6)) }

// words are the strings of a list in an answer.
type words []text

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(b []byte) error {
	var list []text
	if json.Unmarshal(b, &list) == nil {
		*w = list
	}
	return nil
}
