package media

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/segmentio/asm/base64"
)

// What may be wrong with one text of base64.
var (
	ErrBase64 = errors.New("media: this is not base64")
	ErrEmpty  = errors.New("media: there is no data")
	ErrTooBig = errors.New("media: the file is too big")
	ErrBudget = errors.New("media: the budget for all files is exhausted") // a later try may do
)

// Decode makes a File of one base64 text: the standard alphabet of RFC 4648, padding whole or left out, ASCII white space
// ignored anywhere. Bits of the last character that belong to no byte are not looked at. A fault of the text (ErrEmpty,
// ErrBase64) comes before its size: ErrTooBig is over most decoded bytes. data is not kept. Any goroutine may call it.
func Decode(data string, most int, budget *Budget) (*File, error) {
	return whole(&Part{Data: data}, most, budget)
}

// AppendBase64 appends src in base64 with padding.
func AppendBase64(dst, src []byte) []byte {
	n, text := len(dst), base64.StdEncoding.EncodedLen(len(src))
	dst = slices.Grow(dst, text)[:n+text]
	base64.StdEncoding.Encode(dst[n:], src)
	return dst
}

// decode appends what data stands for to list, as the pieces of part at, and takes their cost from the budget. After an error
// list and budget are as before.
//
// A text without white space is decoded straight away, one slab after the other. Any other is read once to learn its size, so
// that nothing is reserved for its white space, and only then decoded.
func decode(list []piece, at int, data string, most int, budget *Budget) (_ []piece, size int, err error) {
	data = strings.TrimRight(data, space)
	if data == "" {
		return list, 0, ErrEmpty
	}
	if text, ok := unpad(data); ok && decodedLen(len(text)) <= most {
		size = decodedLen(len(text))
		list, err = fill(list, at, size, source{text: text}, budget)
		if err != ErrBase64 {
			return list, size, err
		}
	}
	if size, err = measure(data, false); err == nil && size > most {
		if _, err = measure(data, true); err == nil {
			err = ErrTooBig
		}
	}
	if err != nil {
		return list, 0, err
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	list, err = fill(list, at, size, source{data, s}, budget)
	return list, size, err
}

// fill appends size bytes of src to list.
func fill(list []piece, at, size int, src source, budget *Budget) ([]piece, error) {
	before, price := len(list), cost(size)
	if !budget.Take(price) {
		return list, ErrBudget
	}
	if list == nil {
		list = make([]piece, 0, pieces(size))
	}
	for rest := size; rest > 0; rest -= slabFill {
		p := newPiece(min(rest, slabFill), at)
		list = append(list, p)
		if !src.decode(p.b) {
			discard(list[before:])
			budget.Give(price)
			return list[:before], ErrBase64
		}
	}
	return list, nil
}

// unpad takes the padding off a text that ends in none or in the right one. It does not look at the rest of the text.
func unpad(text string) (string, bool) {
	n := len(text)
	for n > 0 && text[n-1] == '=' && len(text)-n < 2 {
		n--
	}
	if n == len(text) {
		return text, n%4 != 1
	}
	return text[:n], len(text)%4 == 0
}

// measure tells how many bytes text stands for. Its padding and length are checked, its alphabet only if verify.
func measure(text string, verify bool) (size int, err error) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	src, n := source{text, s}, 0
	for full := true; full; {
		chunk := src.next(len(s.text))
		if len(chunk)%4 == 1 || verify && !decodeRaw(s.bytes[:decodedLen(len(chunk))], chunk) {
			return 0, ErrBase64
		}
		n += len(chunk)
		full = len(chunk) == len(s.text)
	}
	padding := 0
	for i := range len(src.text) {
		switch class[src.text[i]] {
		case isPadding:
			padding++
		case isOther:
			return 0, ErrBase64
		}
	}
	if padding > 2 || padding > 0 && (n+padding)%4 != 0 {
		return 0, ErrBase64
	}
	return decodedLen(n), nil
}

const space = " \t\n\r\f\v" // what is ignored

const (
	isOther = iota
	isSpace
	isPadding
)

var class = [256]uint8{' ': isSpace, '\t': isSpace, '\n': isSpace, '\r': isSpace, '\f': isSpace, '\v': isSpace, '=': isPadding}

// scratch is where white space is taken out of a text, a few characters at a time.
type scratch struct {
	text  [4096]byte
	bytes [4096 / 4 * 3]byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// source is a text of base64 that is decoded from front to end. Without a scratch it has neither white space nor padding.
type source struct {
	text    string
	scratch *scratch
}

// decode fills dst with the next bytes. Except at the end of the text, len(dst) must be a multiple of three.
func (s *source) decode(dst []byte) bool {
	if s.scratch == nil {
		n := encodedLen(len(dst))
		chunk := bytesOf(s.text[:n])
		s.text = s.text[n:]
		return decodeRaw(dst, chunk)
	}
	for len(dst) > 0 {
		chunk := s.next(min(encodedLen(len(dst)), len(s.scratch.text)))
		n := decodedLen(len(chunk))
		if !decodeRaw(dst[:n], chunk) {
			return false
		}
		dst = dst[n:]
	}
	return true
}

// next gives the next n characters, fewer only at the padding or the end; they lie in the scratch until it is called again.
func (s *source) next(n int) []byte {
	src, dst := bytesOf(s.text), s.scratch.text[:n]
	i, n := 0, 0
	for i < len(src) && n < len(dst) {
		if len(src)-i >= 8 && len(dst)-n >= 8 { // up to the first of eight characters that is special
			word := binary.LittleEndian.Uint64(src[i:])
			binary.LittleEndian.PutUint64(dst[n:], word)
			found := special(word)
			if found == 0 {
				i, n = i+8, n+8
				continue
			}
			run := bits.TrailingZeros64(found) / 8
			i, n = i+run, n+run
		}
		c := src[i]
		if class[c] == isPadding {
			break
		}
		if class[c] == isOther {
			dst[n] = c
			n++
		}
		i++
	}
	s.text = s.text[i:]
	return dst[:n]
}

// special sets the top bit of the lowest byte of word that is a control character, a blank or padding, and maybe of some above it.
func special(word uint64) uint64 {
	const each = 0x0101010101010101
	padding := word ^ '='*each
	return ((word-('!')*each)&^word | (padding-each)&^padding) & (0x80 * each)
}

// bytesOf gives the bytes of s, which are only to be read.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// decodeRaw decodes the whole of src, which has no padding. dst must have just the room for it: the vector code writes without
// looking.
func decodeRaw(dst, src []byte) bool {
	if len(dst) != decodedLen(len(src)) {
		return false
	}
	n, err := base64.RawStdEncoding.Decode(dst, src)
	return err == nil && n == len(dst) // it passes over line ends, and then n is less
}

// decodedLen is the number of bytes that so many characters without padding stand for, and encodedLen the reverse.
func decodedLen(chars int) int { return chars/4*3 + chars%4*6/8 }
func encodedLen(bytes int) int { return (bytes*8 + 5) / 6 }
