package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"mime"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// upload is a file that comes in parts.
type upload struct {
	first incoming
	parts map[int][]byte
	size  int
}

// frame deals with one frame of a device that said hello.
func (c *client) frame(in *incoming) {
	t := in.kindOfFrame()
	switch t {
	case "text", "audio", "media":
		if in.ID == "" {
			c.refuse(in, "bad_frame", "The field id is missing.", false)
			return
		}
	}
	switch t {
	case "text":
		c.said(in)
	case "audio":
		c.audio(in)
	case "media":
		c.media(in)
	case "ping":
		c.json(&pong{T: "pong", TS: in.TS})
	case "hello":
		c.refuse(in, "bad_frame", "The device has said hello before.", false)
	}
}

func (c *client) said(in *incoming) {
	switch {
	case strings.TrimSpace(in.Text) == "":
		c.refuse(in, "bad_frame", "The text is empty.", false)
	case utf8.RuneCountInString(in.Text) > maxText:
		c.refuse(in, "too_big", "The text has over 12000 characters.", false)
	default:
		c.turn(func() { c.reply(in.Text) })
	}
}

func (c *client) audio(in *incoming) {
	format := strings.ToLower(in.Format)
	switch {
	case format != "wav" && format != "ogg":
		c.refuse(in, "unsupported_frame", "The format must be wav or ogg.", false)
	case len(in.Data) == 0:
		c.refuse(in, "bad_frame", "The data is missing.", false)
	case len(in.Data) > maxFile:
		c.refuse(in, "too_big", "The audio has over 8388608 bytes.", false)
	default:
		in.Kind, in.Mime, in.Filename, in.Caption = "audio", "audio/"+format, "voice."+format, in.Text
		c.turn(func() { c.giveBack(in, in.Data) })
	}
}

func (c *client) media(in *incoming) {
	parts := 1
	if in.Parts != nil {
		parts = *in.Parts
	}
	switch {
	case in.Kind != "image" && in.Kind != "video" && in.Kind != "document" && in.Kind != "audio":
		c.refuse(in, "unsupported_frame", "The kind must be image, video, document or audio.", false)
	case parts < 1 || parts > maxParts || in.Part < 0 || in.Part >= parts:
		c.refuse(in, "bad_frame", "The part or the number of parts is out of range.", false)
	case len(in.Data) == 0:
		c.refuse(in, "bad_frame", "The data is missing.", false)
	case len(in.Data) > maxFile:
		c.refuse(in, "too_big", "The file has over 8388608 bytes.", false)
	case parts == 1:
		c.turn(func() { c.giveBack(in, in.Data) })
	default:
		c.addPart(in, parts)
	}
}

func (c *client) addPart(in *incoming, parts int) {
	u := c.uploads[in.ID]
	if u == nil {
		if len(c.uploads) == openUploads {
			c.refuse(in, "too_big", "There are 8 open uploads.", false)
			return
		}
		if c.uploads == nil {
			c.uploads = map[string]*upload{}
		}
		u = &upload{first: *in, parts: map[int][]byte{}}
		u.first.Data = nil
		c.uploads[in.ID] = u
	}
	if in.Kind != u.first.Kind || parts != *u.first.Parts {
		delete(c.uploads, in.ID)
		c.refuse(in, "bad_frame", "The part is not like the first one.", false)
		return
	}
	u.size += len(in.Data) - len(u.parts[in.Part])
	u.parts[in.Part] = in.Data
	open := 0
	for _, other := range c.uploads {
		open += other.size
	}
	if open > maxFile {
		delete(c.uploads, in.ID)
		c.refuse(in, "too_big", "The open uploads have over 8388608 bytes.", false)
		return
	}
	if len(u.parts) < parts {
		return
	}
	delete(c.uploads, in.ID)
	whole := make([]byte, 0, u.size)
	for part := range parts {
		whole = append(whole, u.parts[part]...)
	}
	c.turn(func() { c.giveBack(&u.first, whole) })
}

// turn wraps what the agent says into what the device sees of a turn.
func (c *client) turn(say func()) {
	if c.idle != nil {
		c.idle.Stop()
	}
	c.text(avatarThinking)
	c.text(typingStart)
	say()
	c.text(typingStop)
	if c.idle == nil {
		c.idle = time.AfterFunc(idleAfter, func() { c.text(avatarIdle) })
	} else {
		c.idle.Reset(idleAfter)
	}
}

func (c *client) reply(text string) {
	c.json(&message{T: "message", ID: c.newID(), Text: text, Chunk: chunk{0, 1}, Final: true})
	c.text(avatarSpeaking)
}

// giveBack sends a file back, in chunks, and then its caption.
func (c *client) giveBack(in *incoming, data []byte) {
	if in.Mime == "" {
		in.Mime = cmp.Or(mime.TypeByExtension(path.Ext(in.Filename)), "application/octet-stream")
	}
	kind, name := in.Kind, in.Filename
	if kind == "audio" {
		kind = "voice"
	}
	if name == "" {
		name = "-"
	}
	out := media{T: "media", ID: c.newID(), Kind: kind, Mime: in.Mime, Filename: in.Filename, Size: len(data), ReplyTo: in.ID,
		Caption: fmt.Sprintf("%s %s %d sha256:%x", in.Kind, name, len(data), sha256.Sum256(data)), Parts: (len(data) + mediaChunk - 1) / mediaChunk}
	for part := range out.Parts {
		out.Part, out.Final = part, part == out.Parts-1
		out.Data = data[part*mediaChunk : min((part+1)*mediaChunk, len(data))]
		c.json(&out)
		if part == 0 {
			c.text(avatarSpeaking)
		}
	}
	if strings.TrimSpace(in.Caption) != "" {
		c.json(&message{T: "message", ID: c.newID(), Text: in.Caption, Chunk: chunk{0, 1}, Final: true})
	}
}

func (c *client) newID() string {
	c.replies++
	return "r-" + strconv.FormatUint(c.replies, 10)
}
