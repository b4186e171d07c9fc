// Package transcript reads and plays golden texts: files in which a person reads what devices say to a gateway, what they
// hear, what the agent does and how time passes. The same file is played at several heights, each of which is a Gateway.
//
// A file holds cases. A line that begins with # is a comment; white space at both ends of a line means nothing.
//
//	case a text is echoed
//	    joins                                          # (no comment can stand behind a line in a real file)
//	    > {"t":"text","id":"1","text":"hi"}
//	    < {"t":"avatar","state":"thinking"}
//	    < {"t":"typing"}
//	    < {"t":"message","text":"hi","final":true}
//	    < {"t":"avatar","state":"speaking"}
//	    < {"t":"typing","stop":true}
//	    + 3s
//	    < {"t":"avatar","state":"idle"}
//
// One connection needs no name. Several are told apart by a word in front of the line: "old > {...}", "new joins". A
// connection opens with the first line that uses its name, and again with the first one after its end.
//
//	> TEXT               the device says it, in one message; TEXT is sent as it stands, be it JSON or not
//	< PATTERN            this is the next frame that the device hears
//	< nothing            nothing has come that was not expected
//	< ...                whatever has come is of no interest
//	< ping               the next thing is a WebSocket ping
//	x CODE [REASON]      the next thing is a close frame; without CODE, the end of the connection without a word
//	joins [device=D] [token=T] [from=IP]   says hello and hears ready; tel-1 and the token "secret" unless told otherwise
//	opens [from=IP]      connects and says nothing; from this host, or from the address that a trusted proxy tells
//	leaves               the closing handshake with code 1000
//	breaks               the connection ends without a word
//	sleeps / wakes       the device answers no WebSocket ping / answers those that came meanwhile
//	stops / goes on      the device takes nothing from the network, and says nothing / takes what waits, and reads on
//	+ DURATION           time passes
//	agent [DEVICE] ACT   what the agent does in the turn that waits for it; DEVICE is tel-1 unless told otherwise
//	ignore TYPE…         frames of these types are not looked at in this case
//	with WORD…           first in a case: how the gateway is set up; the words are the heights' own
//	repeat N … end       the lines between N times, $i counts from 1
//
// The agent's acts: streams "TEXT", closes (the streamed message is complete), says "TEXT", replies "TEXT" (and the turn is
// over), ends, fails, blames "TEXT" (it fails with that sentence for the user), panics; sends FILE, an object with kind,
// mime, name, caption, reply_to, url and size, whose content is the endless one; asks CARD, an object with kind, text, command, description, choices and ttl ("30s"). What its cards were
// answered it "hears PATTERN", an object with card (1 for the first of the turn), option, text and expired, or "hears nothing";
// then it confirms [CARD], refuses [CARD] (and the card is open again) or calls it expired: outdates [CARD]. Without CARD it
// speaks of the answer that it heard last. An answer that the agent was not expected to hear fails like a frame.
//
// Nobody has to expect what a device hears at once, but before time passes and at the end of a case everything that came must
// have been expected: so a frame that comes too early fails, and so does one too many.
//
// Patterns are JSON. An object may have more fields than its pattern, an array must have as many elements; numbers are
// compared as they are written. Strings with a meaning: "*" the field is there; "!" it is not, or null; "~RE" matches a
// regular expression; "#N" or "#N..M" has so many characters; "?NAME" anything, kept as $NAME; "=TEXT" is TEXT itself;
// "@N..M" is base64 of these bytes of the endless content.
//
// In every line $NAME and ${NAME} are what was kept, $(x N TEXT) is TEXT N times, $(hex BYTES) raw bytes, $$ a dollar sign;
// $(base64 N..M) are the bytes from N to before M of an endless content that is always the same, and $(sha256 N..M) their
// sum in hexadecimal digits.
package transcript

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// Gateway is what a case is played against. Its methods are called from one goroutine.
type Gateway interface {
	// Dial opens a connection: from this host, or, if from is not empty, from that address behind a trusted proxy.
	Dial(from string) (Link, error)
	// Settle returns when nothing happens any more unless somebody says something or time passes.
	Settle() error
	// Advance lets time pass, and settles.
	Advance(time.Duration) error
	// Act tells the agent what to do in the turn of the device that waits for it. For Hears it gives the next answer to
	// one of the turn's cards, in JSON, or nil when there is none; of any device if device is empty.
	Act(device string, act Act) (answer []byte, err error)
}

// Link is one connection.
type Link interface {
	// Say sends one message, after the end of the connection to nobody.
	Say(message []byte)
	// Hear takes the next thing that came. It does not wait.
	Hear() (Heard, bool)
	// Do is one of the deeds below.
	Do(Deed)
}

// Deed is what a device does besides speaking.
type Deed string

// The deeds of a device.
const (
	Leave Deed = "leaves"
	Break Deed = "breaks"
	Sleep Deed = "sleeps"
	Wake  Deed = "wakes"
	Stop  Deed = "stops"
	Goes  Deed = "goes"
)

// Act is one thing that the agent does.
type Act struct {
	Verb string // a key of acts
	Text string // the text; of sends and asks, the JSON object
	Card int    // of confirms, refuses and outdates; 0: the one that was answered last
}

