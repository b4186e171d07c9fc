package codec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// frameCase is a frame and what Decode makes of it: the fault, or all that a caller can see.
type frameCase struct {
	frame string
	fault *Fault
	want  In
}

func run(t *testing.T, cases []frameCase) {
	t.Helper()
	for _, c := range cases {
		in, fault := decode(c.frame)
		name := fmt.Sprintf("%.120s", c.frame)
		require.Equal(t, c.fault, fault, name)
		if fault == nil {
			require.Equal(t, c.want, plain(in), name)
		}
	}
}

func TestHello(t *testing.T) {
	long := x(119, "d") + "😀"
	run(t, []frameCase{
		{`{"t":"hello"}`, nil, In{Kind: Hello}},
		{`{"t":"HELLO","token":"s","device":null,"user":null,"resume":null}`, nil, In{Kind: Hello, Token: "s"}},
		{
			`{"t":"hello","token":"s\u0065cret","device":{"id":"tel-1","name":"Phone","platform":"android","app_version":"1.0.0"},"user":{"id":"u-1","name":"Ann"}}`,
			nil,
			In{
				Kind: Hello, Token: "secret", User: UserInfo{ID: "u-1", Name: "Ann"},
				Device: DeviceInfo{ID: "tel-1", Name: "Phone", Platform: "android", AppVersion: "1.0.0"},
			},
		},
		{`{"t":"hello","device":{"id":"a","name":"n"},"device":{"id":"b"}}`, nil, In{Kind: Hello, Device: DeviceInfo{ID: "b"}}}, // the last object as a whole
		{`{"t":"hello","device":{"id":"a","id":"b"}}`, nil, In{Kind: Hello, Device: DeviceInfo{ID: "b"}}},
		{`{"t":"hello","device":{"\u0069d":"a","ID":"b","token":"c"}}`, nil, In{Kind: Hello, Device: DeviceInfo{ID: "a"}}},
		{`{"t":"hello","device":{"id":"` + long + `TAIL"}}`, nil, In{Kind: Hello, Device: DeviceInfo{ID: long}}},
		{`{"t":"hello","device":{"id":"` + long + `\n"}}`, nil, In{Kind: Hello, Device: DeviceInfo{ID: long}}}, // cut, then looked at
		{`{"t":"hello","device":{"id":" a "}}`, nil, In{Kind: Hello, Device: DeviceInfo{ID: " a "}}},
		{`{"t":"hello","device":{"id":""}}`, nil, In{Kind: Hello}},
		{`{"t":"hello","device":{"id":" \u00a0\u2003\u3000\t"}}`, nil, In{Kind: Hello}},
		{`{"t":"hello","device":{"id":"` + x(120, " ") + `a"}}`, nil, In{Kind: Hello}},
		{`{"t":"hello","device":{"id":"a\n"}}`, controlDeviceID, In{}},
		{`{"t":"hello","device":{"id":"a\u0085b"}}`, controlDeviceID, In{}},
		{`{"t":"hello","device":{"id":"\u007f"}}`, controlDeviceID, In{}},
		{
			`{"t":"hello","device":{"name":"\u0000a\tb\u009f` + x(200, "n") + `","platform":"` + x(200, "p") + `","app_version":"` + x(200, "я") + `"},"user":{"id":"` + x(200, "u") + `","name":"\r` + x(200, "😀") + `"}}`,
			nil,
			In{
				Kind: Hello, User: UserInfo{ID: x(120, "u"), Name: x(120, "😀")},
				Device: DeviceInfo{Name: "ab" + x(118, "n"), Platform: x(120, "p"), AppVersion: x(120, "я")},
			},
		},
		{`{"t":"hello","resume":{}}`, nil, In{Kind: Hello, HasResume: true}},
		{`{"t":"hello","resume":{"session":"s","seq":18446744073709551615}}`, nil, In{Kind: Hello, HasResume: true, Resume: Resume{"s", 1<<64 - 1}}},
		{`{"t":"hello","resume":{"session":null,"seq":null}}`, nil, In{Kind: Hello, HasResume: true}},
		{`{"t":"hello","device":{"id":"a\n"},"user":5}`, wrongUser, In{}}, // types first
	})
}

