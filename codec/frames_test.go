package codec

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every frame with all of its fields, and with none of the optional ones; the order of fields is part of the contract.
func TestFrames(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{
			AppendReady(nil, &Ready{DeviceID: "tel-1", DeviceName: "Phone"}),
			`{"t":"ready","v":1,"session":"mobile:tel-1","device":{"id":"tel-1","name":"Phone"},"avatar_url":"",` +
				`"capabilities":{"text":true,"voice":true,"typing":true,"avatar_states":["idle","thinking","speaking"],` +
				`"media_in":["image","video","document","audio"],"media_out":["image","voice","video","document","animation"],` +
				`"prompts":["exec_approval","slash_confirm","clarify"],"edit":true,"max_media_bytes":8388608,"max_text_chars":12000}}`,
		},
		{AppendMessage(nil, &Message{ID: "m", Text: "hi", Total: 1}), `{"t":"message","id":"m","text":"hi","chunk":{"index":0,"total":1},"final":false}`},
		{
			AppendMessage(nil, &Message{ID: "m", Text: "<é&\u2028😀>\"\\\n\x00\x7f", Index: 2, Total: 3, Final: true, Edit: true, Seq: math.MaxUint64}),
			`{"t":"message","id":"m","text":"<é&` + "\u2028" + `😀>\"\\\n\u0000` + "\x7f" + `","chunk":{"index":2,"total":3},"final":true,"edit":true,"seq":18446744073709551615}`,
		},
		{
			AppendMedia(nil, &MediaHead{ID: "f", Kind: MediaImage, Parts: 1, Final: true, Size: 3}, []byte{1, 2, 3}),
			`{"t":"media","id":"f","kind":"image","mime":"","filename":"","part":0,"parts":1,"final":true,"size":3,"data":"AQID"}`,
		},
		{
			AppendMedia(nil, &MediaHead{ID: "f", Kind: MediaVoice, Mime: "audio/ogg", Filename: "a.ogg", Caption: "c", ReplyTo: "1", Part: 1, Parts: 2, Size: 9, Seq: 5}, []byte("a")),
			`{"t":"media","id":"f","kind":"voice","mime":"audio/ogg","filename":"a.ogg","caption":"c","part":1,"parts":2,"final":false,"size":9,"reply_to":"1","seq":5,"data":"YQ=="}`,
		},
		{AppendMedia(nil, &MediaHead{ID: "f", Kind: MediaVideo, URL: "http://x", Parts: 1, Final: true, Size: 9}, nil), `{"t":"media","id":"f","kind":"video","mime":"","filename":"","part":0,"parts":1,"final":true,"size":9,"url":"http://x"}`},
		{AppendMedia(nil, &MediaHead{ID: "f", Kind: MediaVideo, Parts: 1, Final: true}, nil), `{"t":"media","id":"f","kind":"video","mime":"","filename":"","part":0,"parts":1,"final":true,"size":0,"data":""}`},
		{
			AppendCard(nil, &Card{ID: "c", Kind: CardExecApproval, Text: "Run?", Command: "ls", Description: "lists", Session: "mobile:a", TimeoutSeconds: 300, Seq: 9, Options: []Option{{"once", "Once", "primary"}, {"deny", "Deny", ""}}}),
			`{"t":"prompt","id":"c","kind":"exec_approval","text":"Run?","options":[{"id":"once","label":"Once","style":"primary"},{"id":"deny","label":"Deny","style":""}],` +
				`"command":"ls","description":"lists","session":"mobile:a","timeout_seconds":300,"seq":9}`,
		},
		{
			AppendCard(nil, &Card{ID: "c", Kind: CardClarify, Text: "Which?", Command: "ls", Description: "lists", Session: "s", TimeoutSeconds: 1}),
			`{"t":"prompt","id":"c","kind":"clarify","text":"Which?","options":[],"session":"s","timeout_seconds":1}`,
		},
		{AppendCardDone(nil, &CardDone{ID: "c", OptionID: "once"}), `{"t":"prompt_done","id":"c","option_id":"once"}`},
		{AppendCardDone(nil, &CardDone{ID: "c", Expired: true, Seq: 3}), `{"t":"prompt_done","id":"c","expired":true,"seq":3}`},
		{AppendAvatar(nil, AvatarIdle), `{"t":"avatar","state":"idle"}`},
		{AppendAvatar(nil, AvatarThinking), `{"t":"avatar","state":"thinking"}`},
		{AppendAvatar(nil, AvatarSpeaking), `{"t":"avatar","state":"speaking"}`},
		{AppendAvatar(nil, `"happy`), `{"t":"avatar","state":"idle"}`},
		{AppendTyping(nil, false), `{"t":"typing"}`},
		{AppendTyping(nil, true), `{"t":"typing","stop":true}`},
		{AppendPong(nil, ""), `{"t":"pong"}`},
		{AppendPong(nil, `{"a" : 1.50e+1}`), `{"t":"pong","ts":{"a" : 1.50e+1}}`},
		{AppendError(nil, &ErrorFrame{Code: TooBig, Message: "No."}), `{"t":"error","code":"too_big","message":"No.","fatal":false}`},
		{
			AppendError(nil, &ErrorFrame{Code: RateLimited, Message: "No.", ID: "1", Fatal: true, RetryAfter: 1_500_001 * time.Nanosecond}),
			`{"t":"error","code":"rate_limited","message":"No.","fatal":true,"id":"1","retry_after_ms":2}`,
		},
		{AppendError(nil, &ErrorFrame{Code: RateLimited, Message: "No.", RetryAfter: time.Second}), `{"t":"error","code":"rate_limited","message":"No.","fatal":false,"retry_after_ms":1000}`},
		{AppendDelivered(nil, "d", "tel"), `{"t":"delivered","id":"d","device":"tel"}`},
		{AppendAccepted(nil, "1"), `{"t":"accepted","id":"1"}`},
	} {
		require.Equal(t, c.want, string(c.got))
	}

	resumed := AppendReady(nil, &Ready{Resume: &ReadyResume{Session: "s", Seq: 7, Replayed: 2}})
	require.True(t, strings.HasSuffix(string(resumed), `},"resume":{"session":"s","seq":7,"replayed":2}}`))
}

