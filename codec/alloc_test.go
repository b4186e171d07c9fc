package codec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	small100 = `{"t":"text","id":"m-000001","text":"` + strings.Repeat("a", 62) + `"}`
	padded64 = `{"t":"text","id":"m-000001","text":"hi","pad":"` + strings.Repeat("a", 64<<10-49) + `"}`
	audio1M  = `{"t":"audio","id":"m-000001","format":"ogg","data":"` + strings.Repeat("A", 1<<20-54) + `"}`
	hello1   = `{"t":"hello","token":"secret","device":{"id":"tel-1","name":"Phone","platform":"android","app_version":"1.0.0"},"user":{"id":"u-1","name":"Ann"},"resume":{"session":"s","seq":3}}`
)

// Decode with an In that is used again, and every encoder with room in dst, allocate nothing.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop what sonic pools")
	}
	var in In
	for name, frame := range map[string]string{
		"text": small100, "padded": padded64, "audio": audio1M, "hello": hello1,
		"escaped":  `{"t":"text","id":"\u0031","text":"a\nb\ud83d\ude00"}`,
		"cyrillic": `{"t":"text","id":"1","text":"` + strings.Repeat("я", 5000) + `"}`,
		"ping":     `{"t":"ping","ts":{"a":1719400000123}}`, "typing": `{"t":"typing"}`, "ack": `{"t":"ack","id":"1","seq":5}`,
		"prompt":  `{"t":"prompt","prompt_id":"c","option_id":"once"}`,
		"media":   `{"t":"media","id":"1","kind":"image","filename":"../a.png","data":"AQID","part":0,"parts":2}`,
		"deliver": `{"t":"deliver","id":"1","target":"mobile:a","text":"x","media":{"kind":"audio","data":"AA"}}`,
		"unknown": `{"t":"dance","x":[1,2,{"a":null}]}`, "no id": `{"t":"text","text":"x"}`,
	} {
		if !FastPath() {
			break
		}
		buffer := make([]byte, len(frame))
		require.Zero(t, testing.AllocsPerRun(100, func() {
			copy(buffer, frame)
			Decode(buffer, &in)
			if in.Kind == Deliver {
				in.CheckDeliver("")
			}
		}), name)
	}

	dst := make([]byte, 0, 256<<10)
	text := strings.Repeat("я\n\xff", 1000)
	data := make([]byte, 100_000)
	options := []Option{{"once", "Once", "primary"}, {"deny", "Deny", "danger"}}
	for name, encode := range map[string]func(){
		"ready": func() {
			AppendReady(dst, &Ready{DeviceID: "d", DeviceName: text, Resume: &ReadyResume{Session: "s", Seq: 7}})
		},
		"message": func() { AppendMessage(dst, &Message{ID: "1", Text: text, Total: 1, Seq: 1 << 60}) },
		"media":   func() { AppendMedia(dst, &MediaHead{ID: "1", Kind: MediaImage, Caption: text, Size: 1 << 20}, data) },
		"prompt": func() {
			AppendCard(dst, &Card{ID: "1", Kind: CardExecApproval, Text: text, Options: options, Command: "ls"})
		},
		"prompt_done": func() { AppendCardDone(dst, &CardDone{ID: "1", OptionID: "once"}) },
		"avatar":      func() { AppendAvatar(dst, AvatarThinking) },
		"typing":      func() { AppendTyping(dst, true) },
		"pong":        func() { AppendPong(dst, "17") },
		"error":       func() { AppendError(dst, &ErrorFrame{Code: RateLimited, Message: text, ID: "1", RetryAfter: 1e9}) },
		"delivered":   func() { AppendDelivered(dst, "1", "d") },
		"accepted":    func() { AppendAccepted(dst, "1") },
	} {
		require.Zero(t, testing.AllocsPerRun(100, encode), name)
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct{ name, frame string }{
		{"text100B", small100}, {"padded64K", padded64}, {"audio1M", audio1M}, {"ping", `{"t":"ping","ts":1719400000123}`}, {"hello", hello1},
	} {
		b.Run(c.name, func(b *testing.B) {
			buffer := []byte(c.frame)
			var in In
			b.SetBytes(int64(len(buffer)))
			b.ReportAllocs()
			for b.Loop() {
				if Decode(buffer, &in) != nil {
					b.Fatal("the frame is good")
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	dst := make([]byte, 0, 8<<20)
	data := make([]byte, MediaChunkBytes)
	for _, c := range []struct {
		name   string
		encode func() []byte
	}{
		{"message100B", func() []byte {
			return AppendMessage(dst, &Message{ID: "m-000001", Text: small100, Total: 1, Final: true})
		}},
		{"cyrillic3500", func() []byte { return AppendMessage(dst, &Message{ID: "m", Text: cyrillic3500, Total: 1}) }},
		{"media3M", func() []byte { return AppendMedia(dst, &MediaHead{ID: "f", Kind: MediaVideo}, data) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.SetBytes(int64(len(c.encode())))
			}
		})
	}
}

var cyrillic3500 = strings.Repeat("слово\n ", 500)
