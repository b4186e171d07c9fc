package hermes

import (
	"encoding/json"
	"strings"
)

// Outgoing is a frame from the application to the gateway: [Text], [Audio], [Answer], [Typing], [Ping], [Ack], [Deliver]
// or [Raw]. Limits are the gateway's to check: what it refuses comes back as an [Error] with the id of the frame.
type Outgoing interface {
	encode() ([]byte, error)
}

// Text is one message to the agent.
type Text struct {
	ID   string `json:"id"`   // see NewID; at most 128 characters
	Text string `json:"text"` // at most 12 000 characters, not white space alone
}

// Audio is one voice message.
type Audio struct {
	ID     string `json:"id"`
	Format string `json:"format"`         // "wav" or "ogg"
	Data   []byte `json:"data"`           // at most 8 MiB
	Text   string `json:"text,omitempty"` // transcript, optional
}

// Answer answers a card. One of OptionID and Text is needed; an option that the card does not offer counts as its safe one.
type Answer struct {
	PromptID string `json:"prompt_id"`
	OptionID string `json:"option_id,omitempty"`
	Text     string `json:"text,omitempty"` // for clarify: the free answer
}

// Typing says that somebody is typing, in either direction. Stop is the gateway's: the turn is over.
type Typing struct {
	Stop bool `json:"stop,omitempty"`
}

// Ping asks for a [Pong] with the same TS.
type Ping struct {
	TS any `json:"ts,omitempty"` // any JSON value of at most 4 KiB
}

// Ack says that a message was shown or played.
type Ack struct {
	ID string `json:"id"`
}

// Deliver puts a message before another device. A connection may do so that said hello with a deliver token, or that
// comes from the gateway's own host and user; others hear forbidden. [Delivered] confirms it, also when it is sent again
// with the same id, which delivers nothing twice.
type Deliver struct {
	ID     string      `json:"id"`               // see NewID; at most 128 characters
	Target string      `json:"target,omitempty"` // mobile:ID or ID of the device; empty: the gateway's home device
	Text   string      `json:"text,omitempty"`   // at most 12 000 characters; this or Media is needed
	Media  *Attachment `json:"media,omitempty"`
}

// Attachment is the file of a [Deliver].
type Attachment struct {
	Kind     string `json:"kind"`           // image, voice, video, document or animation
	Mime     string `json:"mime,omitempty"` // empty: the gateway guesses
	Filename string `json:"filename,omitempty"`
	Data     []byte `json:"data"` // at most MaxMediaBytes
}

// Raw is a frame sent as it is.
type Raw json.RawMessage

type hello struct {
	Version int    `json:"v"`
	Token   string `json:"token"`
	Device  Device `json:"device"`
	User    User   `json:"user"`
}

// kind is the field that every frame begins with.
type kind struct {
	T string `json:"t"`
}

func (f Text) encode() ([]byte, error) {
	return json.Marshal(struct {
		kind
		Text
	}{kind{"text"}, f})
}

func (f Audio) encode() ([]byte, error) {
	return json.Marshal(struct {
		kind
		Audio
	}{kind{"audio"}, f})
}

func (f Answer) encode() ([]byte, error) {
	return json.Marshal(struct {
		kind
		Answer
	}{kind{"prompt"}, f})
}

func (f Typing) encode() ([]byte, error) {
	return json.Marshal(struct {
		kind
		Typing
	}{kind{"typing"}, f})
}

func (f Ping) encode() ([]byte, error) {
	return json.Marshal(struct {
		kind
		Ping
	}{kind{"ping"}, f})
}

func (f Ack) encode() ([]byte, error) {
	return json.Marshal(struct {
		kind
		Ack
	}{kind{"ack"}, f})
}

func (f Deliver) encode() ([]byte, error) {
	return json.Marshal(struct {
		kind
		Deliver
	}{kind{"deliver"}, f})
}

func (f hello) encode() ([]byte, error) {
	return json.Marshal(struct {
		kind
		hello
	}{kind{"hello"}, f})
}

func (f Raw) encode() ([]byte, error) { return f, nil }

// Event is one happening: a frame of the gateway, or a [Lost] of a [Session].
type Event struct {
	Raw   json.RawMessage // the frame as it came; nil for Lost
	Frame any             // *Ready, *Message, *Media, *Prompt, *PromptDone, *Avatar, *Typing, *Pong, *Error, *Delivered, *Lost; nil when unknown
}

// Ready is the gateway's welcome.
type Ready struct {
	Version      int          `json:"v"`
	Session      string       `json:"session"`
	Device       Device       `json:"device"` // ID and Name only
	AvatarURL    string       `json:"avatar_url"`
	Capabilities Capabilities `json:"capabilities"`
}

