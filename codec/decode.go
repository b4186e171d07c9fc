package codec

import (
	"strings"
	"unicode"
	"unsafe"
)

// Decode reads the message b into in and makes all checks that need nothing but the frame, in the order of spec 5 and 6; types
// come first (spec 2). It returns nil for a good frame and for one of an unknown type. With a Fault, in.Kind and in.ID are
// set as far as they are known, and the rest of in means nothing.
//
// Decode owns b: escapes are resolved in place, and in borrows from it (see In). b must be writable memory and is not to
// be decoded twice. Any goroutine may call Decode, each with an In of its own. It allocates nothing for an ordinary frame.
//
// Left to the caller is what needs more: for audio, data (base64, 8 MiB) and then CheckTranscript; for media, a repeated id, then
// data, which may still be empty; for deliver, the right to deliver and then CheckDeliver, before which only Kind and ID are set.
func Decode(b []byte, in *In) *Fault {
	in.Reset()
	if fault := in.read(b); fault != nil {
		return fault
	}
	id, _ := in.raw.ID.text()
	in.ID = CutChars(id, MaxIDChars)
	t, ok := in.raw.T.text()
	switch {
	case !ok:
		return wrongType
	case t == "":
		return missingType
	}
	in.Kind = kindOf(t)
	switch in.Kind {
	case Hello:
		return in.hello()
	case Text:
		return in.text()
	case Audio:
		return in.audio()
	case Media:
		return in.media()
	case Prompt:
		return in.prompt()
	case Ping:
		return in.ping()
	case Ack:
		return in.ack()
	}
	return nil
}

// Warm compiles the parser. Call it once before the first connection: the first frame then costs what every frame costs, and
// no two goroutines compile at the same time.
func Warm() {
	compile()
	var in In
	for _, frame := range []string{
		`{"t":"hello","device":{"id":"warm"},"user":{"id":"warm"},"resume":{"seq":1}}`,
		`{"t":"deliver","id":"warm","target":"warm","media":{"kind":"image","data":"AA=="}}`,
	} {
		Decode([]byte(frame), &in)
		in.CheckDeliver("")
	}
}

// read finds the fields of the frame: one JSON object in UTF-8, and nothing else (spec 2).
func (in *In) read(b []byte) *Fault {
	s := unsafe.String(unsafe.SliceData(b), len(b))
	object := strings.TrimLeft(s, " \t\r\n")
	switch {
	case object == "":
		return empty
	case !validUTF8(s):
		return notUTF8
	case object[0] != '{': // null too, which a parser would take for an object
		return notObject
	case !validEscapes(s) || !in.parser.parse(s, &in.raw):
		return notJSON
	}
	return nil
}

// open reads the members of an object of the frame; an absent one has none.
func (in *In) open(object value) *members {
	in.members = members{}
	if !object.absent() {
		in.parser.parse(string(object), &in.members) // it is a part of what was parsed already
	}
	return &in.members
}

// types reads fields by the type they must have and keeps the first that had another.
type types struct{ fault *Fault }

func (t *types) check(ok bool, wrong *Fault) {
	if !ok && t.fault == nil {
		t.fault = wrong
	}
}

func (t *types) text(v value, wrong *Fault) string {
	s, ok := v.text()
	t.check(ok, wrong)
	return s
}

func (t *types) integer(v value, absent int64, wrong *Fault) int64 {
	n, ok := v.integer(absent)
	t.check(ok, wrong)
	return n
}

func (t *types) sequence(v value, wrong *Fault) uint64 {
	n, ok := v.sequence()
	t.check(ok, wrong)
	return n
}

// object gives v when it is an object, else nothing.
func (t *types) object(v value, wrong *Fault) value {
	if v.is('{') {
		return v
	}
	t.check(false, wrong)
	return ""
}