// The constant text of ready must not part from the limits.
func TestCapabilities(t *testing.T) {
	var ready struct {
		V            int
		Capabilities struct {
			MaxMediaBytes int      `json:"max_media_bytes"`
			MaxTextChars  int      `json:"max_text_chars"`
			AvatarStates  []Avatar `json:"avatar_states"`
			MediaIn       []string `json:"media_in"`
			MediaOut      []string `json:"media_out"`
			Prompts       []string
		}
	}
	require.NoError(t, json.Unmarshal(AppendReady(nil, &Ready{}), &ready))
	require.Equal(t, ProtocolVersion, ready.V)
	c := ready.Capabilities
	require.Equal(t, MaxMediaBytes, c.MaxMediaBytes)
	require.Equal(t, MaxTextChars, c.MaxTextChars)
	require.Equal(t, []Avatar{AvatarIdle, AvatarThinking, AvatarSpeaking}, c.AvatarStates)
	require.Equal(t, []string{MediaImage, MediaVideo, MediaDocument, MediaAudio}, c.MediaIn)
	require.Equal(t, []string{MediaImage, MediaVoice, MediaVideo, MediaDocument, MediaAnimation}, c.MediaOut)
	require.Equal(t, []string{CardExecApproval, CardSlashConfirm, CardClarify}, c.Prompts)
}

// object reads one frame as encoding/json does; it fails the test when b is no valid object.
func object(t *testing.T, b []byte) map[string]any {
	t.Helper()
	require.True(t, json.Valid(b), "%q", b)
	var m map[string]any
	require.NoError(t, json.Unmarshal(b, &m))
	return m
}

// FuzzEncode: whatever the texts are, a frame is valid JSON and gives them back, with U+FFFD for each byte that is not UTF-8.
func FuzzEncode(f *testing.F) {
	f.Add("id", "text", []byte("data"), 1, true)
	f.Add("\xff\xc0\x80", "\xed\xa0\x80a\xe2\x82", []byte{}, -1, false)
	f.Add("<>&\u2028\u2029\x7f", "\x00\x1f\"\\/\b\f\n\r\t", []byte{0xff}, 1<<40, true)
	f.Add("", "\ufffd😀", []byte("12"), 0, false)
	f.Fuzz(func(t *testing.T, a, b string, data []byte, n int, yes bool) {
		e := encoded{t}
		e.message(&Message{ID: a, Text: b, Index: n, Total: n, Final: yes, Edit: yes, Seq: 7})
		e.ready(&Ready{DeviceID: b, DeviceName: a, AvatarURL: b, Resume: &ReadyResume{Session: b, Replayed: n}})
		e.media(&MediaHead{ID: a, Kind: b, Mime: a, Filename: b, Caption: a, URL: b, ReplyTo: a, Part: n, Size: n}, data)
		for _, kind := range []string{CardExecApproval, CardClarify} {
			e.card(&Card{ID: a, Kind: kind, Text: b, Command: a, Description: b, Session: a, TimeoutSeconds: n, Options: []Option{{a, b, a}, {b, a, b}}})
		}
		e.rest(a, b, n, yes)
	})
}

