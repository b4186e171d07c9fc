package session

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"mobilegate/agent"
	"mobilegate/codec"
	"mobilegate/engine"
	"mobilegate/media"
)

// outgoing is a file on its way to the device: a frame for every 3 MiB, each in fragments that leave one by one as the
// device takes them, so that never more than some hundred KiB of it wait in memory.
type outgoing struct {
	head    codec.MediaHead
	content agent.Content
	sent    int // bytes of the file
}

// fragment is how many bytes of a file leave in one fragment: a multiple of 3, for base64, that fits a pooled buffer.
const fragment = 45 << 10

var fragments = sync.Pool{New: func() any { return new([fragment]byte) }}

// tellFile sends a file as far as the device takes it.
func (s *Session) tellFile(what *said, now time.Time) bool {
	f := what.File
	if s.conn == nil {
		s.stopFile(what)
		return true
	}
	if what.file == nil {
		if what.turn != nil {
			s.work.stream.finish(s, now)
		}
		what.file = newOutgoing(f, s.hub.names.next())
		if f.URL != "" {
			s.sendFileLink(&what.file.head, what.turn, now)
			return true
		}
		if f.Size < 0 || f.Size > codec.MaxMediaBytes {
			s.noFile(what, errFileSize, now)
			return true
		}
		content, err := f.Open()
		if err != nil {
			s.noFile(what, err, now)
			return true
		}
		what.file.content = content
	}
	for s.room() {
		done, err := s.sendPiece(what.file, what.turn, now)
		if done || err != nil {
			s.stopFile(what)
			if err != nil {
				s.noFile(what, err, now)
			}
			return true
		}
	}
	return false
}

var errFileSize = errors.New("its size is not from 0 to 8 MiB")

// noFile tells the device, and the operator, that a file does not come, or not all of it.
func (s *Session) noFile(what *said, err error, now time.Time) {
	s.hub.turnFailed(fmt.Errorf("a file for a device: %w", err), now)
	if what.turn != nil {
		s.sendError(&codec.ErrorFrame{Code: codec.InternalError, Message: "A file of the answer cannot be sent.", ID: what.turn.ID})
	}
}

func newOutgoing(f *agent.File, id string) *outgoing {
	o := &outgoing{head: codec.MediaHead{ID: id, Kind: f.Kind, Mime: f.Mime, Filename: f.Name, Caption: f.Caption, ReplyTo: f.ReplyTo, URL: f.URL, Size: f.Size, Parts: 1}}
	if f.URL == "" {
		o.head.Parts = max(1, (f.Size+codec.MediaChunkBytes-1)/codec.MediaChunkBytes)
	}
	o.head.Final = o.head.Parts == 1
	return o
}

func (s *Session) stopFile(what *said) {
	if what.file != nil && what.file.content != nil {
		what.file.content.Close()
	}
	what.file = nil
	if s.work.mid = false; s.out != nil {
		s.flush()
	}
}

// rewind lets a file begin anew, on another connection.
func (o *outgoing) rewind() {
	o.sent, o.head.Part = 0, 0
	o.head.Final = o.head.Parts == 1
}

// sendPiece sends the next fragment; done tells that it was the last one of the file. A content that ends too early still
// ends its frame, so that the connection stays usable.
func (s *Session) sendPiece(o *outgoing, t *turn, now time.Time) (done bool, err error) {
	begin := o.head.Part * codec.MediaChunkBytes
	end := min(begin+codec.MediaChunkBytes, o.head.Size)
	piece := fragments.Get().(*[fragment]byte)
	defer fragments.Put(piece)
	n := min(fragment, end-o.sent)
	if n, err = o.content.ReadAt(piece[:n], int64(o.sent)); err == io.EOF && o.sent+n == end {
		err = nil
	}
	first, last := o.sent == begin, o.sent+n == end || err != nil

	if first {
		s.flush() // whole frames that were said before
	}
	b := newPiece(n)
	start := engine.BeginFrame(b)
	if first {
		b.B = codec.AppendMediaHead(b.B, &o.head)
	}
	b.B = media.AppendBase64(b.B, piece[:n])
	if last {
		b.B = append(b.B, codec.MediaTail...)
	}
	engine.EndFragment(b, start, first, last)
	o.sent += n
	if s.work.mid = !last; !last {
		s.conn.SendPart(b)
		return false, nil
	}
	s.conn.Send(b)
	s.spoke(t, now)
	o.head.Part++
	o.head.Final = o.head.Part == o.head.Parts-1
	return o.head.Part == o.head.Parts, err
}

// newPiece is a buffer for n bytes of a file: little of it would lie in much memory while the device does not take it.
func newPiece(n int) *engine.Buffer {
	if n < fragment {
		return engine.GetBuffer()
	}
	return engine.GetPiece()
}

func (s *Session) sendFileLink(m *codec.MediaHead, t *turn, now time.Time) {
	if start, ok := s.begin(); ok {
		s.out.B = codec.AppendMediaHead(s.out.B, m)
		s.end(start)
		s.spoke(t, now)
	}
}
