package codec

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func vectors[T any](t *testing.T, file string) (all []T) {
	text, err := os.ReadFile("../sdk/vectors/" + file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all)
	return all
}

// called is the frame that a client sends for a call, as far as this package gives its fields back as they came.
type called struct {
	T, ID, Token, Text, Format, Data, Kind, Mime, Filename, Caption, Target string
	PromptID                                                                string `json:"prompt_id"`
	OptionID                                                                string `json:"option_id"`
	Part, Parts                                                             int
	Device, User                                                            struct {
		ID, Name, Platform string
		AppVersion         string `json:"app_version"`
	}
	Media struct{ Kind, Mime, Filename, Data string }
}

// TestVectorsOfCalls: what every client library sends is understood, and says what its caller said.
func TestVectorsOfCalls(t *testing.T) {
	kinds := map[string]Kind{"hello": Hello, "text": Text, "audio": Audio, "media": Media, "prompt": Prompt, "typing": Typing, "ping": Ping, "ack": Ack, "deliver": Deliver}
	for _, c := range vectors[struct {
		Name    string
		Frames  []json.RawMessage
		Gateway Code
	}](t, "calls.json") {
		for _, frame := range c.Frames {
			var want called
			require.NoError(t, json.Unmarshal(frame, &want), c.Name)
			var in In
			fault := Decode([]byte(frame), &in)
			if fault == nil && in.Kind == Deliver {
				fault = in.CheckDeliver("home")
				want.Target = cmp.Or(trimTarget(want.Target), "home")
			}
			if c.Gateway != "" {
				require.NotNil(t, fault, c.Name)
				require.Equal(t, c.Gateway, fault.Code, c.Name)
				continue
			}
			require.Nil(t, fault, c.Name)
			got := called{T: want.T, ID: in.ID, Token: in.Token, Text: in.Text, Format: in.Format, Data: in.Data, Kind: in.MediaKind, Mime: in.Mime, Filename: in.Filename,
				Caption: in.Caption, Target: in.Target, PromptID: in.PromptID, OptionID: in.OptionID, Part: in.Part, Parts: in.Parts}
			got.Device.ID, got.Device.Name, got.Device.Platform, got.Device.AppVersion = in.Device.ID, in.Device.Name, in.Device.Platform, in.Device.AppVersion
			got.User.ID, got.User.Name = in.User.ID, in.User.Name
			got.Media.Kind, got.Media.Mime, got.Media.Filename, got.Media.Data = in.Attachment.Kind, in.Attachment.Mime, in.Attachment.Filename, in.Attachment.Data
			require.Equal(t, kinds[want.T], in.Kind, c.Name)
			require.Equal(t, want, got, c.Name)
		}
	}
}

func trimTarget(target string) string {
	if len(target) > len("mobile:") && target[:len("mobile:")] == "mobile:" {
		return target[len("mobile:"):]
	}
	return target
}

// told is an event of a client library.
type told struct {
	Event, ID, Text, State, Kind, Session, Command, Description, Mime, Filename, Caption, Data, URL, Device, Code, Message string
	ReplyTo                                                                                                                string `json:"reply_to"`
	OptionID                                                                                                               string `json:"option_id"`
	AvatarURL                                                                                                              string `json:"avatar_url"`
	Index, Total, Size                                                                                                     int
	TimeoutSeconds                                                                                                         int `json:"timeout_seconds"`
	RetryAfter                                                                                                             int `json:"retry_after_ms"`
	Final, Expired, Fatal                                                                                                  bool
	Options                                                                                                                []Option
	TS                                                                                                                     json.RawMessage
}

// frame is how this package writes what e tells; nil where it writes no such thing.
func (e *told) frame() []byte {
	switch e.Event {
	case "message", "edit":
		return AppendMessage(nil, &Message{ID: e.ID, Text: e.Text, Index: e.Index, Total: e.Total, Final: e.Final, Edit: e.Event == "edit"})
	case "typing", "typing_stop":
		return AppendTyping(nil, e.Event == "typing_stop")
	case "avatar":
		return AppendAvatar(nil, Avatar(e.State))
	case "prompt":
		return AppendCard(nil, &Card{ID: e.ID, Kind: e.Kind, Text: e.Text, Options: e.Options, Command: e.Command, Description: e.Description, Session: e.Session, TimeoutSeconds: e.TimeoutSeconds})
	case "prompt_done":
		return AppendCardDone(nil, &CardDone{ID: e.ID, OptionID: e.OptionID, Expired: e.Expired})
	case "media":
		data, _ := base64.StdEncoding.DecodeString(e.Data) // what it is not shows in the comparison
		return AppendMedia(nil, &MediaHead{ID: e.ID, Kind: e.Kind, Mime: e.Mime, Filename: e.Filename, Caption: e.Caption, URL: e.URL, ReplyTo: e.ReplyTo, Parts: 1, Final: true, Size: e.Size}, data)
	case "pong":
		return AppendPong(nil, string(e.TS))
	case "delivered":
		return AppendDelivered(nil, e.ID, e.Device)
	case "error":
		return AppendError(nil, &ErrorFrame{Code: Code(e.Code), Message: e.Message, ID: e.ID, Fatal: e.Fatal, RetryAfter: time.Duration(e.RetryAfter) * time.Millisecond})
	}
	return nil
}

// TestVectorsOfEvents: a client library that tells these events of these frames tells the same of the frames that this
// package writes, since what it writes holds each field of the event as the frame of the vector does.
func TestVectorsOfEvents(t *testing.T) {
	written := map[string]bool{}
	for _, c := range vectors[struct {
		Name   string
		Events []json.RawMessage
	}](t, "events.json") {
		for _, event := range c.Events {
			var what struct{ Event string }
			require.NoError(t, json.Unmarshal(event, &what), c.Name)
			if what.Event == "ready" { // the rest of it is the gateway's own: TestFrames
				continue
			}
			var e told
			require.NoError(t, json.Unmarshal(event, &e), c.Name)
			frame := e.frame()
			require.NotNil(t, frame, "%s: there is no frame for %s", c.Name, e.Event)
			written[e.Event] = true
			var got told
			var extra struct {
				T     string
				Chunk struct{ Index, Total int }
				Edit  bool
				Stop  bool
				Part  int
				Parts int
			}
			require.NoError(t, json.Unmarshal(frame, &got), c.Name)
			require.NoError(t, json.Unmarshal(frame, &extra), c.Name)
			got.Event, got.Index, got.Total = extra.T, extra.Chunk.Index, extra.Chunk.Total
			switch {
			case extra.Edit:
				got.Event = "edit"
			case extra.Stop:
				got.Event = "typing_stop"
			case extra.T == "media":
				got.Final = false
			}
			require.Equal(t, e, got, "%s: %s", c.Name, frame)
		}
	}
	require.Len(t, written, 11, "each frame that has a vector")
}