func TestText(t *testing.T) {
	run(t, []frameCase{
		{`{"t":"text","id":"1","text":"hi"}`, nil, In{Kind: Text, ID: "1", Text: "hi"}},
		{`{"t":"TEXT","\u0069d":"\u0031","te\u0078t":"a\u0062c"}`, nil, In{Kind: Text, ID: "1", Text: "abc"}},
		{`{"t":"text","id":"1","text":"first","text":"last"}`, nil, In{Kind: Text, ID: "1", Text: "last"}},
		{`{"t":"text","id":"1","text":["x"],"text":"last"}`, nil, In{Kind: Text, ID: "1", Text: "last"}},
		{`{"t":"text","id":"1","text":"  \n two lines \n\n"}`, nil, In{Kind: Text, ID: "1", Text: "  \n two lines \n\n"}},
		{`{"t":"text","id":"1","text":"<b>&\"\\ \/ \b\f\n\r\t \u2028\u0000 end"}`, nil, In{Kind: Text, ID: "1", Text: "<b>&\"\\ / \b\f\n\r\t \u2028\x00 end"}},
		{`{"t":"text","id":"1","text":"\ud83d\ude00 \uD83D\uDE00 😀"}`, nil, In{Kind: Text, ID: "1", Text: "😀 😀 😀"}},
		{`{"t":"text","id":"1","text":"\ud83d|\ude00|\ud83d\ud83d\ude00|\ud83dA|\ud83d\n"}`, nil, In{Kind: Text, ID: "1", Text: "\ufffd|\ufffd|\ufffd😀|\ufffdA|\ufffd\n"}},
		{`{"t":"text","id":"1","text":"` + x(12_000, "😀") + `"}`, nil, In{Kind: Text, ID: "1", Text: x(12_000, "😀")}},
		{`{"t":"text","id":"\ud83d\ude00","text":"\ud83d"}`, nil, In{Kind: Text, ID: "😀", Text: "\ufffd"}},
		{`{"t":"text","id":" ","text":"x"}`, nil, In{Kind: Text, ID: " ", Text: "x"}},

		// In the order of the checks, the next fault in each frame too.
		{`{"t":"text","id":"","text":["x"]}`, wrongText, In{}},
		{`{"t":"text","text":"` + x(12_001, "a") + `"}`, missingID, In{}},
		{`{"t":"text","id":"","text":""}`, missingID, In{}},
		{`{"t":"text","id":null,"text":"hi"}`, missingID, In{}},
		{`{"t":"text","id":"1"}`, missingText, In{}},
		{`{"t":"text","id":"1","text":null}`, missingText, In{}},
		{`{"t":"text","id":"1","text":"x","text":null}`, missingText, In{}},
		{`{"t":"text","id":"1","text":" \t\r\n\u000b\u0085\u00a0\u1680\u2000\u2028\u3000"}`, missingText, In{}},
		{`{"t":"text","id":"1","text":"` + x(12_001, " ") + `"}`, missingText, In{}},
		{`{"t":"text","id":"1","text":"` + x(12_001, "a") + `"}`, longText, In{}},
		{`{"t":"text","id":"1","text":"` + x(12_001, `\ud83d\ude00`) + `"}`, longText, In{}},
		{`{"t":"text","id":"1","text":"\u200b"}`, nil, In{Kind: Text, ID: "1", Text: "\u200b"}}, // not White_Space
	})
}

