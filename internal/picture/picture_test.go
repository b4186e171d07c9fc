package picture

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
)

// webp is one pixel.
const webp = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"

// noise is a picture that no format makes small, in all colours.
func noise(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(r.Uint32())
	}
	return img
}

func encoded(t testing.TB, encode func(*bytes.Buffer) error) []byte {
	var b bytes.Buffer
	require.NoError(t, encode(&b))
	return b.Bytes()
}

func TestFitLeavesAloneWhatFits(t *testing.T) {
	img := noise(40, 30)
	one, err := base64.StdEncoding.DecodeString(webp)
	require.NoError(t, err)
	for mime, data := range map[string][]byte{
		"image/png":  encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, img) }),
		"image/jpeg": encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, img, nil) }),
		"image/gif":  encoded(t, func(b *bytes.Buffer) error { return gif.Encode(b, img, nil) }),
		"image/webp": one,
	} {
		fit, got, err := Fit(t.Context(), data, len(data))
		require.NoError(t, err, mime)
		require.Equal(t, mime, got)
		require.Equal(t, data, fit)
	}
}

func TestFitMakesAJPEG(t *testing.T) {
	img := noise(160, 120)
	for name, data := range map[string][]byte{
		"bmp":  encoded(t, func(b *bytes.Buffer) error { return bmp.Encode(b, img) }),
		"tiff": encoded(t, func(b *bytes.Buffer) error { return tiff.Encode(b, img, nil) }),
		"png":  encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, img) }),
		"gif":  encoded(t, func(b *bytes.Buffer) error { return gif.Encode(b, img, nil) }),
	} {
		for _, limit := range []int{12_000, 6_000, 3_500} {
			fit, mime, err := Fit(t.Context(), data, limit)
			require.NoError(t, err, name)
			require.Equal(t, "image/jpeg", mime)
			require.LessOrEqual(t, len(fit), limit)
			c, err := jpeg.DecodeConfig(bytes.NewReader(fit))
			require.NoError(t, err)
			require.InDelta(t, 4.0/3, float64(c.Width)/float64(c.Height), 0.05)
		}
		_, _, err := Fit(t.Context(), data, 200)
		require.Equal(t, ErrNoFit, err, name)
	}
}

func TestFitMakesSmall(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 2100, 100)) // transparent
	data := encoded(t, func(b *bytes.Buffer) error { return (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(b, img) })
	fit, _, err := Fit(t.Context(), data, 100_000)
	require.NoError(t, err)
	small, err := jpeg.Decode(bytes.NewReader(fit))
	require.NoError(t, err)
	require.Equal(t, image.Rect(0, 0, 2048, 98), small.Bounds())
	require.Equal(t, color.YCbCr{Y: 255, Cb: 128, Cr: 128}, small.At(1000, 50), "white shows through")
}

// A picture of four quarters is turned to what its orientation says, in either byte order.
func TestFitKeepsUpright(t *testing.T) {
	colours := []color.RGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 255, 255}}
	img := image.NewRGBA(image.Rect(0, 0, 64, 32))
	for y := range 32 {
		for x := range 64 {
			img.Set(x, y, colours[x/32+y/16*2])
		}
	}
	plain := encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, img, nil) })
	// The quarters from left to right and top to bottom, as the viewers of photographs show them.
	for i, want := range [][4]int{{0, 1, 2, 3}, {1, 0, 3, 2}, {3, 2, 1, 0}, {2, 3, 0, 1}, {0, 2, 1, 3}, {2, 0, 3, 1}, {3, 1, 2, 0}, {1, 3, 0, 2}} {
		for _, order := range []binary.AppendByteOrder{binary.BigEndian, binary.LittleEndian} {
			data := oriented(plain, order, uint16(i+1))
			require.Equal(t, i+1, orientation(data))
			got := upright(img, orientation(data), firstEdge)
			w, h := got.Rect.Dx(), got.Rect.Dy()
			require.Equal(t, i >= 4, w < h)
			for q, colour := range want {
				require.Equal(t, colours[colour], got.At(w/4+q%2*w/2, h/4+q/2*h/2), "orientation %d, quarter %d", i+1, q)
			}
		}
	}
	data := append(oriented(plain, binary.BigEndian, 6), make([]byte, 10_000)...) // too long, and lying
	fit, _, err := Fit(t.Context(), data, 10_000)
	require.NoError(t, err)
	c, err := jpeg.DecodeConfig(bytes.NewReader(fit))
	require.NoError(t, err)
	require.Equal(t, 32, c.Width)
	require.Equal(t, 64, c.Height)
}

