package bench

import (
	"testing"

	"mobilegate/codec"
)

// BenchmarkEncode: what the gateway says is appended to a buffer. TestAllocations of codec holds it to no allocation.
func BenchmarkEncode(b *testing.B) {
	ready := codec.Ready{DeviceID: "00000000-0000-4000-8000-000000000000", DeviceName: "Phone"}
	message := codec.Message{ID: "r-000001", Text: said, Total: 1, Final: true}
	head := codec.MediaHead{ID: "r-000001", Kind: codec.MediaVoice, Mime: "audio/ogg", Filename: "voice.ogg", Parts: 1, Final: true, Size: 1 << 20}
	for name, encode := range map[string]func(dst []byte) []byte{
		"ready":   func(dst []byte) []byte { return codec.AppendReady(dst, &ready) },
		"message": func(dst []byte) []byte { return codec.AppendMessage(dst, &message) },
		"media":   func(dst []byte) []byte { return codec.AppendMediaHead(dst, &head) },
		"pong":    func(dst []byte) []byte { return codec.AppendPong(dst, "1719400000123") },
		"turn": func(dst []byte) []byte { // all five frames of an echo turn
			dst = codec.AppendTyping(codec.AppendAvatar(dst, codec.AvatarThinking), false)
			dst = codec.AppendMessage(dst, &message)
			return codec.AppendTyping(codec.AppendAvatar(dst, codec.AvatarSpeaking), true)
		},
	} {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, 0, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				dst = encode(dst[:0])
			}
			b.SetBytes(int64(len(dst)))
		})
	}
}
