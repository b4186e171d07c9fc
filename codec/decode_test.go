package codec

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// decode reads a frame from a buffer of its own.
func decode(frame string) (*In, *Fault) {
	in := new(In)
	fault := Decode([]byte(frame), in)
	return in, fault
}

// plain is what a caller can see of in.
func plain(in *In) In {
	p := *in
	p.raw, p.members, p.parser = fields{}, members{}, parser{}
	return p
}

// x is s, n times.
func x(n int, s string) string { return strings.Repeat(s, n) }

func nested(n int) string { return `{"t":"ping","x":` + x(n, "[") + x(n, "]") + `}` }

// messages are the rules of spec 2 for a message as a whole: what is wrong with it; nil is a good ping.
var messages = map[string]*Fault{
	``:                                empty,
	" \t\r\n":                         empty,
	`null`:                            notObject,
	` null `:                          notObject,
	`[]`:                              notObject,
	`[{"t":1}]`:                       notObject,
	`"ping"`:                          notObject,
	`5`:                               notObject,
	`hello`:                           notObject,
	"\ufeff{}":                        notObject,
	"\xff":                            notUTF8,
	"{\"t\":\"ping\",\"x\":\"\xff\"}": notUTF8,
	"{\"t\":\"ping\",\"x\":\"\xed\xa0\x80\"}":     notUTF8,
	"{\"t\":\"ping\",\"x\":\"\xc0\x80\"}":         notUTF8,
	"{\"t\":\"ping\",\"x\":\"\xf4\x90\x80\x80\"}": notUTF8,
	"{\"t\":\"ping\",\"x\":\"\xe2\x82\"}":         notUTF8,
	`{`:                                           notJSON,
	`{"t"`:                                        notJSON,
	`{"t":`:                                       notJSON,
	`{"t":"ping"`:                                 notJSON,
	`{"t":"ping",}`:                               notJSON,
	`{,"t":"ping"}`:                               notJSON,
	`{"t":"ping"}}`:                               notJSON,
	`{"t":"ping"}]`:                               notJSON,
	`{"t":"ping"}{"t":"ping"}`:                    notJSON,
	`{"t":"ping"} // done`:                        notJSON,
	`{"t":"ping"/**/}`:                            notJSON,
	"{\"t\":\"ping\"}\x00":                        notJSON,
	"{\"t\":\"ping\"}\u00a0":                      notJSON,
	"{\"t\":\"ping\"\f}":                          notJSON,
	`{'t':'ping'}`:                                notJSON,
	`{t:"ping"}`:                                  notJSON,
	`{"t" "ping"}`:                                notJSON,
	`{"t":"ping" "x":1}`:                          notJSON,
	`{"t":"ping","x"}`:                            notJSON,
	`{"t":"ping","x":NaN}`:                        notJSON,
	`{"t":"ping","ts":NaN}`:                       notJSON,
	`{"t":"ping","x":-Infinity}`:                  notJSON,
	`{"t":"ping","x":01}`:                         notJSON,
	`{"t":"ping","ts":01}`:                        notJSON,
	`{"t":"ping","x":-}`:                          notJSON,
	`{"t":"ping","x":+1}`:                         notJSON,
	`{"t":"ping","x":.5}`:                         notJSON,
	`{"t":"ping","x":1.}`:                         notJSON,
	`{"t":"ping","x":1e}`:                         notJSON,
	`{"t":"ping","x":0x1}`:                        notJSON,
	`{"t":"ping","x":tru}`:                        notJSON,
	`{"t":"ping","x":truex}`:                      notJSON,
	`{"t":"ping","ts":nullx}`:                     notJSON,
	`{"t":"ping","x":[1,]}`:                       notJSON,
	`{"t":"ping","x":[1 2]}`:                      notJSON,
	`{"t":"ping","x":{"a":1,}}`:                   notJSON,
	`{"t":"ping","x":{a:1}}`:                      notJSON,
	`{"t":"ping","x":"\q"}`:                       notJSON,
	`{"t":"ping","ts":"\q"}`:                      notJSON,
	`{"t":"ping","\q":1}`:                         notJSON,
	`{"t":"ping","x":{"y":"\q"}}`:                 notJSON,
	`{"t":"ping","x":"\u12g4"}`:                   notJSON,
	`{"t":"ping","x":"\ud83d\uZZZZ"}`:             notJSON,
	`{"t":"ping","ts":"\ud83d\ud"}`:               notJSON,
	`{"t":"ping","\ud83d\u00g0":1}`:               notJSON,
	`{"t":"ping","x":"\ud83d\q"}`:                 notJSON,
	`{"t":"ping","x":"\`:                          notJSON,
	`{"t":"ping"\}`:                               notJSON,
	`{"t":"ping","x":"\u12"}`:                     notJSON,
	`{"t":"ping","x":"abc}`:                       notJSON,
	`{"t":"ping","x":"abc\"}`:                     notJSON,
	"{\"t\":\"ping\",\"x\":\"a\nb\"}":             notJSON,
	"{\"t\":\"ping\",\"ts\":\"a\x01b\"}":          notJSON,
	"{\"t\":\"ping\",\"a\x1fb\":1}":               notJSON,
	"{\"t\":\"ping\",\"x\":[\"\t\"]}":             notJSON,
	nested(100_000):                               notJSON,

	"\t\r\n {\"t\":\"ping\"} \n":            nil,
	"{\"t\":\"ping\",\"x\":\"\x7f\u2028\"}": nil,
	`{"t":"ping","x":-0.5e+10}`:             nil,
	`{"t":"ping","x":"\ud83d"}`:             nil,
	`{"t":"ping","\ud83d":1}`:               nil,
	nested(512):                             nil,
	`{"t":"ping","ts":` + x(511, `{"a":`) + "1" + x(511, "}") + `}`: nil,
}

func TestMessage(t *testing.T) {
	for frame, want := range messages {
		in, fault := decode(frame)
		name := fmt.Sprintf("%.80q", frame)
		require.Equal(t, want, fault, name)
		if want == nil {
			require.Equal(t, Ping, in.Kind, name)
		} else {
			require.Equal(t, In{}, plain(in), name)
		}
	}
}

func TestType(t *testing.T) {
	for _, c := range []struct {
		frame string
		kind  Kind
		fault *Fault
	}{
		{`{}`, Unknown, missingType},
		{`{"t":""}`, Unknown, missingType},
		{`{"t":null}`, Unknown, missingType},
		{`{"t":"ping","t":null}`, Unknown, missingType},
		{`{"T":"ping"}`, Unknown, missingType},
		{`{"t":5}`, Unknown, wrongType},
		{`{"t":["ping"]}`, Unknown, wrongType},
		{`{"t":{"t":"ping"}}`, Unknown, wrongType},
		{`{"t":true}`, Unknown, wrongType},
		{`{"t":"ping"}`, Ping, nil},
		{`{"t":"PiNG"}`, Ping, nil},
		{`{"\u0074":"p\u0069\u006Eg"}`, Ping, nil},
		{`{"t":"dance","t":"ping"}`, Ping, nil},
		{`{"t":7,"t":"TYPING"}`, Typing, nil},
		{`{"t":"ack"}`, Ack, nil},
		{`{"t":"ac` + "\u212a" + `"}`, Unknown, nil}, // the Kelvin sign is no k
		{`{"t":" ping"}`, Unknown, nil},
		{`{"t":"pings"}`, Unknown, nil},
		{`{"t":"ready"}`, Unknown, nil},
		{`{"t":"unknown"}`, Unknown, nil},
		{`{"t":"` + x(5000, "p") + `"}`, Unknown, nil},
		{`{"t":"dance","id":5,"text":[],"part":"x","device":1,"media":2}`, Unknown, nil}, // types only for a known t
		{`{"v":[1],"t":"typing","id":5,"text":[]}`, Typing, nil},                         // not fields of this frame
		{`{"t":"ping","id":{},"text":[]}`, Ping, nil},
		{`{"t":"text","id":"1","text":"a","data":5,"V":1,"v":"x","token":[]}`, Text, nil},
	} {
		in, fault := decode(c.frame)
		require.Equal(t, c.fault, fault, c.frame)
		require.Equal(t, c.kind, in.Kind, c.frame)
	}
}

func TestKindNames(t *testing.T) {
	for k := Hello; k <= Deliver; k++ {
		require.Equal(t, k, kindOf(k.String()))
		require.Equal(t, k, kindOf(strings.ToUpper(k.String())))
	}
	require.Equal(t, "unknown", Unknown.String())
	require.Equal(t, "unknown", Kind(200).String())
}

// The error frame carries the id of the frame at fault.
func TestIDOfFrameAtFault(t *testing.T) {
	for frame, id := range map[string]string{
		`{"id":"x1"}`:                                          "x1",
		`{"t":5,"id":"x1"}`:                                    "x1",
		`{"t":"text","id":"x1"}`:                               "x1",
		`{"t":"text","text":["hi"],"id":"x1"}`:                 "x1",
		`{"t":"text","id":"x1","id":"x2"}`:                     "x2",
		`{"t":"text","id":"x1","id":null}`:                     "",
		`{"t":"text","id":7,"text":"hi"}`:                      "",
		`{"t":"hello","id":"h","device":[]}`:                   "h",
		`{"t":"prompt","id":"p"}`:                              "p",
		`{"t":"text","\u0069d":"\u0031\n"}`:                    "1\n",
		`{"t":"text","id":"` + x(128, "i") + `TAIL"}`:          x(128, "i"),
		`{"t":"text","id":"` + x(127, "i") + `😀😀"}`:            x(127, "i") + "😀",
		`{"t":"text","id":"` + x(127, "i") + `\ud83d\ude00x"}`: x(127, "i") + "😀",
		`{"t":"text","id":"` + x(200, "я") + `"}`:              x(128, "я"),
	} {
		in, fault := decode(frame)
		require.NotNil(t, fault, frame)
		require.Equal(t, BadFrame, fault.Code, frame)
		require.Equal(t, id, in.ID, frame)
	}
}

// Every field that a frame knows: null is absent, another type is bad_frame and names the field, and the type is looked at before the rest.
func TestWrongTypes(t *testing.T) {
	all := []string{`5`, `"s"`, `true`, `false`, `[]`, `["s"]`, `{}`, `1.0`, `1e2`, `-1`, `18446744073709551616`}
	takes := map[string]string{
		"string":  `"s"`,
		"object":  `{}`,
		"integer": `5 -1 18446744073709551616`, // what is out of range is another fault
		"natural": `5`,
	}
	for _, c := range []struct{ kind, field, want string }{
		{"hello", "token", "string"}, {"hello", "device", "object"}, {"hello", "user", "object"}, {"hello", "resume", "object"},
		{"hello", "device.id", "string"}, {"hello", "device.name", "string"}, {"hello", "device.platform", "string"},
		{"hello", "device.app_version", "string"}, {"hello", "user.id", "string"}, {"hello", "user.name", "string"},
		{"hello", "resume.session", "string"}, {"hello", "resume.seq", "natural"},
		{"text", "id", "string"}, {"text", "text", "string"},
		{"audio", "id", "string"}, {"audio", "format", "string"}, {"audio", "data", "string"}, {"audio", "text", "string"},
		{"media", "id", "string"}, {"media", "kind", "string"}, {"media", "mime", "string"}, {"media", "filename", "string"},
		{"media", "caption", "string"}, {"media", "data", "string"}, {"media", "part", "integer"}, {"media", "parts", "integer"},
		{"prompt", "prompt_id", "string"}, {"prompt", "option_id", "string"}, {"prompt", "text", "string"},
		{"ack", "id", "string"}, {"ack", "seq", "natural"},
		{"deliver", "id", "string"}, {"deliver", "target", "string"}, {"deliver", "text", "string"}, {"deliver", "media", "object"},
		{"deliver", "media.kind", "string"}, {"deliver", "media.mime", "string"}, {"deliver", "media.filename", "string"},
		{"deliver", "media.data", "string"},
	} {
		for _, v := range append(all, "null") {
			name, inner, nested := strings.Cut(c.field, ".")
			member := fmt.Sprintf(`%q:%s`, name, v)
			if nested {
				member = fmt.Sprintf(`%q:{%q:%s}`, name, inner, v)
			}
			frame := fmt.Sprintf(`{"t":%q,%s}`, c.kind, member)
			in, fault := decode(frame)
			if c.kind == "deliver" {
				require.Nil(t, fault, frame)
				if c.field != "id" {
					in.ID = "1" // a missing id comes before the types
				}
				fault = in.CheckDeliver("home")
			}
			named := fault != nil && fault.Code == BadFrame && strings.HasPrefix(fault.Message, c.field+" must be a")
			right := v == "null" || strings.Contains(takes[c.want], v)
			require.Equal(t, !right, named, "%s: %v", frame, fault)
		}
	}
}

func TestFault(t *testing.T) {
	_, fault := decode(`{"t":"text","id":"1","text":"` + x(12_001, "a") + `"}`)
	require.ErrorIs(t, fault, TooBig)
	require.NotErrorIs(t, fault, BadFrame)
	require.Equal(t, "too_big: text is too long; it may have 12000 characters.", fault.Error())
	var code Code
	require.True(t, errors.As(fault, &code))
	require.Equal(t, "too_big", code.Error())
}

// No sentence and no error may hold what the device sent.
func TestFaultsHoldNoInput(t *testing.T) {
	values := []string{
		`"` + marker + `"`, `["` + marker + `"]`, `{"` + marker + `":"` + marker + `"}`, `"` + x(1500, marker) + `"`, "99.5", "-7", marker,
		`"\u0007` + marker + `"`, `{"id":["` + marker + `"]}`, `{"id":"` + marker + `\u0001"}`, `{"kind":"` + marker + `","data":"` + marker + `"}`,
	}
	names := []string{
		"t", "id", "token", "device", "user", "resume", "text", "format", "data", "kind", "mime", "filename", "caption", "part", "parts",
		"prompt_id", "option_id", "ts", "target", "media", "seq", marker,
	}
	faults := 0
	for k := Unknown; k <= Deliver; k++ {
		for _, name := range names {
			for _, v := range values {
				for _, base := range []string{`"id":"1"`, `"id":"1","text":"a","format":"wav","kind":"image","data":"AA","prompt_id":"p"`} {
					in, fault := decode(fmt.Sprintf(`{"t":%q,%s,%q:%s}`, k, base, name, v))
					if fault == nil && in.Kind == Deliver {
						fault = in.CheckDeliver("home")
					}
					if fault != nil {
						faults++
						require.NotContains(t, fault.Error(), marker)
						require.Regexp(t, `^[a-z].*\.$|^The .*\.$`, fault.Message)
					}
				}
			}
		}
	}
	require.Greater(t, faults, 500)
}
