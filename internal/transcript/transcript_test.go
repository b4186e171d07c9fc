package transcript

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	cases, err := Parse("f.txt", `
# a comment

case first
    with slots=1 only=a,b
    joins
    > {"t":"x"}
    phone < {"a":1}
    phone x 1008 bad_frame
    repeat 2
        repeat 3
            > $i
        end
    end
    + 1.5s
case second
    agent tel-2 says "hi there"
`)
	require.NoError(t, err)
	require.Len(t, cases, 2)
	first := cases[0]
	require.Equal(t, []any{"f.txt", 4, "first", []string{"slots=1", "only=a,b"}}, []any{first.File, first.Line, first.Name, first.With})
	require.Len(t, first.lines, 6)
	require.Equal(t, line{number: 7, verb: ">", rest: `{"t":"x"}`}, first.lines[1])
	require.Equal(t, line{number: 9, link: "phone", verb: "x", rest: "1008 bad_frame"}, first.lines[3])
	require.Equal(t, 2, first.lines[4].times)
	require.Equal(t, 3, first.lines[4].body[0].times)
	require.Equal(t, ">", first.lines[4].body[0].body[0].verb)
	require.Equal(t, "second", cases[1].Name)
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"> {}",
		"case x\n what",
		"case x\n phone what",
		"case x\n phone + 1s",
		"case x\n + soon",
		"case x\n repeat\n end",
		"case x\n repeat 0\n end",
		"case x\n repeat 2\n > {}",
		"case x\n repeat 2\ncase y",
		"case x\n end",
		"case x\n > {}\n with slots=1",
		"case x\n agent sings",
		"case x\n agent says",
		"case x\n agent says hi",
		"case x\n agent fails \"hi\"",
		"case x\n agent asks",
		"case x\n agent sends \"hi\"",
		"case x\n agent hears",
		"case x\n agent confirms all",
		"case x\n agent refuses 0",
		"case x\n goes off",
	} {
		_, err := Parse("f.txt", text)
		require.Error(t, err, text)
		require.Contains(t, err.Error(), "f.txt", text)
	}
}

func TestLoad(t *testing.T) {
	files := fstest.MapFS{"d/2.txt": {Data: []byte("case b\n")}, "d/1.txt": {Data: []byte("case a\n")}, "d/x.md": {Data: []byte("no case")}}
	cases, err := Load(files, "d")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, []string{cases[0].Name, cases[1].Name})
	_, err = Load(files, "elsewhere")
	require.Error(t, err, "a suite that finds no files must not pass")
}

func TestExpand(t *testing.T) {
	kept := map[string]string{"m": "m-1", "i": "7", "one2": "x"}
	for in, want := range map[string]string{
		"":                           "",
		"$m and ${m}x $one2":         "m-1 and m-1x x",
		"a$i":                        "a7",
		"$(x 3 ab)$(x 2  )|$(x 0 a)": "ababab  |",
		"$(hex ff00)":                "\xff\x00",
		"$$m $":                      "$m $",
		`"~^dev-[0-9a-f]{12}$"`:      `"~^dev-[0-9a-f]{12}$"`,
		`{"text":"$(x 2 👩‍👩‍👧‍👦)"}`: `{"text":"👩‍👩‍👧‍👦👩‍👩‍👧‍👦"}`,
	} {
		got, err := expand(in, kept)
		require.NoError(t, err, in)
		require.Equal(t, want, got)
	}
	for _, in := range []string{"$unknown", "$(x 3", "$(x a b)", "$(y)", "$(hex f)", "$(base64 7)", "$(sha256 2..1)", "$(base64 -1..2)", "$(base64 a..b)"} {
		_, err := expand(in, kept)
		require.Error(t, err, in)
	}
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{`{"t":"a"}`, `{"t":"a","more":1}`, true},
		{`{"t":"a","more":1}`, `{"t":"a"}`, false},
		{`{"t":"a"}`, `{"t":"b"}`, false},
		{`{"t":"a"}`, `["a"]`, false},
		{`{"a":{"b":1}}`, `{"a":{"b":1,"c":2}}`, true},
		{`{"a":{"b":1}}`, `{"a":{"b":2}}`, false},
		{`{"a":[1,2]}`, `{"a":[1,2]}`, true},
		{`{"a":[1,2]}`, `{"a":[1,2,3]}`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{`{"a":1.50e+1}`, `{"a":1.50e+1}`, true},
		{`{"a":1.50e+1}`, `{"a":15}`, false},
		{`{"a":true,"b":null}`, `{"a":true,"b":null}`, true},
		{`{"a":true}`, `{"a":"true"}`, false},
		{`{"a":"*"}`, `{"a":{}}`, true},
		{`{"a":"*"}`, `{}`, false},
		{`{"a":"!"}`, `{}`, true},
		{`{"a":"!"}`, `{"a":null}`, true},
		{`{"a":"!"}`, `{"a":""}`, false},
		{`{"a":"~^b+$"}`, `{"a":"bb"}`, true},
		{`{"a":"~^b+$"}`, `{"a":"abb"}`, false},
		{`{"a":"~^b+$"}`, `{"a":1}`, false},
		{`{"a":"~("}`, `{"a":"("}`, false},
		{`{"a":"#2"}`, `{"a":"яя"}`, true},
		{`{"a":"#2..3"}`, `{"a":"яяя"}`, true},
		{`{"a":"#2..3"}`, `{"a":"я"}`, false},
		{`{"a":"#many"}`, `{"a":"я"}`, false},
		{`{"a":"=*"}`, `{"a":"*"}`, true},
		{`{"a":"=*"}`, `{"a":"x"}`, false},
		{`{"a":""}`, `{"a":""}`, true},
		{`{"a":""}`, `{"a":"x"}`, false},
		{`{"a":"@3..5"}`, `{"a":"` + must(generate("base64 3..5")) + `"}`, true},
		{`{"a":"@3..5"}`, `{"a":"` + must(generate("base64 4..6")) + `"}`, false},
		{`{"a":"@3"}`, `{"a":""}`, false},
		{`{"a":"?id"}`, `{"a":"m-1"}`, true},
		{`{"a":"?id"}`, `{"a":1}`, false},
	} {
		want, err := decode([]byte(c.want))
		require.NoError(t, err)
		got, err := decode([]byte(c.got))
		require.NoError(t, err)
		kept := map[string]string{}
		require.Equal(t, c.ok, match("frame", want, got, kept) == nil, "%s against %s", c.want, c.got)
		if strings.Contains(c.want, "?id") && c.ok {
			require.Equal(t, "m-1", kept["id"])
		}
	}
	_, err := decode([]byte(`{} {}`))
	require.Error(t, err)
}

