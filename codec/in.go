package codec

// Kind is the type of a frame that a device sends.
type Kind uint8

// The types of spec 5. Unknown is every other one: it is ignored, and no error.
const (
	Unknown Kind = iota
	Hello
	Text
	Audio
	Media
	Prompt
	Typing
	Ping
	Ack
	Deliver
)

var kindNames = [...]string{"unknown", "hello", "text", "audio", "media", "prompt", "typing", "ping", "ack", "deliver"}

// String gives the word on the wire, and "unknown" for Unknown; it is safe to log.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Unknown]
}

// kindOf ignores the case of ASCII letters.
func kindOf(t string) Kind {
	var low [8]byte
	if len(t) > len(low) {
		return Unknown
	}
	for i := range len(t) {
		c := t[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	switch string(low[:len(t)]) {
	case "hello":
		return Hello
	case "text":
		return Text
	case "audio":
		return Audio
	case "media":
		return Media
	case "prompt":
		return Prompt
	case "typing":
		return Typing
	case "ping":
		return Ping
	case "ack":
		return Ack
	case "deliver":
		return Deliver
	}
	return Unknown
}

// In is one frame of a device. It belongs to who called Decode and is meant to be used again.
//
// Its strings borrow from the buffer that Decode got (with the build tag stdjson they do not): they are valid until that buffer
// is written to or given back, and whatever outlives it must be cloned (strings.Clone). Values of fields that the kind of frame
// does not have are zero. All strings are valid UTF-8 and come from the device: none may reach a log or a path.
//
// Call Reset before an In goes to a pool, or it keeps the buffer alive.
type In struct {
	Kind Kind
	ID   string // at most 128 characters; set for any frame that had one, also when Decode returns a Fault

	// hello
	Token     string
	Device    DeviceInfo
	User      UserInfo
	Resume    Resume
	HasResume bool // resume was there, be it empty

	// text, audio, prompt, deliver
	Text string // text of the message, the transcript or the answer, with its white space

	// audio
	Format string // FormatWAV or FormatOGG

	// audio, media
	Data string // base64 as it came, not yet checked; for media it may be empty

	// media
	MediaKind string // MediaImage, MediaVideo, MediaDocument or MediaAudio
	Mime      string // at most 255 bytes; what is longer counts as none
	Filename  string // without path, control characters and leading dots; at most 200 characters
	Caption   string // at most 12 000 characters
	Part      int    // 0..Parts-1
	Parts     int    // 1..2048

	// prompt
	PromptID string // at most 128 characters
	OptionID string // at most 128 characters: what is longer is no option

	// ping
	TS string // JSON of ts, byte for byte, at most 4 KiB; empty when absent

	// ack
	Seq uint64

	// deliver, after CheckDeliver
	Target        string // device id, without "mobile:"
	Attachment    Attachment
	HasAttachment bool

	raw     fields  // the frame before its types are looked at; CheckDeliver reads it later
	members members // the same for the object that is read right now
	parser  parser
}

// DeviceInfo is hello.device. Its strings have at most 120 characters.
type DeviceInfo struct {
	ID         string // without control characters; empty: the server makes one
	Name       string // without control characters; empty: the id serves
	Platform   string
	AppVersion string
}

// UserInfo is hello.user. Its strings have at most 120 characters.
type UserInfo struct {
	ID   string
	Name string // without control characters
}

// Resume is hello.resume (spec 10): the device has seen all frames of Session up to Seq.
type Resume struct {
	Session string
	Seq     uint64
}

// Attachment is deliver.media.
type Attachment struct {
	Kind     string // MediaImage, MediaVoice, MediaVideo, MediaDocument or MediaAnimation
	Mime     string
	Filename string // as In.Filename
	Data     string // as In.Data, never empty
}

// Reset forgets the frame and lets go of its buffer.
func (in *In) Reset() { *in = In{} }

// fields are the JSON texts of all fields that any frame knows. The parser leaves out what is unknown, and of a repeated
// field the last one stays.
type fields struct {
	T        value `json:"t"`
	ID       value `json:"id"`
	Token    value `json:"token"`
	Device   value `json:"device"`
	User     value `json:"user"`
	Resume   value `json:"resume"`
	Text     value `json:"text"`
	Format   value `json:"format"`
	Data     value `json:"data"`
	Kind     value `json:"kind"`
	Mime     value `json:"mime"`
	Filename value `json:"filename"`
	Caption  value `json:"caption"`
	Part     value `json:"part"`
	Parts    value `json:"parts"`
	PromptID value `json:"prompt_id"`
	OptionID value `json:"option_id"`
	TS       value `json:"ts"`
	Target   value `json:"target"`
	Media    value `json:"media"`
	Seq      value `json:"seq"`
}

// members are the JSON texts of all fields that an object inside a frame knows: device, user, resume, media.
type members struct {
	ID         value `json:"id"`
	Name       value `json:"name"`
	Platform   value `json:"platform"`
	AppVersion value `json:"app_version"`
	Session    value `json:"session"`
	Seq        value `json:"seq"`
	Kind       value `json:"kind"`
	Mime       value `json:"mime"`
	Filename   value `json:"filename"`
	Data       value `json:"data"`
}