func TestAudio(t *testing.T) {
	run(t, []frameCase{
		{`{"t":"audio","id":"1","format":"WaV","data":"AQID","text":"said"}`, nil, In{Kind: Audio, ID: "1", Format: "wav", Data: "AQID", Text: "said"}},
		{`{"t":"audio","id":"1","format":"OGG","data":"A\/\u002bA\n="}`, nil, In{Kind: Audio, ID: "1", Format: "ogg", Data: "A/+A\n="}},
		{`{"t":"audio","id":"1","format":"wav","data":"not*base64"}`, nil, In{Kind: Audio, ID: "1", Format: "wav", Data: "not*base64"}},

		{`{"t":"audio","id":1,"format":5}`, wrongID, In{}},
		{`{"t":"audio","format":"mp3"}`, missingID, In{}},
		{`{"t":"audio","id":"1"}`, missingFormat, In{}},
		{`{"t":"audio","id":"1","format":""}`, missingFormat, In{}},
		{`{"t":"audio","id":"1","format":"mp3"}`, unknownFormat, In{}},
		{`{"t":"audio","id":"1","format":"wav "}`, unknownFormat, In{}},
		{`{"t":"audio","id":"1","format":"wav","text":"` + x(12_001, "a") + `"}`, missingData, In{}},
		{`{"t":"audio","id":"1","format":"wav","data":""}`, missingData, In{}},
	})

	in, fault := decode(`{"t":"audio","id":"1","format":"wav","data":"AA","text":"` + x(12_000, "я") + `"}`)
	require.Nil(t, fault)
	require.Nil(t, in.CheckTranscript())
	in, fault = decode(`{"t":"audio","id":"1","format":"wav","data":"AA","text":"` + x(12_001, "я") + `"}`)
	require.Nil(t, fault, "the data is checked before the transcript")
	require.Equal(t, longText, in.CheckTranscript())
}

func TestMedia(t *testing.T) {
	ok := In{Kind: Media, ID: "1", MediaKind: "image", Parts: 1}
	with := func(change func(*In)) In {
		in := ok
		change(&in)
		return in
	}
	run(t, []frameCase{
		{`{"t":"media","id":"1","kind":"image"}`, nil, ok},
		{`{"t":"media","id":"1","kind":"image","mime":null,"filename":null,"caption":null,"data":null,"part":null,"parts":null}`, nil, ok},
		{`{"t":"media","id":"1","kind":"image","data":"AQID"}`, nil, with(func(in *In) { in.Data = "AQID" })},
		{
			`{"t":"media","id":"1","kind":"video","mime":"video\/mp4","filename":"a.mp4","caption":"see","data":"AQID","part":2047,"parts":2048}`, nil,
			In{Kind: Media, ID: "1", MediaKind: "video", Mime: "video/mp4", Filename: "a.mp4", Caption: "see", Data: "AQID", Part: 2047, Parts: 2048},
		},
		{`{"t":"media","id":"1","kind":"document","part":-0}`, nil, with(func(in *In) { in.MediaKind = "document" })},
		{`{"t":"media","id":"1","kind":"audio","caption":"` + x(12_000, "😀") + `"}`, nil, with(func(in *In) { in.MediaKind, in.Caption = "audio", x(12_000, "😀") })},

		{`{"t":"media","kind":"voice","part":1.0}`, partNoInteger, In{}},
		{`{"t":"media","kind":"voice"}`, missingID, In{}},
		{`{"t":"media","id":"1","kind":""}`, missingKind, In{}},
		{`{"t":"media","id":"1"}`, missingKind, In{}},
		{`{"t":"media","id":"1","kind":"voice"}`, unknownKind, In{}},
		{`{"t":"media","id":"1","kind":"Image"}`, unknownKind, In{}},
		{`{"t":"media","id":"1","kind":"hologram","caption":"` + x(12_001, "c") + `"}`, unknownKind, In{}},
		{`{"t":"media","id":"1","kind":"image","parts":0,"caption":"` + x(12_001, "c") + `"}`, longCaption, In{}},
		{`{"t":"media","id":"1","kind":"image","parts":0}`, wrongParts, In{}},
		{`{"t":"media","id":"1","kind":"image","parts":-3}`, wrongParts, In{}},
		{`{"t":"media","id":"1","kind":"image","parts":2049,"part":-1}`, wrongParts, In{}},
		{`{"t":"media","id":"1","kind":"image","parts":99999999999999999999}`, wrongParts, In{}},
		{`{"t":"media","id":"1","kind":"image","part":1}`, wrongPart, In{}},
		{`{"t":"media","id":"1","kind":"image","part":-1,"parts":2}`, wrongPart, In{}},
		{`{"t":"media","id":"1","kind":"image","part":2,"parts":2}`, wrongPart, In{}},
		{`{"t":"media","id":"1","kind":"image","part":4294967296,"parts":2}`, wrongPart, In{}},
		{`{"t":"media","id":"1","kind":"image","part":-99999999999999999999,"parts":2}`, wrongPart, In{}},
	})
}

