package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const marker = "MARKER-5e1f"

// oracle reads a message as encoding/json does: every field by its exact name, the last one of a repeated name.
func oracle(b []byte) (m map[string]json.RawMessage, ok bool) {
	ok = utf8.Valid(b) && json.Unmarshal(b, &m) == nil && m != nil
	return m, ok
}

// nesting is how deep b goes at most; parsers differ from 4 096 on.
func nesting(b []byte) int { return bytes.Count(b, []byte("[")) + bytes.Count(b, []byte("{")) }

// str is a JSON string, and "" for all else.
func str(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// checkDecode holds one message against the oracle.
func checkDecode(t *testing.T, b []byte) {
	var fresh In
	fault := Decode(bytes.Clone(b), &fresh)

	dirty := filled(t)
	require.Equal(t, fault, Decode(bytes.Clone(b), dirty))
	require.Equal(t, plain(&fresh), plain(dirty), "a used In keeps something")

	m, valid := oracle(b)
	parseFaults := []*Fault{empty, notUTF8, notObject, notJSON}
	require.Equal(t, valid, !slices.Contains(parseFaults, fault), "%q: %v", b, fault)
	if fault != nil && bytes.Contains(b, []byte(marker)) {
		require.NotContains(t, fault.Error(), marker)
	}
	if !valid {
		return
	}
	require.Equal(t, CutChars(str(m["id"]), MaxIDChars), fresh.ID)
	require.Equal(t, kindOf(str(m["t"])), fresh.Kind)
	if fault != nil {
		return
	}
	switch fresh.Kind {
	case Text:
		require.Equal(t, str(m["text"]), fresh.Text)
	case Audio:
		require.Equal(t, str(m["text"]), fresh.Text)
		require.Equal(t, str(m["data"]), fresh.Data)
	case Media:
		require.Equal(t, str(m["caption"]), fresh.Caption)
		require.Equal(t, shortMime(str(m["mime"])), fresh.Mime)
	case Prompt:
		require.Equal(t, CutChars(str(m["option_id"]), MaxIDChars), fresh.OptionID)
		require.Equal(t, str(m["text"]), fresh.Text)
	case Ping:
		if ts := string(m["ts"]); ts != "null" {
			require.Equal(t, ts, fresh.TS)
		}
	case Hello:
		require.Equal(t, str(m["token"]), fresh.Token)
		device, _ := oracle(m["device"])
		require.Equal(t, CutChars(str(device["platform"]), MaxDeviceChars), fresh.Device.Platform)
	case Deliver:
		fault := fresh.CheckDeliver("home")
		require.Equal(t, fault, dirty.CheckDeliver("home"))
		require.Equal(t, plain(&fresh), plain(dirty))
		if fault == nil && fresh.HasAttachment {
			media, _ := oracle(m["media"])
			require.Equal(t, str(media["data"]), fresh.Attachment.Data)
		}
	}
}

// filled is an In in which an earlier frame of every kind left what it could.
func filled(t *testing.T) *In {
	in := new(In)
	require.Nil(t, Decode([]byte(`{"t":"deliver","id":"old","target":"old","text":"old","media":{"kind":"image","mime":"old","filename":"old","data":"old"}}`), in))
	require.Nil(t, in.CheckDeliver(""))
	in.Token, in.Device, in.User = "old", DeviceInfo{"old", "old", "old", "old"}, UserInfo{"old", "old"}
	in.Resume, in.HasResume, in.Format, in.Data, in.Seq = Resume{"old", 9}, true, "old", "old", 9
	in.MediaKind, in.Mime, in.Filename, in.Caption, in.Part, in.Parts = "old", "old", "old", "old", 9, 9
	in.PromptID, in.OptionID, in.TS = "old", "old", "old"
	return in
}

// seeds are messages from which random ones are made.
var seeds = []string{
	``, `null`, `[1]`, `{}`, `{"t":"ping","ts":{"a":[1,-0.5e+10,true,null,"` + marker + `"]}}`,
	`{"t":"text","id":"1","text":"` + marker + `"}`, `{"\u0074":"TEXT","i\u0064":"\ud83d\ude00\ud83d","text":"a\n\"\\\/\u0000"}`,
	`{"t":"audio","id":"1","format":"wav","data":"A\/A=","text":"x"}`, `{"t":"audio","id":"1","format":"` + marker + `"}`,
	`{"t":"media","id":"1","kind":"image","mime":"a/b","filename":"../` + marker + `","caption":"c","data":"AA==","part":1,"parts":2}`,
	`{"t":"hello","token":"` + marker + `","device":{"id":"a\u0001","name":"n","platform":"p","app_version":"1"},"user":{"id":"u","name":"n"},"resume":{"session":"s","seq":3}}`,
	`{"t":"prompt","prompt_id":"c","option_id":"once","text":null}`, `{"t":"ack","id":"1","seq":5}`, `{"t":"typing","id":5}`,
	`{"t":"deliver","id":"1","target":"mobile:a","text":"x","media":{"kind":"voice","data":"AA","data":"A\u0041"}}`,
	`{"t":"text","id":"1","text":["` + marker + `"],"text":null}`, `{"t":"text","T":"ping","id":"1","ID":"2","text":"é` + "\u2028\x7f" + `"}`,
}

// Random messages: pieces of valid ones, of JSON, and of what some parsers let pass, put together and broken.
func TestDecodeRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	tokens := []string{
		`{`, `}`, `[`, `]`, `:`, `,`, ` `, "\n", `"t"`, `"text"`, `"id"`, `"ts"`, `"ping"`, `"\u0074"`, `"x"`, `"\q"`, `"\ud83d"`, `""`, `1`, `01`, `-`, `1.0`,
		`1e2`, `NaN`, `null`, `true`, `nul`, `//`, `'`, "\x00", "\xff", "\xc0\x80", "\u00a0", `\`, `"`, `{"a":1}`, `[]`,
	}
	valid := 0
	for range 8_000 {
		b := []byte(seeds[rnd.IntN(len(seeds))])
		for range rnd.IntN(4) {
			from := rnd.IntN(len(b) + 1)
			to := min(len(b), from+rnd.IntN(3))
			b = slices.Concat(b[:from], []byte(tokens[rnd.IntN(len(tokens))]), b[to:])
		}
		if _, ok := oracle(b); ok {
			valid++
		}
		checkDecode(t, b)
	}
	require.Greater(t, valid, 800)
}