// parrot is a gateway whose devices hear what they say; "later" after a second, "bye" ends the connection.
type parrot struct {
	links  []*cage
	acts   []Act
	answer []byte   // to a card
	hellos []string // of those that were welcome
}

type cage struct {
	from         string
	said         [][]byte
	heard, waits []Heard
	deeds        []Deed
}

func (p *parrot) Dial(from string) (Link, error) {
	c := &cage{from: from}
	p.links = append(p.links, c)
	return c, nil
}

func (p *parrot) Settle() error {
	for _, c := range p.links {
		for _, m := range c.said {
			var hello struct {
				T      string
				Device struct{ ID string }
			}
			if json.Unmarshal(m, &hello); hello.T == "hello" && hello.Device.ID != "nobody" {
				p.hellos = append(p.hellos, string(m))
				m = []byte(`{"t":"ready","session":"mobile:` + hello.Device.ID + `"}`)
			}
			switch string(m) {
			case "bye":
				c.heard = append(c.heard, Heard{Code: 1008, Reason: "bye"})
			case "drop":
				c.heard = append(c.heard, Heard{Reason: "reset"})
			case "ping":
				c.heard = append(c.heard, Heard{Ping: true})
			case "later":
				c.waits = append(c.waits, Heard{Frame: []byte(`{"t":"late"}`)})
			default:
				c.heard = append(c.heard, Heard{Frame: m})
			}
		}
		c.said = nil
	}
	return nil
}

func (p *parrot) Advance(d time.Duration) error {
	for _, c := range p.links {
		if d >= time.Second {
			c.heard = append(c.heard, c.waits...)
			c.waits = nil
		}
	}
	return p.Settle()
}

func (p *parrot) Act(device string, act Act) (answer []byte, err error) {
	if act.Verb == Hears {
		answer, p.answer = p.answer, nil
		return answer, nil
	}
	if device != "tel-1" {
		return nil, errors.New("no such device")
	}
	p.acts = append(p.acts, act)
	if act.Verb == "asks" {
		p.answer = []byte(`{"card":1,"option":"once"}`)
	}
	return nil, nil
}

func (c *cage) Say(m []byte) { c.said = append(c.said, m) }
func (c *cage) Do(d Deed)    { c.deeds = append(c.deeds, d) }
func (c *cage) Hear() (Heard, bool) {
	if len(c.heard) == 0 {
		return Heard{}, false
	}
	h := c.heard[0]
	c.heard = c.heard[1:]
	return h, true
}

