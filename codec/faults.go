package codec

import "strconv"

// Every sentence that Decode can answer with, built once from the limits, so that none of them can hold input.
var (
	notUTF8     = bad("The message is not valid UTF-8.")
	empty       = bad("The message is empty; a frame is one JSON object.")
	notObject   = bad("The message is not a JSON object; a frame is one JSON object.")
	notJSON     = bad("The message is not valid JSON; a frame is one JSON object with nothing behind it.")
	missingType = bad("t is missing; it names the type of the frame, a string that is not empty.")

	missingID       = bad("id is missing; this frame needs one, a string of 1 to " + num(MaxIDChars) + " characters.")
	missingText     = bad("text is missing or only white space; it must have 1 to " + num(MaxTextChars) + " characters.")
	missingFormat   = bad("format is missing; it must be wav or ogg.")
	missingData     = bad("data is missing or empty; it must be base64.")
	missingKind     = bad("kind is missing; it must be " + kindsIn + ".")
	missingPromptID = bad("prompt_id is missing; an answer names the card it belongs to.")
	missingAnswer   = bad("option_id and text are both empty; an answer needs one of them.")
	wrongParts      = bad("parts must be from 1 to " + num(MaxMediaParts) + ".")
	wrongPart       = bad("part must be from 0 to parts less one.")
	longTS          = bad("ts is too long; it may have " + num(MaxPingTSBytes) + " bytes of JSON.")
	controlDeviceID = bad("device.id has control characters; they are not allowed in it.")

	unknownFormat = &Fault{UnsupportedFrame, "format is not supported; it must be wav or ogg."}
	unknownKind   = &Fault{UnsupportedFrame, "kind is not supported; it must be " + kindsIn + "."}
	longText      = &Fault{TooBig, "text is too long; it may have " + num(MaxTextChars) + " characters."}
	longCaption   = &Fault{TooBig, "caption is too long; it may have " + num(MaxTextChars) + " characters."}

	missingTarget    = bad("target is missing and there is no home device; a delivery names its device.")
	nothingToSend    = bad("text and media are both missing; a delivery needs one of them.")
	missingMediaKind = bad("media.kind is missing; it must be " + kindsOut + ".")
	missingMediaData = bad("media.data is missing or empty; it must be base64.")
	unknownMediaKind = &Fault{UnsupportedFrame, "media.kind is not supported; it must be " + kindsOut + "."}
)

const (
	kindsIn  = "image, video, document or audio"
	kindsOut = "image, voice, video, document or animation"
)

// A known field of the wrong JSON type (spec 2), by its name.
var (
	wrongType       = notString("t")
	wrongID         = notString("id")
	wrongToken      = notString("token")
	wrongDevice     = notThat("device", "an object")
	wrongDeviceID   = notString("device.id")
	wrongDeviceName = notString("device.name")
	wrongPlatform   = notString("device.platform")
	wrongAppVersion = notString("device.app_version")
	wrongUser       = notThat("user", "an object")
	wrongUserID     = notString("user.id")
	wrongUserName   = notString("user.name")
	wrongResume     = notThat("resume", "an object")
	wrongSession    = notString("resume.session")
	wrongResumeSeq  = notThat("resume.seq", "a whole number from 0, without point and exponent")
	wrongText       = notString("text")
	wrongFormat     = notString("format")
	wrongData       = notString("data")
	wrongKind       = notString("kind")
	wrongMime       = notString("mime")
	wrongFilename   = notString("filename")
	wrongCaption    = notString("caption")
	partNoInteger   = notThat("part", "a whole number, without point and exponent")
	partsNoInteger  = notThat("parts", "a whole number, without point and exponent")
	wrongPromptID   = notString("prompt_id")
	wrongOptionID   = notString("option_id")
	wrongSeq        = notThat("seq", "a whole number from 0, without point and exponent")
	wrongTarget     = notString("target")
	wrongMedia      = notThat("media", "an object")
	wrongMediaKind  = notString("media.kind")
	wrongMediaMime  = notString("media.mime")
	wrongMediaName  = notString("media.filename")
	wrongMediaData  = notString("media.data")
)

func bad(message string) *Fault         { return &Fault{BadFrame, message} }
func notThat(field, want string) *Fault { return bad(field + " must be " + want + ".") }
func notString(field string) *Fault     { return notThat(field, "a string") }
func num(n int) string                  { return strconv.Itoa(n) }