func TestCleanFilename(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "",
		"plan.pdf":               "plan.pdf",
		"../../etc/passwd":       "passwd",
		`C:\dir\x.txt`:           "x.txt",
		`a/b\c/d.txt`:            "d.txt",
		"dir/":                   "",
		"a/..":                   "",
		"...hidden.txt":          "hidden.txt",
		"\x01..\u202e.x":         "x",
		".\u0000.a":              "a",
		"a\u202egnp.exe":         "agnp.exe",
		"\u200e\u200f\u061ca\n":  "a",
		"\u2066a\u2069\u0085b":   "ab",
		" a ":                    " a ",
		"я.." + x(250, "n"):      "я.." + x(197, "n"),
		"/" + x(199, "😀") + "ab": x(199, "😀") + "a",
		x(300, ".") + "end":      "end",
		"%2e%2e%2fx":             "%2e%2e%2fx",
	} {
		require.Equal(t, want, cleanFilename(name), "%q", name)
	}
}

func TestPrompt(t *testing.T) {
	run(t, []frameCase{
		{`{"t":"prompt","prompt_id":"c","option_id":"ONCE"}`, nil, In{Kind: Prompt, PromptID: "c", OptionID: "ONCE"}},
		{`{"t":"prompt","id":5,"prompt_id":"c","text":" "}`, nil, In{Kind: Prompt, PromptID: "c", Text: " "}},
		{`{"t":"prompt","prompt_id":"` + x(130, "я") + `","option_id":"","text":"x"}`, nil, In{Kind: Prompt, PromptID: x(128, "я"), Text: "x"}},
		{`{"t":"prompt","option_id":[]}`, wrongOptionID, In{}},
		{`{"t":"prompt"}`, missingPromptID, In{}},
		{`{"t":"prompt","prompt_id":"","option_id":"once"}`, missingPromptID, In{}},
		{`{"t":"prompt","prompt_id":"c"}`, missingAnswer, In{}},
		{`{"t":"prompt","prompt_id":"c","option_id":"","text":""}`, missingAnswer, In{}},
		{`{"t":"prompt","prompt_id":"c","option_id":"other","text":"` + x(12_001, "a") + `"}`, longText, In{}},
	})
}

func TestPing(t *testing.T) {
	run(t, []frameCase{
		{`{"t":"ping"}`, nil, In{Kind: Ping}},
		{`{"t":"ping","ts":null}`, nil, In{Kind: Ping}},
		{`{"t":"ping","ts":1,"ts":null}`, nil, In{Kind: Ping}},
		{`{"t":"ping","ts":1,"ts":2}`, nil, In{Kind: Ping, TS: "2"}},
		{`{"t":"ping","ts":"` + x(4094, "a") + `"}`, nil, In{Kind: Ping, TS: `"` + x(4094, "a") + `"`}},
		{`{"t":"ping","ts":"` + x(4095, "a") + `"}`, longTS, In{}},
		{`{"t":"ping","ts":[` + x(4095, " ") + `]}`, longTS, In{}},
	})
	for _, ts := range []string{`1719400000123`, `1.50e+1`, `-0`, `""`, `"a\u0062\/\ud83d"`, `false`, `[ 1 ,	true,null ]`, `{"a" : {"a":1,"a":2}}`, `"é😀"`} {
		in, fault := decode("{\"t\":\"ping\" , \"ts\" : \n" + ts + "\t}")
		require.Nil(t, fault)
		require.Equal(t, ts, in.TS)
	}
}

func TestAckAndTyping(t *testing.T) {
	run(t, []frameCase{
		{`{"t":"typing"}`, nil, In{Kind: Typing}},
		{`{"t":"ack"}`, nil, In{Kind: Ack}},
		{`{"t":"ack","id":"m-1"}`, nil, In{Kind: Ack, ID: "m-1"}},
		{`{"t":"ack","seq":17}`, nil, In{Kind: Ack, Seq: 17}},
		{`{"t":"ack","seq":null,"id":null}`, nil, In{Kind: Ack}},
	})
}