// Hears is the Verb of an agent that listens.
const Hears = "hears"

// Heard is one thing that came to a device.
type Heard struct {
	Frame  []byte // a frame; else
	Ping   bool   // a WebSocket ping, or
	Code   int    // the close frame that ended the connection, or 0: it ended without a word
	Reason string
}

// Case is one dialogue.
type Case struct {
	File string
	Line int
	Name string
	With []string

	lines []line
}

type line struct {
	number int
	link   string // name of the connection, "" mostly
	verb   string
	rest   string // as it stands in the file
	body   []line // of repeat
	times  int
}

// Load reads all files *.txt of a folder.
func Load(files fs.FS, dir string) ([]Case, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.txt"))
	if err != nil || len(names) == 0 {
		return nil, errors.Join(errors.New("no transcripts in "+dir), err)
	}
	var all []Case
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		cases, err := Parse(path.Base(name), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return all, nil
}

// Parse reads the cases of one file.
func Parse(file, text string) ([]Case, error) {
	var cases []Case
	var open []*[]line // where lines go: the case, then the repeats inside
	for i, s := range strings.Split(text, "\n") {
		s = strings.TrimSpace(s)
		fail := func(what string) error { return fmt.Errorf("%s:%d: %s: %s", file, i+1, what, s) }
		if s == "" || s[0] == '#' {
			continue
		}
		if name, ok := strings.CutPrefix(s, "case "); ok {
			if len(open) > 1 {
				return nil, fail("a repeat before has no end")
			}
			cases = append(cases, Case{File: file, Line: i + 1, Name: name})
			open = []*[]line{&cases[len(cases)-1].lines}
			continue
		}
		if len(open) == 0 {
			return nil, fail("not in a case")
		}
		c, to := &cases[len(cases)-1], open[len(open)-1]
		l, ok := parseLine(s)
		l.number = i + 1
		switch {
		case !ok:
			return nil, fail("not understood")
		case l.verb == "with":
			if c.With != nil || len(c.lines) > 0 {
				return nil, fail("not the first line of the case")
			}
			c.With = strings.Fields(l.rest)
		case l.verb == "end":
			if len(open) == 1 {
				return nil, fail("ends nothing")
			}
			open = open[:len(open)-1]
		case l.verb == "repeat":
			*to = append(*to, l)
			open = append(open, &(*to)[len(*to)-1].body)
		default:
			*to = append(*to, l)
		}
	}
	if len(open) > 1 {
		return nil, fmt.Errorf("%s: the last repeat has no end", file)
	}
	return cases, nil
}

// The verbs of a line, and whether a connection's name may stand before them.
var verbs = map[string]bool{
	">": true, "<": true, "x": true, "joins": true, "opens": true, "leaves": true, "breaks": true, "sleeps": true, "wakes": true,
	"stops": true, "goes": true,
	"+": false, "agent": false, "ignore": false, "with": false, "repeat": false, "end": false,
}

// argument is what stands behind an act.
type argument int

const (
	nothing argument = iota
	aString          // of JSON
	anObject
	aPattern // an object, or the word nothing
	aNumber  // or nothing
)

var acts = map[string]argument{
	"streams": aString, "closes": nothing, "says": aString, "replies": aString, "ends": nothing, "fails": nothing, "blames": aString, "panics": nothing,
	"sends": anObject, "asks": anObject, Hears: aPattern, "confirms": aNumber, "refuses": aNumber, "outdates": aNumber,
}

func parseLine(s string) (l line, ok bool) {
	first, rest, _ := strings.Cut(s, " ")
	if _, ok := verbs[first]; ok {
		l.verb, l.rest = first, rest
	} else {
		l.link = first
		l.verb, l.rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		if !verbs[l.verb] {
			return l, false
		}
	}
	switch l.verb {
	case "+":
		_, err := time.ParseDuration(l.rest)
		return l, err == nil
	case "repeat":
		var err error
		l.times, err = strconv.Atoi(l.rest)
		return l, err == nil && l.times > 0
	case "agent":
		_, act, err := parseAct(l.rest)
		return l, err == nil && act.Verb != ""
	case "goes":
		return l, l.rest == "on"
	}
	return l, true
}

// parseAct reads "[DEVICE] VERB [ARGUMENT]".
func parseAct(s string) (device string, act Act, err error) {
	word, rest, _ := strings.Cut(s, " ")
	wants, known := acts[word]
	if !known {
		device = word
		word, rest, _ = strings.Cut(rest, " ")
		if wants, known = acts[word]; !known {
			return "", Act{}, errors.New("the agent does no such thing")
		}
	}
	act.Verb, act.Text = word, rest
	good := rest == ""
	switch wants {
	case aString:
		good = within(rest, '"', '"')
	case anObject:
		good = within(rest, '{', '}')
	case aPattern:
		good = rest == "nothing" || within(rest, '{', '}')
	case aNumber:
		if act.Text = ""; rest != "" {
			act.Card, err = strconv.Atoi(rest)
			good = err == nil && act.Card > 0
		}
	}
	if !good {
		return "", Act{}, errors.New("this does not belong behind " + word)
	}
	return device, act, nil
}

func within(s string, first, last byte) bool {
	return len(s) >= 2 && s[0] == first && s[len(s)-1] == last
}
