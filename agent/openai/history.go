package openai

import (
	"slices"
	"strings"
	"unicode/utf8"

	"mobilegate/agent"
)

// history is what was said with each owner. It is safe for concurrent use.
type history interface {
	recall(agent.Owner) ([]exchange, error) // in the order in which it was said; the caller does not change it
	add(agent.Owner, exchange) error
	forget(agent.Owner) error
	close() error
}

// exchange is a question and its answer.
type exchange struct {
	Question string `json:"q"`
	Answer   string `json:"a"`
}

func (x exchange) size() int { return len(x.Question) + len(x.Answer) }

// bounds are how long a conversation may become.
type bounds struct{ turns, bytes int }

// append returns a conversation that goes on with x, in memory of its own. Its oldest exchanges are left out as need be; of
// one that is too large by itself the beginning of the question and of the answer stay.
func (b bounds) append(past []exchange, x exchange) []exchange {
	if x.size() > b.bytes {
		x.Question = beginning(x.Question, max(b.bytes/2, b.bytes-len(x.Answer)))
		x.Answer = beginning(x.Answer, b.bytes-len(x.Question))
	}
	room := b.bytes - x.size()
	first := len(past)
	for first > 0 && len(past)-first < b.turns-1 && past[first-1].size() <= room {
		first--
		room -= past[first].size()
	}
	return append(slices.Clone(past[first:]), x)
}

// beginning cuts text between characters to n bytes.
func beginning(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.Clone(text[:n])
}

// memory keeps conversations in memory.
type memory struct {
	bounds bounds
	shelf  *shelf[[]exchange]
}

func newMemory(b bounds, limit int) *memory {
	return &memory{b, newShelf(limit, func(c []exchange) (n int) {
		for _, x := range c {
			n += x.size() + 2*stringSize
		}
		return n
	})}
}

// stringSize is what a string costs beside its text.
const stringSize = 16

func (m *memory) recall(o agent.Owner) ([]exchange, error) { return m.shelf.get(o), nil }

func (m *memory) add(o agent.Owner, x exchange) error {
	m.shelf.update(o, func(past []exchange) []exchange { return m.bounds.append(past, x) })
	return nil
}

func (m *memory) forget(o agent.Owner) error {
	m.shelf.update(o, func([]exchange) []exchange { return nil })
	return nil
}

func (m *memory) close() error { return nil }
