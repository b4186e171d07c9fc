package openaitest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// answer is the answer to one call.
type answer struct {
	Step
	w       http.ResponseWriter
	ctx     context.Context
	chat    *chat
	request *Request
	pace    time.Duration
}

func (a *answer) give() {
	if !sleep(a.ctx, time.Duration(a.Wait)) {
		return
	}
	if a.Status != 0 {
		if a.RetryAfter != "" {
			a.w.Header().Set("Retry-After", a.RetryAfter)
		}
		a.w.WriteHeader(a.Status)
		fmt.Fprint(a.w, a.Body)
		return
	}
	switch {
	case a.Body != "":
		a.begin("text/html")
		fmt.Fprint(a.w, a.Body)
	case a.request.File != "":
		a.begin("application/json")
		json.NewEncoder(a.w).Encode(map[string]any{"text": a.text()})
	case a.Plain || !a.chat.Stream:
		a.begin("application/json")
		a.w.Write(a.whole())
	default:
		a.begin("text/event-stream")
		a.stream()
	}
}

func (a *answer) begin(contentType string) {
	a.w.Header().Set("Content-Type", cmp.Or(a.ContentType, contentType))
	a.w.WriteHeader(http.StatusOK)
	http.NewResponseController(a.w).Flush()
}

// text is the answer: it shows which turn of a conversation this is.
func (a *answer) text() string {
	if a.Text != "" {
		return a.Text
	}
	if a.request.File != "" {
		return fmt.Sprintf("a recording of %d bytes", a.request.Bytes)
	}
	turn, text := 0, ""
	for _, m := range a.request.Messages {
		if m.Role == "user" {
			turn++
			text = m.Text
		}
	}
	return fmt.Sprintf("turn %d: %s", turn, text)
}

// usage counts words.
func (a *answer) usage() map[string]int {
	in := 0
	for _, m := range a.request.Messages {
		in += len(strings.Fields(m.Text))
	}
	out := len(strings.Fields(a.text()))
	return map[string]int{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
}

func (a *answer) whole() []byte {
	data, _ := json.Marshal(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "model": a.request.Model, "usage": a.usage(),
		"choices": []any{map[string]any{
			"index": 0, "message": map[string]any{"role": "assistant", "content": a.text()}, "finish_reason": cmp.Or(a.Finish, "stop"),
		}},
	})
	return data
}

func (a *answer) stream() {
	for range a.KeepAlive {
		if !a.comment() {
			return
		}
	}
	if a.Role {
		a.chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	}
	for _, word := range strings.SplitAfter(a.Reasoning, " ") {
		if word != "" && !(sleep(a.ctx, a.pace) && a.chunk(map[string]any{"reasoning_content": word}, nil)) {
			return
		}
	}
	for told, text := 0, a.text(); ; text = " " + a.text() {
		for _, word := range strings.SplitAfter(text, " ") {
			if a.Then != "" && told == a.After {
				a.fail()
				return
			}
			if !sleep(a.ctx, a.pace) || !a.chunk(map[string]any{"content": word}, nil) {
				return
			}
			told++
		}
		if !a.Endless {
			break
		}
	}
	a.chunk(map[string]any{}, cmp.Or(a.Finish, "stop"))
	if a.Linger {
		<-a.ctx.Done()
	}
	if a.NoEnd || a.Linger {
		return
	}
	if a.request.Usage {
		a.event(map[string]any{"choices": []any{}, "usage": a.usage()})
	}
	fmt.Fprint(a.w, "data: [DONE]\n\n")
}

// chunk sends a piece and tells whether the caller still listens.
func (a *answer) chunk(delta map[string]any, finish any) bool {
	if a.Garbage {
		fmt.Fprint(a.w, "\x00\xff what is this\r\ndata: {\"choices\":[{\"del\n\nevent: other\ndata: [1,2]\n\n: and this\nid\n\n")
	}
	times := 1
	if a.Twice {
		times = 2
	}
	ok := true
	for range times {
		ok = a.event(map[string]any{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": a.request.Model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
		})
	}
	return ok
}

func (a *answer) event(v any) bool {
	data, _ := json.Marshal(v)
	fmt.Fprintf(a.w, "data: %s\n\n", data)
	return http.NewResponseController(a.w).Flush() == nil && a.ctx.Err() == nil
}

func (a *answer) comment() bool {
	if !sleep(a.ctx, a.pace) {
		return false
	}
	fmt.Fprint(a.w, ": keepalive\n\n")
	return http.NewResponseController(a.w).Flush() == nil
}

// fail ends the answer too early.
func (a *answer) fail() {
	switch a.Then {
	case Cut:
		panic(http.ErrAbortHandler)
	case Silence:
		<-a.ctx.Done()
	case Comment:
		for a.comment() {
		}
	case Error:
		a.event(map[string]any{"error": map[string]any{"message": "The server had an error: s3cret text of its own", "code": 503}})
	}
}
