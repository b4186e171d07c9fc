// Package picture makes pictures fit for those who take only some formats, up to some size.
package picture

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	_ "image/gif"
	"image/jpeg"
	_ "image/png"

	_ "golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	"golang.org/x/image/math/f64"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"
)

const (
	maxDecoded = 256 << 20 // bytes that a picture may take while it is decoded
	firstEdge  = 2048      // pixels of the longer side of a picture that is made smaller: models look at no more
	lastEdge   = 64        // what is too big even then stays so
	quality    = 85        // of JPEG
)

// What may be wrong with a picture.
var (
	ErrFormat = errors.New("no picture, or of an unknown format")
	ErrTooBig = errors.New("a picture of too many pixels")
	ErrNoFit  = errors.New("a picture that does not get small enough")
)

// decoding lets one picture at a time be worked on, for the memory it takes, and so that a crowd of them does not keep the
// event loops from a processor.
var decoding = make(chan struct{}, 1)

// Fit returns the picture in data as PNG, JPEG, GIF or WebP of at most limit bytes, and its MIME type: data itself if it is
// one, else a JPEG made of it (of its first frame, if it moves), smaller as need be. While others are decoded it waits for
// its turn, as long as ctx lasts.
func Fit(ctx context.Context, data []byte, limit int) (fit []byte, mime string, err error) {
	c, format, err := image.DecodeConfig(bytes.NewReader(data))
	switch {
	case err != nil || c.Width <= 0 || c.Height <= 0:
		return nil, "", ErrFormat
	case c.Width > maxDecoded/weight(c, format, data)/c.Height:
		return nil, "", ErrTooBig
	case len(data) <= limit && (format == "jpeg" || format == "png" || format == "gif" || format == "webp"):
		return data, "image/" + format, nil
	}
	select {
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	case decoding <- struct{}{}:
		defer func() { <-decoding }()
	}
	src, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, "", ErrFormat
	}
	img := upright(src, orientation(data), firstEdge)
	for ctx.Err() == nil {
		var b bytes.Buffer
		if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: quality}); err != nil {
			return nil, "", ErrFormat
		}
		if b.Len() <= limit {
			return b.Bytes(), "image/jpeg", nil
		}
		edge := max(img.Rect.Dx(), img.Rect.Dy()) * 3 / 4
		if edge < lastEdge {
			return nil, "", ErrNoFit
		}
		img = upright(img, 1, edge)
	}
	return nil, "", context.Cause(ctx)
}

// weight is what a pixel of a picture takes while it is decoded, in bytes.
func weight(c image.Config, format string, data []byte) int {
	switch {
	case format == "jpeg" && bytes.Contains(data, []byte{0xff, 0xc2}): // a progressive one: all coefficients are held
		return 15
	case c.ColorModel == color.RGBA64Model, c.ColorModel == color.NRGBA64Model, c.ColorModel == color.Gray16Model:
		return 8
	}
	return 4
}

// upright draws src on white, turned as its orientation says, so that neither side is longer than edge.
func upright(src image.Image, orientation, edge int) *image.RGBA {
	w, h := float64(src.Bounds().Dx()), float64(src.Bounds().Dy())
	m := f64.Aff3{1, 0, 0, 0, 1, 0} // from a point of src to where it goes
	switch orientation {
	case 2:
		m = f64.Aff3{-1, 0, w, 0, 1, 0}
	case 3:
		m = f64.Aff3{-1, 0, w, 0, -1, h}
	case 4:
		m = f64.Aff3{1, 0, 0, 0, -1, h}
	case 5:
		m = f64.Aff3{0, 1, 0, 1, 0, 0}
	case 6:
		m = f64.Aff3{0, -1, h, 1, 0, 0}
	case 7:
		m = f64.Aff3{0, -1, h, -1, 0, w}
	case 8:
		m = f64.Aff3{0, 1, 0, -1, 0, w}
	}
	scale := min(1, float64(edge)/max(w, h))
	x, y := float64(src.Bounds().Min.X), float64(src.Bounds().Min.Y)
	m[2] -= m[0]*x + m[1]*y
	m[5] -= m[3]*x + m[4]*y
	for i := range m {
		m[i] *= scale
	}
	if orientation >= 5 {
		w, h = h, w
	}
	dst := image.NewRGBA(image.Rect(0, 0, max(1, int(w*scale+0.5)), max(1, int(h*scale+0.5))))
	draw.Draw(dst, dst.Rect, image.White, image.Point{}, draw.Src)
	draw.BiLinear.Transform(dst, m, src, src.Bounds(), draw.Over, nil)
	return dst
}