// encoded holds a frame against what went into it.
type encoded struct{ *testing.T }

// added reads the one frame that was added behind what dst had.
func (t encoded) added(encode func(dst []byte) []byte) map[string]any {
	b := encode([]byte("before"))
	require.Equal(t, "before", string(b[:6]))
	return object(t.T, b[6:])
}

func clean(s string) string { return string([]rune(s)) }

// optional wants the field exactly when it is not empty.
func (t encoded) optional(m map[string]any, name, want string) {
	if want == "" {
		require.NotContains(t, m, name)
	} else {
		require.Equal(t, clean(want), m[name])
	}
}

func (t encoded) message(in *Message) {
	m := t.added(func(dst []byte) []byte { return AppendMessage(dst, in) })
	require.Equal(t, clean(in.ID), m["id"])
	require.Equal(t, clean(in.Text), m["text"])
	require.Equal(t, map[string]any{"index": float64(in.Index), "total": float64(in.Total)}, m["chunk"])
	require.Equal(t, in.Final, m["final"])
	require.Equal(t, float64(in.Seq), m["seq"])
}

func (t encoded) ready(in *Ready) {
	m := t.added(func(dst []byte) []byte { return AppendReady(dst, in) })
	require.Equal(t, clean("mobile:"+in.DeviceID), m["session"])
	require.Equal(t, map[string]any{"id": clean(in.DeviceID), "name": clean(in.DeviceName)}, m["device"])
	require.Equal(t, clean(in.AvatarURL), m["avatar_url"])
	require.Equal(t, map[string]any{"session": clean(in.Resume.Session), "seq": 0.0, "replayed": float64(in.Resume.Replayed)}, m["resume"])
}

func (t encoded) media(in *MediaHead, data []byte) {
	m := t.added(func(dst []byte) []byte { return AppendMedia(dst, in, data) })
	t.optional(m, "caption", in.Caption)
	t.optional(m, "url", in.URL)
	t.optional(m, "reply_to", in.ReplyTo)
	require.Equal(t, clean(in.Kind), m["kind"])
	require.Equal(t, clean(in.Mime), m["mime"])
	require.Equal(t, clean(in.Filename), m["filename"])
	require.Equal(t, float64(in.Size), m["size"])
	text, has := m["data"].(string)
	require.Equal(t, in.URL == "", has)
	if !has {
		return // the device fetches it itself
	}
	back, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	require.Equal(t, string(data), string(back))
}

func (t encoded) card(in *Card) {
	m := t.added(func(dst []byte) []byte { return AppendCard(dst, in) })
	require.Equal(t, clean(in.Text), m["text"])
	require.Equal(t, clean(in.Session), m["session"])
	last := in.Options[1]
	require.Equal(t, map[string]any{"id": clean(last.ID), "label": clean(last.Label), "style": clean(last.Style)}, m["options"].([]any)[1])
	if in.Kind != CardExecApproval {
		in.Command, in.Description = "", ""
	}
	t.optional(m, "command", in.Command)
	t.optional(m, "description", in.Description)
}

func (t encoded) rest(a, b string, n int, yes bool) {
	m := t.added(func(dst []byte) []byte { return AppendCardDone(dst, &CardDone{ID: a, OptionID: b, Expired: yes}) })
	t.optional(m, "option_id", b)
	require.Equal(t, yes, m["expired"] != nil)

	m = t.added(func(dst []byte) []byte {
		return AppendError(dst, &ErrorFrame{Code: Code(a), Message: b, ID: a, Fatal: yes, RetryAfter: time.Duration(n)})
	})
	require.Equal(t, clean(b), m["message"])
	t.optional(m, "id", a)
	require.Equal(t, n > 0, m["retry_after_ms"] != nil)

	m = t.added(func(dst []byte) []byte { return AppendDelivered(dst, a, b) })
	require.Equal(t, clean(b), m["device"])
	m = t.added(func(dst []byte) []byte { return AppendAccepted(dst, a) })
	require.Equal(t, clean(a), m["id"])
	t.added(func(dst []byte) []byte { return AppendAvatar(dst, Avatar(a)) })
}