// hello is spec 4. The token is looked at by who knows the tokens.
func (in *In) hello() *Fault {
	var t types
	in.Token = t.text(in.raw.Token, wrongToken)

	device := in.open(t.object(in.raw.Device, wrongDevice))
	in.Device.ID = CutChars(t.text(device.ID, wrongDeviceID), MaxDeviceChars)
	in.Device.Name = cleanName(t.text(device.Name, wrongDeviceName))
	in.Device.Platform = CutChars(t.text(device.Platform, wrongPlatform), MaxDeviceChars)
	in.Device.AppVersion = CutChars(t.text(device.AppVersion, wrongAppVersion), MaxDeviceChars)

	user := in.open(t.object(in.raw.User, wrongUser))
	in.User.ID = CutChars(t.text(user.ID, wrongUserID), MaxDeviceChars)
	in.User.Name = cleanName(t.text(user.Name, wrongUserName))

	in.HasResume = !in.raw.Resume.absent()
	resume := in.open(t.object(in.raw.Resume, wrongResume))
	in.Resume.Session = t.text(resume.Session, wrongSession)
	in.Resume.Seq = t.sequence(resume.Seq, wrongResumeSeq)

	switch {
	case t.fault != nil:
		return t.fault
	case blank(in.Device.ID):
		in.Device.ID = "" // as good as none: the server makes one
	case strings.ContainsFunc(in.Device.ID, unicode.IsControl):
		return controlDeviceID
	}
	return nil
}

func (in *In) text() *Fault {
	var t types
	t.check(in.raw.ID.is('"'), wrongID)
	in.Text = t.text(in.raw.Text, wrongText)
	switch {
	case t.fault != nil:
		return t.fault
	case in.ID == "":
		return missingID
	case blank(in.Text):
		return missingText
	case tooLong(in.Text):
		return longText
	}
	return nil
}

func (in *In) audio() *Fault {
	var t types
	t.check(in.raw.ID.is('"'), wrongID)
	in.Format = t.text(in.raw.Format, wrongFormat)
	in.Data = t.text(in.raw.Data, wrongData)
	in.Text = t.text(in.raw.Text, wrongText)
	switch {
	case t.fault != nil:
		return t.fault
	case in.ID == "":
		return missingID
	case in.Format == "":
		return missingFormat
	case strings.EqualFold(in.Format, FormatWAV):
		in.Format = FormatWAV
	case strings.EqualFold(in.Format, FormatOGG):
		in.Format = FormatOGG
	default:
		return unknownFormat
	}
	if in.Data == "" {
		return missingData
	}
	return nil
}

// CheckTranscript is the check of audio that comes after its data: text may have 12 000 characters.
func (in *In) CheckTranscript() *Fault {
	if tooLong(in.Text) {
		return longText
	}
	return nil
}

func (in *In) media() *Fault {
	var t types
	t.check(in.raw.ID.is('"'), wrongID)
	in.MediaKind = t.text(in.raw.Kind, wrongKind)
	in.Mime = shortMime(t.text(in.raw.Mime, wrongMime))
	in.Filename = cleanFilename(t.text(in.raw.Filename, wrongFilename))
	in.Caption = t.text(in.raw.Caption, wrongCaption)
	in.Data = t.text(in.raw.Data, wrongData)
	part := t.integer(in.raw.Part, 0, partNoInteger)
	parts := t.integer(in.raw.Parts, 1, partsNoInteger)
	if t.fault != nil {
		return t.fault
	}
	if in.ID == "" {
		return missingID
	}
	switch in.MediaKind {
	case MediaImage, MediaVideo, MediaDocument, MediaAudio:
	case "":
		return missingKind
	default:
		return unknownKind
	}
	switch {
	case tooLong(in.Caption):
		return longCaption
	case parts < 1 || parts > MaxMediaParts:
		return wrongParts
	case part < 0 || part >= parts:
		return wrongPart
	}
	in.Part, in.Parts = int(part), int(parts)
	return nil
}

// prompt is the answer to a card. Its text is a text of spec 3, so it has that limit too.
func (in *In) prompt() *Fault {
	var t types
	in.PromptID = CutChars(t.text(in.raw.PromptID, wrongPromptID), MaxIDChars)
	in.OptionID = CutChars(t.text(in.raw.OptionID, wrongOptionID), MaxIDChars) // what is longer is no option
	in.Text = t.text(in.raw.Text, wrongText)
	switch {
	case t.fault != nil:
		return t.fault
	case in.PromptID == "":
		return missingPromptID
	case in.OptionID == "" && in.Text == "":
		return missingAnswer
	case tooLong(in.Text):
		return longText
	}
	return nil
}

func (in *In) ping() *Fault {
	if in.raw.TS.absent() {
		return nil
	}
	if len(in.raw.TS) > MaxPingTSBytes {
		return longTS
	}
	in.TS = string(in.raw.TS)
	return nil
}

func (in *In) ack() *Fault {
	var t types
	t.check(in.raw.ID.is('"'), wrongID)
	in.Seq = t.sequence(in.raw.Seq, wrongSeq)
	return t.fault
}
