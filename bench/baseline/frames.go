package main

import (
	"encoding/json"
	"strings"
)

// The limits of the protocol that are checked here.
const (
	maxFrame    = 16 << 20
	maxHello    = 64 << 10
	maxText     = 12_000 // characters
	maxFile     = 8 << 20
	mediaChunk  = 3 << 20
	maxParts    = 2048
	openUploads = 8
)

// incoming is any frame of a device.
type incoming struct {
	T        string          `json:"t"`
	ID       string          `json:"id"`
	Token    string          `json:"token"`
	Device   device          `json:"device"`
	Text     string          `json:"text"`
	Format   string          `json:"format"`
	Kind     string          `json:"kind"`
	Mime     string          `json:"mime"`
	Filename string          `json:"filename"`
	Caption  string          `json:"caption"`
	Data     []byte          `json:"data"`
	Part     int             `json:"part"`
	Parts    *int            `json:"parts"`
	TS       json.RawMessage `json:"ts"`
}

type device struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type ready struct {
	T            string       `json:"t"`
	V            int          `json:"v"`
	Session      string       `json:"session"`
	Device       device       `json:"device"`
	AvatarURL    string       `json:"avatar_url"`
	Capabilities capabilities `json:"capabilities"`
}

type capabilities struct {
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

var allCapabilities = capabilities{
	Text: true, Voice: true, Typing: true, Edit: true,
	AvatarStates: []string{"idle", "thinking", "speaking"},
	MediaIn:      []string{"image", "video", "document", "audio"},
	MediaOut:     []string{"image", "voice", "video", "document", "animation"},
	Prompts:      []string{"exec_approval", "slash_confirm", "clarify"}, MaxMediaBytes: maxFile, MaxTextChars: maxText,
}

type message struct {
	T     string `json:"t"`
	ID    string `json:"id"`
	Text  string `json:"text"`
	Chunk chunk  `json:"chunk"`
	Final bool   `json:"final"`
}

type chunk struct {
	Index int `json:"index"`
	Total int `json:"total"`
}

type media struct {
	T        string `json:"t"`
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Mime     string `json:"mime"`
	Filename string `json:"filename"`
	Caption  string `json:"caption,omitempty"`
	Part     int    `json:"part"`
	Parts    int    `json:"parts"`
	Final    bool   `json:"final"`
	Size     int    `json:"size"`
	ReplyTo  string `json:"reply_to,omitempty"`
	Data     []byte `json:"data"`
}

type pong struct {
	T  string          `json:"t"`
	TS json.RawMessage `json:"ts,omitempty"`
}

type failure struct {
	T       string `json:"t"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Fatal   bool   `json:"fatal"`
	ID      string `json:"id,omitempty"`
}

// The frames that are always the same.
var (
	avatarIdle     = []byte(`{"t":"avatar","state":"idle"}`)
	avatarThinking = []byte(`{"t":"avatar","state":"thinking"}`)
	avatarSpeaking = []byte(`{"t":"avatar","state":"speaking"}`)
	typingStart    = []byte(`{"t":"typing"}`)
	typingStop     = []byte(`{"t":"typing","stop":true}`)
)

func (in *incoming) kindOfFrame() string { return strings.ToLower(in.T) }
