package hermes

import "slices"

// Transcript joins the pieces of messages: chunks of a long one, edits of a streamed one. The zero value is ready to
// use. It keeps only long messages that are not complete. Start a new one at each Ready: what was cut off does not go on,
// and a message still running comes again from its beginning. Not for concurrent use.
type Transcript struct {
	open []partial // oldest first
	held int       // bytes of their texts
}

type partial struct {
	id, text string
	next     int // index of the chunk to come
}

// What a gateway that never ends its messages can make an application keep; the oldest is forgotten first.
const (
	maxPartials    = 32
	maxPartialText = 4 << 20
)

// Add takes a frame and returns the whole text of its message so far, and whether that is all.
func (t *Transcript) Add(m *Message) (text string, final bool) {
	p := partial{id: m.ID, text: m.Text, next: m.Chunk.Index + 1}
	if i := slices.IndexFunc(t.open, func(p partial) bool { return p.id == m.ID }); i >= 0 {
		begun := t.open[i]
		t.drop(i)
		if !m.Edit && m.Chunk.Index > 0 {
			p = begun
			if m.Chunk.Index >= p.next { // else it came twice
				p.text, p.next = p.text+m.Text, m.Chunk.Index+1
			}
		}
	}
	if !m.Final && p.next < m.Chunk.Total {
		t.open, t.held = append(t.open, p), t.held+len(p.text)
		for len(t.open) > maxPartials || t.held > maxPartialText {
			t.drop(0)
		}
	}
	return p.text, m.Final
}

func (t *Transcript) drop(i int) {
	t.held -= len(t.open[i].text)
	t.open = slices.Delete(t.open, i, i+1)
}