func TestPlay(t *testing.T) {
	for _, text := range []string{
		`> {"t":"a"}
		 < {"t":"a"}`,
		`a > {"t":"a"}
		 b > {"t":"b"}
		 b < {"t":"b"}
		 a < {"t":"a"}`,
		`> later
		 + 900ms
		 < nothing
		 + 1s
		 < {"t":"late"}`,
		`> bye
		 x 1008 bye
		 > {"t":"on a new connection"}
		 < {"t":"on a new connection"}`,
		`> drop
		 x`,
		`> ping
		 < ping`,
		`> {"t":"a"}
		 > {"t":"b"}
		 < ...`,
		`ignore a
		 > {"t":"a"}
		 > {"t":"b"}
		 < {"t":"b"}
		 > {"t":"a"}`,
		`> {"t":"a","id":"m-1"}
		 < {"id":"?m"}
		 > {"t":"b","of":"$m"}
		 < {"of":"m-1"}`,
		`repeat 3
		 > {"n":"$i"}
		 < {"n":"$i"}
		 end`,
		`> {"data":"$(base64 0..100)"}
		 < {"data":"@0..100"}`,
		`agent asks {"kind":"clarify"}
		 agent hears {"option":"once"}
		 agent hears nothing`,
	} {
		cases, err := Parse("f.txt", "case x\n"+text)
		require.NoError(t, err)
		require.NoError(t, cases[0].Play(new(parrot)), text)
	}
}

// TestPlayFails: a player that lets errors pass is worse than none.
func TestPlayFails(t *testing.T) {
	for text, want := range map[string]string{
		`> {"t":"a"}` + "\n" + `< {"t":"b"}`:       "f.txt:3",
		`< {"t":"b"}`:                              "no such connection",
		"opens\n" + `< {"t":"b"}`:                  "heard nothing",
		`> {"t":"a"}`:                              "at the end of case",
		"> later\n+ 1s":                            "late",
		`> {"t":"a"}` + "\n+ 1s\n" + `< {"t":"a"}`: "before time passes",
		`> {"t":"a"}` + "\n< nothing":              "heard",
		"> bye\n" + `< {"t":"a"}`:                  "close 1008 bye",
		"> bye\nx 1013":                            "close 1008 bye",
		"> bye\nx 1008 else":                       "close 1008 bye",
		"> bye\nx":                                 "close 1008 bye",
		"> bye":                                    "close 1008 bye",
		"> drop\nx 1008":                           "the end of the connection",
		"opens\nx 1008":                            "still open",
		"> ping":                                   "a WebSocket ping",
		`> {"t":"a"}` + "\n< ping":                 `{"t":"a"}`,
		"> no JSON\n< {}":                          "no JSON",
		`> {"t":"a"}` + "\n< no JSON":              "no JSON",
		"> $unknown":                               "never kept",
		"repeat 2\n> {\"n\":\"$i\"}\n< {\"n\":\"1\"}\nend": "round 2",
		"agent tel-9 ends":                   "no such device",
		"leaves":                             "no such connection",
		"opens by=air":                       "by=air",
		"agent asks {}":                      "the agent heard",
		"agent asks {}\nagent hears nothing": "the agent heard",
		"agent asks {}\nagent hears {\"option\":\"deny\"}": "want \"deny\"",
		"agent asks {}\n+ 1s":                              "the agent heard",
		`agent hears {}`:                                   "the agent heard \"\"",
		"joins colour=red":                                 "colour",
	} {
		cases, err := Parse("f.txt", "case x\n"+text)
		require.NoError(t, err, text)
		err = cases[0].Play(new(parrot))
		require.Error(t, err, text)
		require.Contains(t, err.Error(), want, text)
	}
}

func TestDeedsAndActs(t *testing.T) {
	p := new(parrot)
	cases, err := Parse("f.txt", `case x
		opens
		sleeps
		wakes
		agent streams "a\n$(x 2 b)"
		agent tel-1 closes
		agent sends {"size":$(x 2 1)}
		agent confirms 2
		agent refuses
		stops
		goes on
		leaves
		opens from=192.0.2.1
		breaks`)
	require.NoError(t, err)
	require.NoError(t, cases[0].Play(p))
	require.Equal(t, []Act{{"streams", "a\nbb", 0}, {"closes", "", 0}, {"sends", `{"size":11}`, 0}, {"confirms", "", 2}, {"refuses", "", 0}}, p.acts)
	require.Equal(t, []Deed{Sleep, Wake, Stop, Goes, Leave}, p.links[0].deeds)
	require.Equal(t, []string{"", "192.0.2.1"}, []string{p.links[0].from, p.links[1].from})
	require.Equal(t, []Deed{Break}, p.links[1].deeds)
}

func TestJoin(t *testing.T) {
	p := new(parrot)
	cases, err := Parse("f.txt", "case x\n one joins\n two joins device=d token=t")
	require.NoError(t, err)
	require.NoError(t, cases[0].Play(p))
	require.Equal(t, []string{`{"t":"hello","token":"secret","device":{"id":"tel-1"}}`, `{"t":"hello","token":"t","device":{"id":"d"}}`}, p.hellos)
	cases, err = Parse("f.txt", "case x\n joins device=nobody")
	require.NoError(t, err)
	require.Error(t, cases[0].Play(p), "who is not welcome does not hear ready")
}
