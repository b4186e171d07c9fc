package picture

import (
	"bytes"
	"encoding/binary"
)

// orientation returns how a camera was held when it took the JPEG in data, as Exif counts it: 1 (upright) to 8. Anything
// else is upright.
func orientation(data []byte) int {
	tiff := exif(data)
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.BigEndian
	if tiff[0] == 'I' {
		order = binary.LittleEndian
	}
	at := order.Uint32(tiff[4:]) // of the first directory: a count, then entries of tag, type, count, value
	if uint64(at)+2 > uint64(len(tiff)) {
		return 1
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			return 1
		}
		if order.Uint16(entries) == 0x0112 {
			if o := int(order.Uint16(entries[8:])); o >= 1 && o <= 8 {
				return o
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// exif finds the Exif data in the segments of a JPEG.
func exif(data []byte) []byte {
	if !bytes.HasPrefix(data, []byte{0xff, 0xd8}) {
		return nil
	}
	for data = data[2:]; len(data) >= 4 && data[0] == 0xff && data[1] != 0xda; { // the scan: no more metadata
		n := int(binary.BigEndian.Uint16(data[2:]))
		if n < 2 || 2+n > len(data) {
			return nil
		}
		if body, ok := bytes.CutPrefix(data[4:2+n], []byte("Exif\x00\x00")); ok && data[1] == 0xe1 {
			return body
		}
		data = data[2+n:]
	}
	return nil
}
