//go:build amd64 && !stdjson && !go1.28

package codec

import (
	"reflect"

	"github.com/bytedance/sonic"
	"github.com/bytedance/sonic/decoder"
	"github.com/bytedance/sonic/utf8"
)

// parser is sonic's decoder itself: sonic.UnmarshalFromString makes one for every call, this one lives in In.
type parser struct{ dec decoder.Decoder }

// Names are compared exactly, and control characters inside strings are errors, as in RFC 8259. Sonic's other options
// would loosen the rules or copy.
const options = decoder.OptionCaseSensitive | decoder.OptionValidateString

// parse reads the JSON object s into dst, a pointer to fields or members, which then borrow from s. All escapes in s are known
// to be well formed, since sonic lets "\ud83d\uZZZZ" pass. Its errors hold input, so only whether there was one is returned.
func (p *parser) parse(s string, dst any) bool {
	p.dec.Reset(s)
	p.dec.SetOptions(options)
	return p.dec.Decode(dst) == nil && p.dec.CheckTrailings() == nil
}

func validUTF8(s string) bool { return utf8.ValidateString(s) }

func compile() {
	// An error costs no more than the time to compile at the first frame.
	_ = decoder.PretouchMany([]reflect.Type{reflect.TypeFor[fields](), reflect.TypeFor[members]()})
}

// FastPath reports whether frames are parsed by sonic's compiled code, and not by encoding/json. It is so on amd64 up to Go 1.27;
// what sonic has for arm64 copies, and takes control characters in names.
func FastPath() bool { return sonic.APIKind == sonic.UseSonicJSON }
