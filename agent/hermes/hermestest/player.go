package hermestest

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pixel is an image of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// Pixel is the PNG file that the placeholder {png} stands for.
func Pixel() []byte {
	b, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		panic(err)
	}
	return b
}

// player does the steps of one run, on its goroutine.
type player struct {
	s      *Server
	r      *run
	said   strings.Builder // the deltas
	values *strings.Replacer
}

func (p *player) play() {
	if !p.think() {
		p.stopped()
		return
	}
	p.act(func() { p.r.set("running", nil) })
	r, values := p.s.find(p.r.text, p.r.number)
	p.values = strings.NewReplacer(append(values,
		"{input}", p.r.text, "{turn}", strconv.Itoa(p.r.turn), "{png}", "data:image/png;base64,"+pixel)...)
	var list []Step
	if r != nil {
		list = r.Steps
	} else {
		list = []Step{{Do: "words", Text: "turn {turn}: {input}" + p.saw(), For: p.s.cfg.Pace}}
	}
	if !p.steps(list) {
		p.steps([]Step{{Do: "complete"}})
	}
}

// saw tells of the images that came.
func (p *player) saw() string {
	switch n := len(p.r.images); n {
	case 0:
		return ""
	case 1:
		return " (1 image)"
	default:
		return fmt.Sprintf(" (%d images)", n)
	}
}

// think waits for a reader, as a model that has to think first would let it come in time.
func (p *player) think() bool {
	if p.s.cfg.Think < 0 {
		return p.r.ctx.Err() == nil
	}
	t := time.NewTimer(p.s.cfg.Think)
	defer t.Stop()
	select {
	case <-p.r.subscribed:
	case <-t.C:
	case <-p.r.ctx.Done():
		return false
	}
	return true
}

// act changes the run, unless it is over.
func (p *player) act(f func()) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if !p.r.over {
		f()
	}
}

func (p *player) event(name string, fields map[string]any) {
	p.act(func() { p.r.event(name, fields) })
}

// stopped ends a run that was stopped from outside.
func (p *player) stopped() {
	if context.Cause(p.r.ctx) == errStopped {
		p.finish("cancelled", map[string]any{"interrupted": true, "turn_exit_reason": "interrupted"}, Step{})
	}
}

// steps does the list, and says whether the run has ended with it.
func (p *player) steps(list []Step) bool {
	for _, s := range list {
		for range max(1, s.Times) {
			if !s.Busy && p.r.ctx.Err() != nil {
				p.stopped()
				return true
			}
			if p.step(s) {
				return true
			}
		}
	}
	return false
}

func (p *player) text(s string) string { return p.values.Replace(s) }

func (p *player) step(s Step) (ended bool) {
	text := p.text(s.Text)
	switch s.Do {
	case "delta":
		p.delta(text + strings.Repeat("x", max(0, s.Size-len(text))))
	case "words":
		return p.words(text, s)
	case "tool", "tool_started", "tool_completed":
		return p.tool(text, s)
	case "reasoning":
		if p.s.cfg.Features.ReasoningDelta {
			p.event("reasoning.delta", map[string]any{"delta": text})
		} else {
			p.event("reasoning.available", map[string]any{"text": text})
		}
	case "event":
		p.event(s.Event, s.Fields)
	case "approval":
		return p.approval(s)
	case "wait":
		return p.wait(s)
	case "complete":
		p.complete(s)
		return true
	case "fail":
		p.finish("failed", map[string]any{"error": text}, s)
		return true
	case "cancel":
		p.finish("cancelled", map[string]any{}, s)
		return true
	case "duplicate":
		p.act(func() { p.r.put(p.r.newest) })
	case "raw":
		p.act(func() { p.r.put(frame{b: []byte(text)}) })
	case "cut":
		p.act(func() { p.r.put(frame{kind: cut, b: []byte(text)}) })
	case "eof":
		p.act(func() { p.r.put(frame{kind: eof}) })
	case "restart":
		p.s.Restart()
	case "fault":
		f := *s.Fault
		f.run = p.r.id
		p.s.Fault(f)
	}
	return false
}

func (p *player) delta(text string) {
	p.said.WriteString(text)
	p.event("message.delta", map[string]any{"delta": text})
}