// Capabilities says what the gateway can do. An older one leaves out what stands after Typing.
type Capabilities struct {
	Text          bool     `json:"text"`
	Voice         bool     `json:"voice"`
	Typing        bool     `json:"typing"`
	AvatarStates  []string `json:"avatar_states"`
	MediaIn       []string `json:"media_in"`
	MediaOut      []string `json:"media_out"`
	Prompts       []string `json:"prompts"`
	Edit          bool     `json:"edit"`
	MaxMediaBytes int      `json:"max_media_bytes"`
	MaxTextChars  int      `json:"max_text_chars"`
}

// Message is a piece of what the agent says; [Transcript] joins the pieces.
type Message struct {
	ID    string `json:"id"`
	Text  string `json:"text"` // with Edit: the whole text so far
	Chunk Chunk  `json:"chunk"`
	Final bool   `json:"final"` // the last piece of this id
	Edit  bool   `json:"edit"`  // replaces what was shown under this id
	Whole string `json:"-"`     // the pieces so far, joined; a Client does that
}

// Chunk is the place of a piece in a long message.
type Chunk struct {
	Index int `json:"index"`
	Total int `json:"total"`
}

// Media is a chunk of a file from the agent; [Downloads] joins the chunks.
type Media struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"` // image, voice, video, document or animation
	Mime     string `json:"mime"`
	Filename string `json:"filename"` // not to be trusted as a path
	Caption  string `json:"caption"`
	Part     int    `json:"part"` // 0 … Parts-1
	Parts    int    `json:"parts"`
	Final    bool   `json:"final"`    // the last chunk of this id
	Size     int    `json:"size"`     // bytes of the whole file
	Data     []byte `json:"data"`     // the chunk; nil beside a URL
	URL      string `json:"url"`      // where the application fetches the file itself
	ReplyTo  string `json:"reply_to"` // id of the message that the file answers
}

// Prompt is a card: a question with options, answered by [Answer]. After a reconnect an open card comes again.
type Prompt struct {
	ID             string   `json:"id"`
	Kind           string   `json:"kind"` // exec_approval, slash_confirm or clarify
	Text           string   `json:"text"`
	Options        []Option `json:"options"`
	Command        string   `json:"command"`     // exec_approval only
	Description    string   `json:"description"` // exec_approval only
	Session        string   `json:"session"`
	TimeoutSeconds int      `json:"timeout_seconds"`
}

// Option is one answer that a card offers.
type Option struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Style string `json:"style"` // primary, danger or empty
}

// PromptDone closes a card.
type PromptDone struct {
	ID       string `json:"id"`
	OptionID string `json:"option_id"` // the choice that took effect
	Expired  bool   `json:"expired"`
}

// Avatar is the state of the agent's face: idle, thinking or speaking. A state of another name is read as idle.
type Avatar struct {
	State string `json:"state"`
}

// Pong answers a [Ping].
type Pong struct {
	TS json.RawMessage `json:"ts"` // as it was sent; nil without one
}

// Error says that the gateway refused a frame or failed a turn. After a fatal one the connection ends.
type Error struct {
	Code         string `json:"code"`
	Message      string `json:"message"` // one sentence for a person
	Fatal        bool   `json:"fatal"`
	ID           string `json:"id"`             // of the frame at fault, where it had one
	RetryAfterMS int64  `json:"retry_after_ms"` // rate_limited only
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Delivered confirms a service delivery.
type Delivered struct {
	ID     string `json:"id"`
	Device string `json:"device"`
}

// decode returns nil for what this package does not know and for what is not what it says it is: a client ignores both.
func decode(raw []byte) any {
	var k kind
	if json.Unmarshal(raw, &k) != nil {
		return nil
	}
	var f any
	switch strings.ToLower(k.T) {
	case "ready":
		f = &Ready{Capabilities: Capabilities{Text: true, Voice: true, Typing: true}}
	case "message":
		f = &Message{Chunk: Chunk{Total: 1}}
	case "media":
		f = &Media{Parts: 1}
	case "prompt":
		f = new(Prompt)
	case "prompt_done":
		f = new(PromptDone)
	case "avatar":
		f = new(Avatar)
	case "typing":
		f = new(Typing)
	case "pong":
		f = new(Pong)
	case "error":
		f = new(Error)
	case "delivered":
		f = new(Delivered)
	default:
		return nil
	}
	if json.Unmarshal(raw, f) != nil {
		return nil
	}
	if a, ok := f.(*Avatar); ok && a.State != "thinking" && a.State != "speaking" {
		a.State = "idle"
	}
	return f
}
