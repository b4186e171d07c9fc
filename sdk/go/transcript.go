package hermes

// Transcript joins the pieces of messages: chunks of a long one, edits of a streamed one. The zero value is ready to
// use. It keeps only messages that are not complete. Start a new one at each Ready: what was cut off does not go on, and
// a message still running comes again from its beginning. Not for concurrent use.
type Transcript struct {
	open map[string]*partial
}

type partial struct {
	text string
	next int // index of the chunk to come
}

// Add takes a frame and returns the whole text of its message so far, and whether that is all.
func (t *Transcript) Add(m *Message) (text string, final bool) {
	p := t.open[m.ID]
	switch {
	case p == nil || m.Edit || m.Chunk.Index == 0:
		p = &partial{text: m.Text, next: m.Chunk.Index + 1}
	case m.Chunk.Index >= p.next:
		p.text += m.Text
		p.next = m.Chunk.Index + 1
	}
	if m.Final {
		delete(t.open, m.ID)
		return p.text, true
	}
	if t.open == nil {
		t.open = map[string]*partial{}
	}
	t.open[m.ID] = p
	return p.text, false
}
