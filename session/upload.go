package session

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"mobilegate/agent"
	"mobilegate/codec"
	"mobilegate/media"
)

// audio is a voice message (spec 5).
func (s *Session) audio(in *codec.In, now time.Time) {
	file, err := media.Decode(in.Data, codec.MaxAudioBytes, s.hub.budget)
	if err != nil {
		s.mediaFault(err, in.ID, now)
		return
	}
	fault := in.CheckTranscript()
	key := keyOf(in.ID)
	if fault != nil || s.knows(key, now) {
		file.Release()
		if fault != nil {
			s.fault(fault, in.ID, now)
		}
		return
	}
	s.accept(agent.Turn{Text: spoken(in.Text), File: incoming(file, codec.MediaAudio, "audio/"+in.Format, "voice."+in.Format)}, file, in.ID, key, now)
}

// media is a file, or a part of one (spec 6).
func (s *Session) media(in *codec.In, now time.Time) {
	key := keyOf(in.ID)
	if in.Parts > 1 && s.knows(key, now) {
		return // before anything is buffered
	}
	part := &media.Part{ID: in.ID, Kind: in.MediaKind, Mime: in.Mime, Filename: in.Filename, Caption: in.Caption, Part: in.Part, Parts: in.Parts, Data: in.Data}
	w := s.toDo()
	w.uploads.Budget = s.hub.uploads
	var file *media.File
	var err error
	if in.Parts == 1 && !w.uploads.Has(in.ID) {
		file, err = media.Whole(part, codec.MaxMediaBytes, s.hub.budget)
	} else {
		file, err = w.uploads.Add(part, s.hub.since(now))
	}
	switch {
	case err != nil:
		s.mediaFault(err, in.ID, now)
	case file == nil:
		w.arm(s, now)
	case s.knows(key, now):
		file.Release()
	default:
		s.accept(agent.Turn{Text: spoken(file.Caption), File: incoming(file, file.Kind, file.Mime, file.Filename)}, file, in.ID, key, now)
	}
}

// spoken leaves out a transcript or caption that says nothing.
func spoken(text string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return text
}

// incoming is a file of a device as an agent sees it. The agent may open it as long as the turn lasts.
func incoming(file *media.File, kind, mime, name string) *agent.File {
	return &agent.File{Kind: strings.Clone(kind), Mime: strings.Clone(mime), Name: strings.Clone(name), Size: file.Size(), Open: func() (agent.Content, error) {
		if !file.Retain() {
			return nil, fs.ErrClosed // the turn is over
		}
		return &content{file: file}, nil
	}}
}

// content is a reader's hold on a file.
type content struct {
	file   *media.File
	closed atomic.Bool
}

func (c *content) ReadAt(p []byte, off int64) (int, error) {
	if c.closed.Load() {
		return 0, fs.ErrClosed
	}
	return c.file.ReadAt(p, off)
}

func (c *content) Close() error {
	if !c.closed.Swap(true) {
		c.file.Release()
	}
	return nil
}

// mediaFault says what the media package refused.
func (s *Session) mediaFault(err error, id string, now time.Time) {
	for _, m := range mediaFaults {
		if errors.Is(err, m.err) {
			s.fault(m.fault, id, now)
			return
		}
	}
	s.busy(id, now) // the budget of the process
}

// busyPause is after how long a device that was refused for want of memory may come again at the earliest.
const busyPause = 4 * time.Second

// busy refuses what would take more memory than there is for all devices together.
func (s *Session) busy(id string, now time.Time) {
	wait := busyPause + rand.N(busyPause) // not all at once
	s.sendError(&codec.ErrorFrame{Code: codec.RateLimited, Message: "The gateway holds as much as it can just now; try again later.", ID: id, RetryAfter: wait})
	s.tooMany(now)
}

var mediaFaults = []struct {
	err   error
	fault *codec.Fault
}{
	{media.ErrEmpty, &codec.Fault{Code: codec.BadFrame, Message: "data must not be empty."}},
	{media.ErrBase64, &codec.Fault{Code: codec.BadFrame, Message: "data must be base64 in the standard alphabet."}},
	{media.ErrTooBig, &codec.Fault{Code: codec.TooBig, Message: fmt.Sprintf("A file may have at most %d bytes.", codec.MaxMediaBytes)}},
	{media.ErrDisagrees, &codec.Fault{Code: codec.BadFrame, Message: "kind and parts must be the same in all chunks of a file; the upload is dropped."}},
	{media.ErrOpen, &codec.Fault{Code: codec.TooBig, Message: fmt.Sprintf("A device may have at most %d uploads open at a time.", codec.MaxOpenUploads)}},
	{media.ErrSum, &codec.Fault{Code: codec.TooBig, Message: fmt.Sprintf("The open uploads of a device may have at most %d bytes together; this upload is dropped.", codec.MaxUploadBytes)}},
}