func (p *player) words(text string, s Step) bool {
	for i, w := range strings.SplitAfter(text, " ") {
		if i > 0 && s.For > 0 && p.wait(s) {
			return true
		}
		p.delta(w)
	}
	return false
}

func (p *player) tool(preview string, s Step) bool {
	if s.Do != "tool_completed" {
		p.event("tool.started", map[string]any{"tool": s.Tool, "preview": preview})
	}
	if s.Do == "tool" && s.For > 0 && p.wait(s) {
		return true
	}
	if s.Do != "tool_started" {
		p.event("tool.completed", map[string]any{"tool": s.Tool, "duration": s.For.Seconds(), "error": s.Error})
	}
	return false
}

// wait is silence for s.For, or until the run is stopped.
func (p *player) wait(s Step) bool {
	ctx := p.r.ctx
	if s.Busy {
		ctx = context.Background()
	}
	p.r.quiet.Store(s.Quiet)
	defer p.r.quiet.Store(false)
	if pause(ctx, p.r.life, s.For) {
		return false
	}
	p.stopped()
	return true
}

// approval asks s and all of s.More at once, and does what belongs to each answer in this order.
func (p *player) approval(s Step) bool {
	asked := append([]Step{s}, s.More...)
	open := make([]*question, len(asked))
	for i, a := range asked {
		id := a.RequestID
		if id == "" {
			id = token(16)
		}
		open[i] = &question{id: id, answer: make(chan string, 1)}
		p.act(func() { p.r.ask(p.s, open[i], p.card(a, id)) })
	}
	for i, a := range asked {
		ttl := a.For
		if ttl == 0 {
			ttl = approvalTTL
		}
		choice, ok := p.answer(open[i], ttl)
		if !ok {
			p.stopped()
			return true
		}
		list, ok := a.On[choice]
		if !ok && choice == "timeout" {
			list, ok = a.On["deny"]
		}
		if !ok {
			list = a.On["*"]
		}
		if p.steps(list) {
			return true
		}
	}
	return false
}

func (p *player) card(s Step, id string) map[string]any {
	choices := s.Choices
	if choices == nil {
		choices = []string{"once", "session", "always", "deny"}
	}
	all := map[string]any{
		"command": p.text(s.Command), "description": p.text(s.Text), "request_id": id, "choices": choices,
		"pattern_key": "scripted", "pattern_keys": []string{"scripted"},
		"allow_session": slices.Contains(choices, "session"), "allow_permanent": slices.Contains(choices, "always"),
	}
	maps.Copy(all, s.Fields)
	return all
}

// answer waits for what the user chose; "timeout" when that took too long.
func (p *player) answer(q *question, ttl time.Duration) (choice string, ok bool) {
	t := time.NewTimer(ttl)
	defer t.Stop()
	select {
	case choice = <-q.answer:
		return choice, true
	case <-p.r.ctx.Done():
		return "", false
	case <-t.C:
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	select {
	case choice = <-q.answer:
	default:
		choice = "timeout"
		p.r.withdraw(q)
		if !p.r.over && p.r.state() == "waiting_for_approval" {
			p.r.set("running", nil)
		}
	}
	return choice, true
}

func (p *player) complete(s Step) {
	output := p.said.String()
	if s.Text != "" {
		output = p.text(s.Text)
	}
	var usage map[string]any
	p.act(func() {
		p.s.said(p.r.conversation, "assistant", output)
		p.r.size += len(output)
		usage = p.r.conversation.usage()
	})
	p.finish("completed", map[string]any{"output": output, "usage": usage}, s)
}

// finish ends the run as s says.
func (p *player) finish(status string, fields map[string]any, s Step) {
	maps.Copy(fields, s.Fields)
	p.act(func() {
		last := "run." + status
		if !s.Silent {
			told := maps.Clone(fields)
			if status == "completed" && p.s.cfg.Features.Journal {
				told["completed"] = true
			}
			p.r.event(last, told)
		}
		p.r.last = last
		p.r.set(status, fields)
		end := closing
		if s.Silent || p.r.session {
			end.b = nil
		}
		p.r.drop(end)
		p.s.over(p.r)
		p.r.end(errGone)
	})
}
