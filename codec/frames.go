package codec

import (
	"encoding/base64"
	"strconv"
	"time"
)

// The frames to a device (spec 7, 9, 10). Each Append function adds one frame to dst and returns the longer slice, like append;
// it allocates only what dst has to grow. Texts may be any bytes: what is not UTF-8 becomes U+FFFD. Any goroutine may call them.

// Ready answers a hello that was accepted.
type Ready struct {
	DeviceID   string // also makes ready.session, the address of the chat: "mobile:" and the device id
	DeviceName string
	AvatarURL  string // may be empty
	Resume     *ReadyResume
}

// ReadyResume is for a device that asked for resume.
type ReadyResume struct {
	Session  string
	Seq      uint64 // of the last frame sent so far
	Replayed int    // frames that follow and were sent before
}

const capabilities = `,"capabilities":{"text":true,"voice":true,"typing":true,"avatar_states":["idle","thinking","speaking"],` +
	`"media_in":["image","video","document","audio"],"media_out":["image","voice","video","document","animation"],` +
	`"prompts":["exec_approval","slash_confirm","clarify"],"edit":true,"max_media_bytes":8388608,"max_text_chars":12000}`

// AppendReady adds a ready frame.
func AppendReady(dst []byte, r *Ready) []byte {
	dst = append(dst, `{"t":"ready","v":1,"session":"mobile:`...)
	dst = append(appendText(dst, r.DeviceID), `","device":{"id":`...)
	dst = appendString(dst, r.DeviceID)
	dst = appendField(dst, `,"name":`, r.DeviceName)
	dst = appendField(dst, `},"avatar_url":`, r.AvatarURL)
	dst = append(dst, capabilities...)
	if r.Resume != nil {
		dst = appendField(dst, `,"resume":{"session":`, r.Resume.Session)
		dst = append(dst, `,"seq":`...)
		dst = strconv.AppendUint(dst, r.Resume.Seq, 10)
		dst = appendInt(dst, `,"replayed":`, r.Resume.Replayed)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// Message is a piece of a reply, or a streamed reply so far. Seq 0 means no seq, here and below.
type Message struct {
	ID    string
	Text  string // at most 3 500 characters, which the caller cuts
	Index int    // number of the piece, 0..Total-1
	Total int
	Final bool // the last piece, or the last edit
	Edit  bool // Text takes the place of what was sent with the same id
	Seq   uint64
}

// AppendMessage adds a message frame.
func AppendMessage(dst []byte, m *Message) []byte {
	dst = appendField(dst, `{"t":"message","id":`, m.ID)
	dst = appendField(dst, `,"text":`, m.Text)
	dst = appendInt(dst, `,"chunk":{"index":`, m.Index)
	dst = appendInt(dst, `,"total":`, m.Total)
	dst = appendBool(dst, `},"final":`, m.Final)
	dst = appendTrue(dst, `,"edit":true`, m.Edit)
	return appendEnd(dst, m.Seq)
}

// MediaHead is all of a media frame but its bytes.
type MediaHead struct {
	ID       string
	Kind     string // MediaImage, MediaVoice, MediaVideo, MediaDocument or MediaAnimation
	Mime     string
	Filename string
	Caption  string
	URL      string // where the device may fetch the file instead
	ReplyTo  string // id of the message that the file answers
	Part     int    // number of the chunk, 0..Parts-1
	Parts    int
	Final    bool // the last chunk
	Size     int  // bytes of the whole file
	Seq      uint64
}

// AppendMedia adds a media frame with data, the raw bytes of one chunk. A file that has a URL has no data.
func AppendMedia(dst []byte, m *MediaHead, data []byte) []byte {
	dst = AppendMediaHead(dst, m)
	if m.URL != "" {
		return dst
	}
	return append(base64.StdEncoding.AppendEncode(dst, data), MediaTail...)
}

// MediaTail ends what AppendMediaHead began for a file without a URL.
const MediaTail = `"}`

// AppendMediaHead adds a media frame as far as its data, for who sends a chunk in pieces: base64 and MediaTail are to follow.
// For a file that has a URL it is the whole frame.
func AppendMediaHead(dst []byte, m *MediaHead) []byte {
	dst = appendField(dst, `{"t":"media","id":`, m.ID)
	dst = appendField(dst, `,"kind":`, m.Kind)
	dst = appendField(dst, `,"mime":`, m.Mime)
	dst = appendField(dst, `,"filename":`, m.Filename)
	dst = appendOptional(dst, `,"caption":`, m.Caption)
	dst = appendInt(dst, `,"part":`, m.Part)
	dst = appendInt(dst, `,"parts":`, m.Parts)
	dst = appendBool(dst, `,"final":`, m.Final)
	dst = appendInt(dst, `,"size":`, m.Size)
	dst = appendOptional(dst, `,"reply_to":`, m.ReplyTo)
	if m.URL != "" {
		return appendEnd(appendField(dst, `,"url":`, m.URL), m.Seq)
	}
	if m.Seq != 0 {
		dst = strconv.AppendUint(append(dst, `,"seq":`...), m.Seq, 10)
	}
	return append(dst, `,"data":"`...)
}

// Card is a question with buttons.
type Card struct {
	ID             string
	Kind           string // CardExecApproval, CardSlashConfirm or CardClarify
	Text           string
	Options        []Option
	Command        string // only sent with CardExecApproval
	Description    string // only sent with CardExecApproval
	Session        string
	TimeoutSeconds int
	Seq            uint64
}

// Option is a button of a card.
type Option struct {
	ID    string
	Label string
	Style string // primary, danger or empty
}

// AppendCard adds a prompt frame.
func AppendCard(dst []byte, c *Card) []byte {
	dst = appendField(dst, `{"t":"prompt","id":`, c.ID)
	dst = appendField(dst, `,"kind":`, c.Kind)
	dst = appendField(dst, `,"text":`, c.Text)
	dst = append(dst, `,"options":[`...)
	for i := range c.Options {
		o := &c.Options[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendField(dst, `{"id":`, o.ID)
		dst = appendField(dst, `,"label":`, o.Label)
		dst = appendField(dst, `,"style":`, o.Style)
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if c.Kind == CardExecApproval {
		dst = appendOptional(dst, `,"command":`, c.Command)
		dst = appendOptional(dst, `,"description":`, c.Description)
	}
	dst = appendField(dst, `,"session":`, c.Session)
	dst = appendInt(dst, `,"timeout_seconds":`, c.TimeoutSeconds)
	return appendEnd(dst, c.Seq)
}

// CardDone closes a card.
type CardDone struct {
	ID       string
	OptionID string // the choice that took effect
	Expired  bool   // time-out, or no such open card
	Seq      uint64
}

// AppendCardDone adds a prompt_done frame.
func AppendCardDone(dst []byte, c *CardDone) []byte {
	dst = appendField(dst, `{"t":"prompt_done","id":`, c.ID)
	dst = appendOptional(dst, `,"option_id":`, c.OptionID)
	dst = appendTrue(dst, `,"expired":true`, c.Expired)
	return appendEnd(dst, c.Seq)
}

// Avatar is a state of the avatar.
type Avatar string

// The states of the avatar.
const (
	AvatarIdle     Avatar = "idle"
	AvatarThinking Avatar = "thinking"
	AvatarSpeaking Avatar = "speaking"
)

// AppendAvatar adds an avatar frame; an unknown state becomes idle.
func AppendAvatar(dst []byte, a Avatar) []byte {
	switch a {
	case AvatarThinking:
		return append(dst, `{"t":"avatar","state":"thinking"}`...)
	case AvatarSpeaking:
		return append(dst, `{"t":"avatar","state":"speaking"}`...)
	}
	return append(dst, `{"t":"avatar","state":"idle"}`...)
}

// AppendTyping adds a typing frame: the agent works, or stopped.
func AppendTyping(dst []byte, stop bool) []byte {
	if stop {
		return append(dst, `{"t":"typing","stop":true}`...)
	}
	return append(dst, `{"t":"typing"}`...)
}

// AppendPong adds a pong frame. ts is JSON and goes out byte for byte: only what In.TS held may come here; empty means no ts.
func AppendPong(dst []byte, ts string) []byte {
	if ts == "" {
		return append(dst, `{"t":"pong"}`...)
	}
	dst = append(dst, `{"t":"pong","ts":`...)
	dst = append(dst, ts...)
	return append(dst, '}')
}

// ErrorFrame says what was wrong, mostly out of a Fault.
type ErrorFrame struct {
	Code       Code
	Message    string        // one sentence for a person
	ID         string        // of the frame at fault, where it had one
	Fatal      bool          // the connection is closed after it
	RetryAfter time.Duration // with RateLimited; sent in milliseconds, rounded up, when over 0
}

// AppendError adds an error frame.
func AppendError(dst []byte, e *ErrorFrame) []byte {
	dst = appendField(dst, `{"t":"error","code":`, string(e.Code))
	dst = appendField(dst, `,"message":`, e.Message)
	dst = appendBool(dst, `,"fatal":`, e.Fatal)
	dst = appendOptional(dst, `,"id":`, e.ID)
	if e.RetryAfter > 0 {
		ms := (e.RetryAfter-1)/time.Millisecond + 1
		dst = append(dst, `,"retry_after_ms":`...)
		dst = strconv.AppendInt(dst, int64(ms), 10)
	}
	return append(dst, '}')
}

// AppendDelivered adds a delivered frame: the delivery id was handed to the connection of device.
func AppendDelivered(dst []byte, id, device string) []byte {
	dst = appendField(dst, `{"t":"delivered","id":`, id)
	dst = appendField(dst, `,"device":`, device)
	return append(dst, '}')
}

// AppendAccepted adds an accepted frame: the message id was taken, now or before. Only for a device with resume.
func AppendAccepted(dst []byte, id string) []byte {
	dst = appendField(dst, `{"t":"accepted","id":`, id)
	return append(dst, '}')
}
