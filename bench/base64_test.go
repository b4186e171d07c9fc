package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mobilegate/media"
)

// BenchmarkBase64Decode: the data of a voice frame of 1 MiB becomes a file. TestAllocations of media holds it to three
// allocations.
func BenchmarkBase64Decode(b *testing.B) {
	data := string(encoded(voiceFrame / 4 * 3))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		f, err := media.Decode(data, 8<<20, nil)
		if err != nil {
			b.Fatal(err)
		}
		f.Release()
	}
}

// BenchmarkBase64Encode: a file leaves in pieces of 45 KiB.
func BenchmarkBase64Encode(b *testing.B) {
	raw := make([]byte, 45<<10)
	dst := media.AppendBase64(nil, raw)
	require.Len(b, dst, 60<<10)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		dst = media.AppendBase64(dst[:0], raw)
	}
}
