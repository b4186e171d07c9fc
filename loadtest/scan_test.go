package loadtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var frames = []string{
	`{"t":"ready","v":1,"session":"mobile:tel-1","device":{"id":"tel-1","name":"Phone"},"capabilities":{"text":true,"media_in":["image",[]],"n":-1.5e+3}}`,
	`{"t":"message","id":"m1","text":"a \"b\" ф \u0444 \\","chunk":{"index":0,"total":2},"final":false}`,
	` { "final" : true , "chunk" : { "total" : 1 , "index" : 0 } , "edit":true, "text" : "x" , "t" : "message" } `,
	`{"t":"media","id":"x","kind":"voice","mime":"audio/wav","filename":"voice.wav","caption":"c","part":1,"parts":3,"final":true,"size":70,"reply_to":"m","data":"AA=="}`,
	`{"t":"error","code":"too_big","message":"no","fatal":true,"id":"m2"}`,
	`{"t":"typing","stop":true}`, `{"t":"avatar","state":"idle"}`, `{}`,
	`{"t":1,"id":null,"text":[],"chunk":7,"device":"x","final":"true","part":-1,"size":1.5}`,
	`{"t":"a","t":"b"}`,
}

func TestScan(t *testing.T) {
	var h heard
	require.NoError(t, h.scan([]byte(frames[0])))
	require.Equal(t, `"mobile:tel-1" "tel-1" "ready"`, strings.Join([]string{string(h.session), string(h.deviceID), string(h.t)}, " "))
	require.NoError(t, h.scan([]byte(frames[1])))
	text, ok := unquote(h.text)
	require.True(t, ok)
	require.Equal(t, "a \"b\" ф ф \\", string(text))
	require.Equal(t, []any{false, false}, []any{h.final, h.edit})
	require.NoError(t, h.scan([]byte(frames[2])))
	require.Equal(t, []any{true, true}, []any{h.final, h.edit})
	require.NoError(t, h.scan([]byte(frames[3])))
	require.Equal(t, []any{1, 70, `"voice" "m" "AA=="`}, []any{h.part, h.size, strings.Join([]string{string(h.kind), string(h.replyTo), string(h.data)}, " ")})
	require.NoError(t, h.scan([]byte(frames[8])))
	require.Equal(t, []any{"1", -1, -1, false}, []any{string(h.t), h.part, h.size, h.final})
	require.NoError(t, h.scan([]byte(frames[9])))
	require.Equal(t, `"b"`, string(h.t))
}

// FuzzScan: what is a JSON object for the standard library is one here, and nothing else; but for depth.
func FuzzScan(f *testing.F) {
	for _, x := range frames {
		f.Add([]byte(x))
		f.Add([]byte(x[:len(x)-1]))
		f.Add([]byte(x + ","))
	}
	for _, x := range []string{`[]`, `{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":tru}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, "{\"a\":\"\n\"}", `{"a":1,}`, `{,}`, `{"a"}`, `{"a":1 2}`, `{"chunk":{"index":1,}}`, `{"a":[1,]}`} {
		f.Add([]byte(x))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h heard
		got := h.scan(b) == nil
		want := json.Valid(b) && len(b) > 0 && strings.TrimLeft(string(b), " \t\r\n")[0] == '{'
		if depth := strings.Count(string(b), "[") + strings.Count(string(b), "{"); depth < maxDepth {
			require.Equal(t, want, got, "%q", b)
		} else if got {
			require.True(t, want)
		}
		if !got {
			return
		}
		for _, quoted := range [][]byte{h.text, h.id, h.t} {
			if text, ok := unquote(quoted); ok {
				var s string
				require.NoError(t, json.Unmarshal(quoted, &s))
				if strings.ToValidUTF8(string(quoted), "") == string(quoted) {
					require.Equal(t, s, string(text))
				}
			}
		}
	})
}

func TestScanAllocations(t *testing.T) {
	var h heard
	for _, x := range frames {
		b := []byte(x)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if h.scan(b) != nil {
				panic("good frames are taken")
			}
		}))
	}
}

func TestPrintable(t *testing.T) {
	require.Equal(t, `slow\x1b[31m`, printable("slow\x1b[31m"))
	require.Len(t, printable(strings.Repeat("x", 100)), 60)
}
