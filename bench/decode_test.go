package bench

import (
	"fmt"
	"strings"
	"testing"

	"mobilegate/codec"
)

// hot are the frames of a device that a gateway reads all day, and the large ones. Each is a message as it left the engine:
// unmasked, in one piece.
func hot() map[string]string {
	return map[string]string{
		"hello": fmt.Sprintf(`{"t":"hello","token":%q,"device":{"id":"00000000-0000-4000-8000-000000000000","name":"Phone","platform":"android","app_version":"1.0.0"}}`, token),
		"text":  fmt.Sprintf(`{"t":"text","id":"6f9619ff-8b86-4d01-b42d-000000000001","text":%q}`, said),
		"long":  fmt.Sprintf(`{"t":"text","id":"6f9619ff-8b86-4d01-b42d-000000000001","text":"%s"}`, strings.Repeat("слово, ", 1500)),
		"ping":  `{"t":"ping","ts":1719400000123}`,
		"voice": fmt.Sprintf(`{"t":"audio","id":"6f9619ff-8b86-4d01-b42d-000000000001","format":"ogg","data":"%s"}`, encoded(voiceFrame/4*3)),
		"part": fmt.Sprintf(`{"t":"media","id":"6f9619ff-8b86-4d01-b42d-000000000001","kind":"document","filename":"plan.pdf","part":3,"parts":9,"data":"%s"}`,
			encoded(voiceFrame/4*3)),
	}
}

// BenchmarkDecode: a frame of a device becomes a codec.In, which decodes escapes where they stand: a frame that is read again
// and again has none. TestAllocations of codec holds it to no allocation.
func BenchmarkDecode(b *testing.B) {
	codec.Warm()
	for name, frame := range hot() {
		b.Run(name, func(b *testing.B) {
			buffer, in := []byte(frame), codec.In{}
			b.SetBytes(int64(len(buffer)))
			b.ReportAllocs()
			for b.Loop() {
				if fault := codec.Decode(buffer, &in); fault != nil {
					b.Fatal(fault)
				}
			}
		})
	}
}