// Deliver is read in two steps, so that a wrong type does not come before the right to deliver.
func TestDeliver(t *testing.T) {
	for _, frame := range []string{
		`{"t":"deliver","id":"d","target":5,"text":[],"media":"x"}`,
		`{"t":"deliver","id":"d","text":"` + x(12_001, "a") + `"}`,
		`{"t":"deliver","id":"d"}`,
	} {
		in, fault := decode(frame)
		require.Nil(t, fault)
		require.Equal(t, In{Kind: Deliver, ID: "d"}, plain(in))
	}

	long := x(12_001, "a")
	for _, c := range []struct {
		fields, home string
		fault        *Fault
		want         In
	}{
		{`"id":"d","target":"mobile:tel","text":"hi"`, "", nil, In{Target: "tel", Text: "hi"}},
		{`"id":"d","target":"mobile:mobile:tel","text":" h\u0069 "`, "home", nil, In{Target: "mobile:tel", Text: " hi "}},
		{`"id":"d","target":"","text":"hi"`, "home", nil, In{Target: "home", Text: "hi"}},
		{`"id":"d","target":null,"text":"hi","media":null`, "mobile:home", nil, In{Target: "home", Text: "hi"}},
		{
			`"id":"d","text":" \n","media":{"kind":"audio","mime":"audio/ogg","filename":"../r.ogg","data":"A\/A="}`, "home", nil,
			In{Target: "home", HasAttachment: true, Attachment: Attachment{"voice", "audio/ogg", "r.ogg", "A/A="}},
		},
		{
			`"id":"d","media":{"kind":"image","data":"x","mime":"a/b"},"media":{"kind":"animation","data":"AA"}`, "home", nil,
			In{Target: "home", HasAttachment: true, Attachment: Attachment{Kind: "animation", Data: "AA"}},
		},

		{`"target":5`, "", missingID, In{}},
		{`"id":"","target":5`, "", missingID, In{}},
		{`"id":1,"target":5`, "", wrongID, In{}},
		{`"id":"d","target":5`, "", wrongTarget, In{}},
		{`"id":"d","media":[]`, "", wrongMedia, In{}},
		{`"id":"d","media":{"kind":"image","data":5}`, "", wrongMediaData, In{}},
		{`"id":"d"`, "", missingTarget, In{}},
		{`"id":"d","text":"` + long + `"`, "", missingTarget, In{}},
		{`"id":"d","target":"mobile:","text":"hi"`, "home", missingTarget, In{}},
		{`"id":"d"`, "home", nothingToSend, In{}},
		{`"id":"d","text":null,"media":null`, "home", nothingToSend, In{}},
		{`"id":"d","text":"` + strings.ReplaceAll(long, "a", " ") + `"`, "home", nothingToSend, In{}},
		{`"id":"d","text":"` + long + `","media":{"kind":"hologram"}`, "home", longText, In{}},
		{`"id":"d","media":{}`, "home", missingMediaKind, In{}},
		{`"id":"d","media":{"kind":"hologram"}`, "home", unknownMediaKind, In{}},
		{`"id":"d","media":{"kind":"image"}`, "home", missingMediaData, In{}},
		{`"id":"d","media":{"kind":"image","data":""}`, "home", missingMediaData, In{}},
	} {
		in, fault := decode(`{"t":"deliver",` + c.fields + `}`)
		require.Nil(t, fault, "%.99s", c.fields)
		fault = in.CheckDeliver(c.home)
		require.Equal(t, c.fault, fault, "%.99s", c.fields)
		if fault == nil {
			c.want.Kind, c.want.ID = Deliver, "d"
			require.Equal(t, c.want, plain(in), "%.99s", c.fields)
		}
	}
}

func TestCutChars(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""}, {"abc", 0, ""}, {"abc", 2, "ab"}, {"abc", 3, "abc"}, {"abc", 4, "abc"}, {"яяя", 2, "яя"}, {"яяя", 3, "яяя"},
		{"a😀b", 2, "a😀"}, {"e\u0301x", 1, "e"}, {"a\xff\xffb", 2, "a\xff"}, {"abc", -1, ""},
	} {
		require.Equal(t, c.want, CutChars(c.s, c.n), "%q %d", c.s, c.n)
	}
}
