//go:build !amd64 || stdjson || go1.28

package codec

import (
	"encoding/json"
	"reflect"
	"unicode/utf8"
	"unsafe"
)

type parser struct{}

// parse reads the JSON object s into dst, a pointer to fields or members. A map keeps names exact, which a struct would not.
func (*parser) parse(s string, dst any) bool {
	var m map[string]json.RawMessage
	if json.Unmarshal(unsafe.Slice(unsafe.StringData(s), len(s)), &m) != nil {
		return false
	}
	to := reflect.ValueOf(dst).Elem()
	for i := range to.NumField() {
		if raw, ok := m[to.Type().Field(i).Tag.Get("json")]; ok {
			to.Field(i).SetString(unsafe.String(unsafe.SliceData(raw), len(raw)))
		}
	}
	return true
}

func validUTF8(s string) bool { return utf8.ValidString(s) }

func compile() {}

// FastPath reports whether frames are parsed by sonic's compiled code, and not by encoding/json.
func FastPath() bool { return false }
