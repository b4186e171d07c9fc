package hermes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The wire vectors that all clients share; ../vectors/README.md says what they mean.
func vectors[C any](t *testing.T, name string) (cases []C) {
	t.Helper()
	b, err := os.ReadFile("../vectors/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &cases))
	require.NotEmpty(t, cases)
	return cases
}

type callVector struct {
	Name string
	Call struct {
		Verb string
		Args callArgs
	}
	Frames  []map[string]any
	Refused bool
}

type callArgs struct {
	ID, Text, Format, Kind, Mime, Filename, Caption, Target, Token string

	PromptID   string `json:"prompt_id"`
	OptionID   string `json:"option_id"`
	ChunkBytes int    `json:"chunk_bytes"`
	Data       []byte
	Media      *Attachment
	Device     Device
	User       User
}

// do makes the call.
func (a *callArgs) do(ctx context.Context, c *Client, verb string) (err error) {
	switch verb {
	case "text":
		err = c.Send(ctx, Text{ID: a.ID, Text: a.Text})
	case "audio":
		_, err = c.SendAudio(ctx, Audio{ID: a.ID, Format: a.Format, Data: a.Data, Text: a.Text})
	case "media":
		_, err = c.SendMedia(ctx, Upload{ID: a.ID, Kind: a.Kind, Mime: a.Mime, Filename: a.Filename, Caption: a.Caption, Data: a.Data, ChunkBytes: a.ChunkBytes})
	case "answer":
		err = c.AnswerPrompt(ctx, a.PromptID, a.OptionID, a.Text)
	case "typing":
		err = c.SendTyping(ctx)
	case "ping":
		_, err = c.Ping(ctx)
	case "ack":
		err = c.Acknowledge(ctx, a.ID)
	case "deliver":
		_, err = c.Deliver(ctx, Deliver{ID: a.ID, Target: a.Target, Text: a.Text, Media: a.Media})
	default:
		panic("unknown verb " + verb)
	}
	return err
}

func TestCallVectors(t *testing.T) {
	heard := make(chan map[string]any, 10)
	cfg := gateway(t, func(p *peer) {
		heard <- p.hear()
		p.say(readyFrame)
		for f := p.hear(); f != nil; f = p.hear() {
			heard <- f
			switch f["t"] {
			case "ping":
				p.say(fmt.Sprintf(`{"t":"pong","ts":%v}`, f["ts"]))
			case "deliver":
				p.say(fmt.Sprintf(`{"t":"delivered","id":%q}`, f["id"]))
			}
		}
	})
	c := ready(t, cfg)
	<-heard
	for _, v := range vectors[callVector](t, "calls.json") {
		t.Run(v.Name, func(t *testing.T) {
			a := v.Call.Args
			if v.Call.Verb == "hello" {
				ready(t, Config{URL: cfg.URL, Token: a.Token, Device: a.Device, User: a.User})
				require.Equal(t, v.Frames[0], <-heard)
				return
			}
			if v.Refused {
				require.Error(t, a.do(within(t), c, v.Call.Verb))
				require.NoError(t, c.Acknowledge(within(t), "a mark"))
				require.Equal(t, "a mark", (<-heard)["id"], "nothing was sent")
				return
			}
			require.NoError(t, a.do(within(t), c, v.Call.Verb))
			for _, want := range v.Frames {
				got := <-heard
				if anyOf(want["ts"], "number") {
					require.IsType(t, 0.0, got["ts"])
					want["ts"] = got["ts"]
				}
				require.Equal(t, want, got)
			}
		})
	}
	require.Empty(t, heard)
}

// anyOf tells whether a value of a vector stands for all of its type.
func anyOf(v any, kind string) bool {
	m, ok := v.(map[string]any)
	return ok && m["$type"] == kind
}

type eventVector struct {
	Name   string
	Frames []json.RawMessage
	Events []map[string]any
}

// said is a frame as it goes over the wire: a string stands for itself.
func said(frame json.RawMessage) string {
	var text string
	if json.Unmarshal(frame, &text) == nil {
		return text
	}
	return string(frame)
}

const lastFrame = `{"t":"pong","ts":"the end of a case"}`

func TestEventVectors(t *testing.T) {
	for _, v := range vectors[eventVector](t, "events.json") {
		t.Run(v.Name, func(t *testing.T) {
			cfg := gateway(t, func(p *peer) {
				p.hear()
				for _, f := range v.Frames {
					p.say(said(f))
				}
				p.say(lastFrame)
				p.hear()
			})
			got := []map[string]any{}
			for ev, err := range client(t, cfg).Events(within(t)) {
				require.NoError(t, err)
				if pong, ok := ev.Frame.(*Pong); ok && string(pong.TS) == `"the end of a case"` {
					break
				}
				if e := told(t, ev.Frame); e != nil {
					got = append(got, e)
				}
			}
			require.Equal(t, v.Events, got)
		})
	}
}

// always are the fields that an event has even when they are empty.
var always = map[string][]string{
	"ready":       {"v", "session", "device", "avatar_url", "capabilities"},
	"message":     {"id", "text", "index", "total", "final"},
	"edit":        {"id", "text", "index", "total", "final"},
	"avatar":      {"state"},
	"prompt":      {"id", "kind", "text", "options", "session", "timeout_seconds"},
	"prompt_done": {"id"},
	"media":       {"id", "kind", "mime", "filename", "caption", "size"},
	"delivered":   {"id", "device"},
	"error":       {"code", "message", "fatal"},
}

// told brings an event into the form of the vectors; nil is a change of the state.
func told(t *testing.T, frame any) map[string]any {
	b, err := json.Marshal(frame)
	require.NoError(t, err)
	var e map[string]any
	require.NoError(t, json.Unmarshal(b, &e))
	switch f := frame.(type) {
	case *StateChange:
		return nil
	case *Ready:
		e["event"] = "ready"
		e["device"] = map[string]any{"id": f.Device.ID, "name": f.Device.Name}
		e["capabilities"] = without(e["capabilities"].(map[string]any), "text", "voice", "typing")
	case *Message:
		e["event"], e["index"], e["total"] = "message", float64(f.Chunk.Index), float64(f.Chunk.Total)
		if f.Edit {
			e["event"] = "edit"
		}
		delete(e, "chunk")
		delete(e, "edit")
	case *Typing:
		e = map[string]any{"event": "typing"}
		if f.Stop {
			e["event"] = "typing_stop"
		}
	case *Avatar:
		e["event"] = "avatar"
	case *Prompt:
		e["event"] = "prompt"
		options := []any{}
		for _, o := range f.Options {
			one := map[string]any{"id": o.ID, "label": o.Label, "style": o.Style}
			options = append(options, without(one, "id", "label"))
		}
		e["options"] = options
	case *PromptDone:
		e["event"] = "prompt_done"
	case *Media:
		e["event"] = "media"
		for _, name := range []string{"part", "parts", "final"} {
			delete(e, name)
		}
	case *Pong:
		e["event"] = "pong"
	case *Delivered:
		e["event"] = "delivered"
	case *Error:
		e["event"] = "error"
	}
	return without(e, append(always[e["event"].(string)], "event")...)
}

// without leaves out what is empty, but not the fields that are always there.
func without(fields map[string]any, always ...string) map[string]any {
	fields = maps.Clone(fields)
	maps.DeleteFunc(fields, func(name string, v any) bool {
		list, isList := v.([]any)
		return !slices.Contains(always, name) && (v == nil || v == "" || v == 0.0 || v == false || isList && len(list) == 0)
	})
	return fields
}