// oriented puts Exif data into a JPEG.
func oriented(plain []byte, order binary.AppendByteOrder, o uint16) []byte {
	mark := map[bool]string{true: "MM", false: "II"}[order == binary.AppendByteOrder(binary.BigEndian)]
	tiff := order.AppendUint32(order.AppendUint16([]byte(mark), 42), 8)
	tiff = order.AppendUint16(tiff, 2)
	for _, e := range [][2]uint16{{0x0100, 7}, {0x0112, o}} {
		tiff = order.AppendUint32(order.AppendUint16(order.AppendUint16(tiff, e[0]), 3), 1)
		tiff = order.AppendUint16(order.AppendUint16(tiff, e[1]), 0)
	}
	body := append([]byte("Exif\x00\x00"), tiff...)
	out := append([]byte{}, plain[:2]...)
	out = append(out, 0xff, 0xe0, 0, 4, 1, 2) // another segment comes first
	out = append(out, 0xff, 0xe1)
	out = binary.BigEndian.AppendUint16(out, uint16(len(body)+2))
	return append(append(out, body...), plain[2:]...)
}

func FuzzOrientation(f *testing.F) {
	f.Add(oriented([]byte{0xff, 0xd8, 0xff, 0xd9}, binary.BigEndian, 6))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := orientation(data)
		require.True(t, o >= 1 && o <= 8)
	})
}

func TestFitRefuses(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing":  nil,
		"text":     []byte("no picture at all"),
		"no more":  encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, noise(10, 10)) })[:20],
		"no width": header(0, 10, 8),
	} {
		_, _, err := Fit(t.Context(), data, 1<<20)
		require.Equal(t, ErrFormat, err, name)
	}
	// The header says what decoding would cost; nothing of that size is ever made.
	for _, data := range [][]byte{header(8192, 8193, 8), header(8192, 4097, 16), header(40_000, 40_000, 8), header(1<<31-1, 1, 8), progressive(4230, 4231)} {
		_, _, err := Fit(t.Context(), data, 1<<20)
		require.Equal(t, ErrTooBig, err)
	}
	for _, data := range [][]byte{header(8192, 8192, 8), header(8192, 4096, 16), progressive(4230, 4230)} {
		_, _, err := Fit(t.Context(), append(data, make([]byte, 100)...), 100)
		require.Equal(t, ErrFormat, err, "of the greatest size, and broken behind its header")
	}
}

// progressive is the beginning of a JPEG that is decoded in several passes.
func progressive(w, h uint16) []byte {
	b := []byte{0xff, 0xd8, 0xff, 0xc2, 0, 17, 8}
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, h), w)
	return append(b, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 0xff, 0xda, 0, 2)
}

// header is the beginning of a PNG with so many bits a channel.
func header(w, h uint32, bits byte) []byte {
	b := []byte("IHDR")
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, w), h)
	b = append(b, bits, 6, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), b...)
}

func TestFitWaitsForItsTurn(t *testing.T) {
	data := encoded(t, func(b *bytes.Buffer) error { return bmp.Encode(b, noise(100, 100)) })
	gone := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	decoding <- struct{}{}
	_, _, err := Fit(ctx, data, 1<<20)
	require.Equal(t, gone, err)
	<-decoding
	_, _, err = Fit(t.Context(), data, 1<<20)
	require.NoError(t, err)
	require.Empty(t, decoding)
}

func BenchmarkFit(b *testing.B) { // a photograph of 12 megapixels
	img := image.NewYCbCr(image.Rect(0, 0, 4000, 3000), image.YCbCrSubsampleRatio420)
	for i := range img.Y {
		img.Y[i] = byte(i * i >> 12)
	}
	var photo bytes.Buffer
	require.NoError(b, jpeg.Encode(&photo, img, nil))
	b.ReportAllocs()
	for b.Loop() {
		_, _, err := Fit(b.Context(), photo.Bytes(), photo.Len()-1)
		require.NoError(b, err)
	}
}
