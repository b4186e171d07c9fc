package codec

import "strings"

// CheckDeliver reads the fields of a deliver frame and makes the checks of spec 9 between the right to deliver, which the
// caller has checked, and the target being online: id, types, target, nothing to send, text length, kind of media. home is the
// device for a frame without target, empty when there is none. Call it once, while the buffer given to Decode is valid.
//
// It sets Target, Text (empty when it is only white space), Attachment and HasAttachment. Left to the caller is the base64 of
// Attachment.Data and its limit of 8 MiB.
func (in *In) CheckDeliver(home string) *Fault {
	if in.raw.ID.is('"') && in.ID == "" {
		return missingID
	}
	var t types
	t.check(in.raw.ID.is('"'), wrongID)
	in.Target = t.text(in.raw.Target, wrongTarget)
	in.Text = t.text(in.raw.Text, wrongText)
	in.HasAttachment = !in.raw.Media.absent()
	media := in.open(t.object(in.raw.Media, wrongMedia))
	in.Attachment.Kind = t.text(media.Kind, wrongMediaKind)
	in.Attachment.Mime = shortMime(t.text(media.Mime, wrongMediaMime))
	in.Attachment.Filename = cleanFilename(t.text(media.Filename, wrongMediaName))
	in.Attachment.Data = t.text(media.Data, wrongMediaData)
	if t.fault != nil {
		return t.fault
	}

	if in.Target == "" {
		in.Target = home
	}
	in.Target = strings.TrimPrefix(in.Target, "mobile:")
	if blank(in.Text) {
		in.Text = ""
	}
	switch {
	case in.Target == "":
		return missingTarget
	case in.Text == "" && !in.HasAttachment:
		return nothingToSend
	case tooLong(in.Text):
		return longText
	case in.HasAttachment:
		return in.Attachment.check()
	}
	return nil
}

// check wants a kind that goes out; audio goes out as voice.
func (a *Attachment) check() *Fault {
	switch a.Kind {
	case MediaImage, MediaVoice, MediaVideo, MediaDocument, MediaAnimation:
	case MediaAudio:
		a.Kind = MediaVoice
	case "":
		return missingMediaKind
	default:
		return unknownMediaKind
	}
	if a.Data == "" {
		return missingMediaData
	}
	return nil
}
