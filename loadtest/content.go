package loadtest

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"mobilegate/codec"
	"mobilegate/engine"
)

// The kinds of message.
const (
	text uint8 = iota
	audio
	media
	messageKinds
)

// noise is what files are made of.
var noise = func() []byte {
	random := rand.NewPCG(3, 4)
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(random.Uint64() >> 24)
	}
	return b
}()

// draw is a source of random numbers for one message: the same every time. what tells several from each other.
func (f *fleet) draw(d *device, seq uint32, what uint64) *rand.PCG {
	return rand.NewPCG(f.cfg.Seed^uint64(d.number)<<32, uint64(seq)|what<<32)
}

// kind draws what a message is.
func (f *fleet) kind(d *device, seq uint32) uint8 {
	m := &f.phase.Mix
	at := float64(f.draw(d, seq, 1).Uint64()>>11) / (1 << 53) * (m.Text + m.Audio + m.Media)
	switch {
	case at < m.Text || m.Audio+m.Media == 0:
		return text
	case at < m.Text+m.Audio || m.Media == 0:
		return audio
	}
	return media
}

// appendContent adds what message m of d says, text or file.
func (f *fleet) appendContent(b []byte, d *device, m *message) []byte {
	p, its := f.phases[m.phase].Phase, mark{f.run, int(d.number), m.seq}
	if m.kind == text {
		return appendText(b, its, f.cfg.Seed, p.MinSize, p.MaxSize)
	}
	random := f.draw(d, m.seq, 2)
	size := len(b) + p.MinFile + int(random.Uint64()%uint64(p.MaxFile-p.MinFile+1))
	b = appendMark(b, its)
	for at := int(random.Uint64() % uint64(len(noise))); len(b) < size; at = 0 {
		b = append(b, noise[at:min(len(noise), at+size-len(b))]...)
	}
	return b[:size]
}

// appendFrameID adds the id of a message: run, device, number.
func (f *fleet) appendFrameID(b []byte, d *device, seq uint32) []byte {
	b = append(append(b, f.run...), '-')
	b = append(strconv.AppendInt(b, int64(d.number), 10), '-')
	return strconv.AppendUint(b, uint64(seq), 10)
}

// parseFrameID reads what appendFrameID wrote.
func parseFrameID(id []byte) (run []byte, device int, seq uint32, ok bool) {
	run, rest, _ := bytes.Cut(id, []byte{'-'})
	number, rest, _ := bytes.Cut(rest, []byte{'-'})
	device, ok1 := digits(number)
	n, ok2 := digits(rest)
	return run, device, uint32(n), len(run) == runLength && ok1 && ok2 && n <= 1<<32-1
}

// send sends message m of d.
func (f *fleet) send(d *device, m *message) {
	if m.kind == text {
		b, start := f.frame(`{"t":"text","id":"`)
		b.B = append(f.appendFrameID(b.B, d, m.seq), `","text":"`...)
		b.B = append(f.appendContent(b.B, d, m), `"}`...)
		f.post(d, b, start)
		return
	}
	f.scratch = f.appendContent(f.scratch[:0], d, m)
	if m.kind == audio {
		b, start := f.frame(`{"t":"audio","id":"`)
		b.B = append(f.appendFrameID(b.B, d, m.seq), `","format":"ogg","data":"`...)
		b.B = append(base64.StdEncoding.AppendEncode(b.B, f.scratch), `"}`...)
		f.post(d, b, start)
		return
	}
	parts := (len(f.scratch)-1)/f.phase.Part + 1
	for part := range parts {
		piece := f.scratch[part*f.phase.Part : min((part+1)*f.phase.Part, len(f.scratch))]
		b, start := f.frame(`{"t":"media","id":"`)
		b.B = append(f.appendFrameID(b.B, d, m.seq), `","kind":"document","filename":"load.bin","part":`...)
		b.B = append(strconv.AppendInt(b.B, int64(part), 10), `,"parts":`...)
		b.B = append(strconv.AppendInt(b.B, int64(parts), 10), `,"data":"`...)
		b.B = append(base64.StdEncoding.AppendEncode(b.B, piece), `"}`...)
		f.post(d, b, start)
	}
}

func (f *fleet) frame(begin string) (b *engine.Buffer, start int) {
	b = engine.GetBuffer()
	start = engine.BeginMasked(b)
	b.B = append(b.B, begin...)
	return b, start
}

func (f *fleet) post(d *device, b *engine.Buffer, start int) {
	f.client.EndMasked(b, start)
	d.link.Send(b)
}

// hearMedia takes a chunk of a file that comes back: the very bytes that were sent, in order.
func (d *device) hearMedia(now time.Time) {
	f, h := d.fleet, &d.fleet.heard
	replyTo, ok1 := unquote(h.replyTo)
	quoted, ok2 := unquote(h.data)
	if !ok1 || !ok2 {
		f.figures.Counts[Malformed]++
		return
	}
	run, device, seq, ok := parseFrameID(replyTo)
	if h.part == 0 || d.answer.seq != seq {
		if seq, ok = d.whose(run, device, seq, ok); !ok {
			return
		}
		d.begin(answer{seq: seq}, now)
	}
	at := d.find(d.answer.seq)
	right := false
	if at >= 0 {
		kind := d.asked[at].kind
		f.scratch = f.appendContent(f.scratch[:0], d, &d.asked[at])
		f.decoded = slices.Grow(f.decoded[:0], len(quoted))[:len(quoted)]
		n, err := base64.RawStdEncoding.Decode(f.decoded, bytes.TrimRight(quoted, "="))
		want, _ := unquote(h.kind)
		right = err == nil && kind != text && h.size == len(f.scratch) && string(want) == map[uint8]string{audio: codec.MediaVoice, media: codec.MediaDocument}[kind] &&
			(d.answer.offset > 0 || h.part == 0) &&
			d.answer.offset <= len(f.scratch) && bytes.HasPrefix(f.scratch[d.answer.offset:], f.decoded[:n])
		d.answer.offset += n
	}
	d.heardPiece(at, right, h.final, now)
}