// Random valid objects are always accepted as JSON, with white space and escapes anywhere.
func TestDecodeRandomObjects(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	names := []string{"t", "id", "text", "data", "kind", "part", "device", "media", "ts", "T", "", "\n", "é", marker}
	escaped := func(s string) string {
		var out strings.Builder
		for _, r := range s {
			if r < 0x10000 && rnd.IntN(4) == 0 || r < ' ' {
				fmt.Fprintf(&out, `\u%04x`, r)
			} else {
				out.WriteRune(r)
			}
		}
		return `"` + out.String() + `"`
	}
	space := func() string { return x(rnd.IntN(2), " ") + x(rnd.IntN(2), "\n") }
	var value func(depth int) string
	object := func(depth int) string {
		var members []string
		for range rnd.IntN(5) {
			members = append(members, space()+escaped(names[rnd.IntN(len(names))])+space()+":"+space()+value(depth+1)+space())
		}
		if depth == 0 {
			kind := Kind(rnd.IntN(int(Deliver) + 1)).String()
			members = append(members, escaped("t")+":"+escaped(kind), escaped("id")+":"+escaped("я1"), escaped("text")+":"+value(9))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	value = func(depth int) string {
		switch n := rnd.IntN(10); {
		case n < 2 && depth < 4:
			return object(depth)
		case n == 2 && depth < 4:
			return "[" + value(depth+1) + space() + "," + value(depth+1) + "]"
		case n < 7:
			return escaped(names[rnd.IntN(len(names))])
		}
		return []string{"0", "-0", "1.5e-7", "true", "null", "12345678901234567890"}[rnd.IntN(6)]
	}
	for range 4_000 {
		b := []byte(space() + object(0) + space())
		_, ok := oracle(b)
		require.True(t, ok, "%s", b)
		checkDecode(t, b)
	}
}

// FuzzDecode: no message makes Decode panic or differ from encoding/json in what is JSON.
func FuzzDecode(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if nesting(b) < 4000 {
			checkDecode(t, b)
		}
	})
}

// What an In holds lies in the buffer it was decoded from, or nowhere else that a later frame could write to.
func TestDecodeBorrowsFromItsBufferOnly(t *testing.T) {
	first, _ := decode(seeds[6])
	require.Equal(t, "a\n\"\\/\x00", first.Text)
	hello, fault := decode(`{"t":"hello","token":"a\u0062c","device":{"id":"\u0061","name":"b\tc"}}`)
	require.Nil(t, fault)
	for range 100 {
		for _, seed := range seeds {
			decode(strings.ReplaceAll(seed, "1", "\\u0032"))
		}
	}
	require.Equal(t, "a\n\"\\/\x00", first.Text)
	require.Equal(t, "😀\ufffd", first.ID)
	require.Equal(t, "abc", hello.Token)
	require.Equal(t, DeviceInfo{ID: "a", Name: "bc"}, hello.Device)

	buffer := []byte(`{"t":"text","id":"1","text":"mine"}`)
	var in In
	require.Nil(t, Decode(buffer, &in))
	clear(buffer)
	require.Equal(t, FastPath(), in.Text == "\x00\x00\x00\x00", "borrowed on the fast path, else copied")
	in.Reset()
	require.Equal(t, In{}, in)
}

// Many goroutines decode their first frames at once, in a process that has compiled nothing yet, while others call Warm.
func TestConcurrentFirstDecode(t *testing.T) {
	const child = "CODEC_FIRST_DECODE"
	if os.Getenv(child) == "" {
		for range 3 {
			cmd := exec.Command(os.Args[0], "-test.run=^TestConcurrentFirstDecode$", "-test.count=1")
			cmd.Env = append(os.Environ(), child+"=1")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		return
	}
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range 32 {
		done.Go(func() {
			start.Wait()
			if i%8 == 0 {
				Warm()
			}
			for j := range 200 {
				checkDecode(t, []byte(seeds[(i+j)%len(seeds)]))
			}
		})
	}
	start.Done()
	done.Wait()
}
