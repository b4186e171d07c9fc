package openai

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"mobilegate/internal/upstream"
)

const (
	maxEvent = 1 << 20         // bytes between two events of a stream
	lastWait = 2 * time.Second // for the usage and the mark of the end, once the answer is complete
)

// stream is an answer on its way. It belongs to the goroutine of its turn and ends with close.
type stream struct {
	body   *body
	events ssestream.Decoder
	idle   time.Duration
	usage  usage
	finish string // why the model ended the answer; empty: it has not
	first  string // the first piece of the answer, or all of it; empty: it has no text
	whole  bool   // it did not come as a stream
}

// open asks for an answer, in the form of request that the service takes, and returns it once its first piece is there:
// until then nothing was shown, so that a failed call can be repeated.
func (a *Agent) open(ctx context.Context, r *request) (*stream, error) {
	for form := a.form.Load(); ; form++ {
		data, err := r.encode(form)
		if err != nil {
			return nil, err
		}
		var s *stream
		err = a.service.Do(ctx, func() (err error) {
			s, err = a.begin(ctx, data)
			return once(err)
		})
		if err == nil {
			a.form.Store(form)
			a.settled.Store(true)
			return s, nil
		}
		if !badForm(err) || form >= r.lastForm() || a.settled.Load() {
			return nil, err
		}
	}
}

// badForm tells whether err may be due to a field that the service does not know.
func badForm(err error) bool {
	s, ok := err.(*upstream.Status)
	return ok && (s.Code == http.StatusBadRequest || s.Code == http.StatusUnprocessableEntity)
}

// begin makes one call and waits for the first piece of its answer.
func (a *Agent) begin(ctx context.Context, data []byte) (*stream, error) {
	b := watch(ctx, a.cfg.FirstTimeout)
	var res *http.Response
	if err := b.asking(func() error { return a.client.Post(b.ctx, "chat/completions", data, &res) }); err != nil {
		return nil, err
	}
	b.ReadCloser = res.Body
	s := &stream{body: b, idle: a.cfg.IdleTimeout}
	if err := s.read(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// read reads up to the first piece of the answer. What kind of answer it is shows its first byte: services call it this
// and that.
func (s *stream) read() (err error) {
	buffered := bufio.NewReader(s.body)
	s.body.room = maxAnswer
	for {
		first, err := buffered.Peek(1)
		if err != nil {
			return s.body.fault(err)
		}
		if first[0] == '{' {
			return s.readWhole(buffered)
		}
		if first[0] > ' ' {
			break
		}
		buffered.Discard(1)
	}
	s.body.room = maxEvent
	s.events = ssestream.NewDecoder(&http.Response{Body: struct {
		io.Reader
		io.Closer
	}{io.MultiReader(buffered, strings.NewReader("\n\n")), s.body}}) // the decoder forgets a last event that nothing follows
	for s.first == "" && err == nil && s.finish == "" {
		s.first, err = s.next()
		s.first = strings.TrimLeft(s.first, " \r\n")
	}
	return err
}

// readWhole reads an answer that is no stream.
func (s *stream) readWhole(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return s.body.fault(err)
	}
	var c chunk
	if json.Unmarshal(data, &c) != nil {
		return errCut
	}
	s.whole, s.finish = true, "stop"
	s.first, err = s.take(&c)
	s.first = strings.TrimSpace(s.first)
	return err
}

// next returns the next piece of the answer; empty, without an error, is its end. It passes over what is no event of the
// protocol.
func (s *stream) next() (string, error) {
	for s.events.Next() {
		s.body.room = maxEvent
		data := s.events.Event().Data
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			s.finish = cmp.Or(s.finish, "stop")
			break
		}
		var c chunk
		if json.Unmarshal(data, &c) != nil {
			continue
		}
		if piece, err := s.take(&c); piece != "" || err != nil {
			return piece, err
		}
	}
	return "", s.ended(s.events.Err())
}

// take takes what matters of c.
func (s *stream) take(c *chunk) (piece string, err error) {
	if c.Usage != nil {
		s.usage = *c.Usage
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return "", c.fault()
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		s.finish = cmp.Or(choice.FinishReason, s.finish)
		w := &choice.Delta
		if s.whole {
			w = &choice.Message
		}
		piece += string(w.Content) + w.Refusal
	}
	s.body.wait = s.idle // it has begun
	if s.finish != "" {
		s.body.wait = lastWait
	}
	return piece, nil
}

// ended says what the end of a stream, by err, means for the answer.
func (s *stream) ended(err error) error {
	if s.finish != "" {
		return nil
	}
	return s.body.fault(err)
}

func (s *stream) close() { s.body.close() }

// chunk is what matters of an event, and of an answer that comes whole.
type chunk struct {
	Choices []struct {
		Delta        words  `json:"delta"`
		Message      words  `json:"message"` // of a whole answer
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type words struct {
	Content content `json:"content"`
	Refusal string  `json:"refusal"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
}

// content is a text, or a list of parts of which some are text.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, (*string)(c))
	}
	var parts []part
	err := json.Unmarshal(data, &parts)
	for _, p := range parts {
		if p.Type == "text" {
			*c += content(p.Text)
		}
	}
	return err
}

// fault makes an error of one that came in place of an answer: it may hold a status.
func (c *chunk) fault() error {
	var e struct {
		Code json.Number `json:"code"`
	}
	if json.Unmarshal(c.Error, &e) == nil {
		if code, err := e.Code.Int64(); err == nil && code >= 400 && code < 600 {
			return &upstream.Status{Code: int(code)}
		}
	}
	return errAnswer
}

// onlySuccess turns every other response into an error that holds its status, before the library reads all of its body.
func onlySuccess(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if err != nil || res.StatusCode/100 == 2 {
		return res, err
	}
	io.CopyN(io.Discard, res.Body, 16<<10) // the connection can be used again if that is all
	res.Body.Close()
	return nil, upstream.StatusOf(res.StatusCode, res.Header)
}
