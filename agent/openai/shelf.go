package openai

import (
	"container/list"
	"strings"
	"sync"

	"mobilegate/agent"
)

// shelf keeps something of each owner, within so many bytes of all of them; what was changed longest ago goes first. It is
// safe for concurrent use.
type shelf[V any] struct {
	limit int
	size  func(V) int // of something; 0 is nothing, and takes no place

	mu    sync.Mutex
	used  int
	of    map[agent.Owner]*list.Element
	order list.List // of *place[V], what was changed last in front
}

type place[V any] struct {
	owner agent.Owner
	v     V
	size  int
}

// placeSize is what a place costs beside what lies there and its owner's strings: with its element and its entry of the map.
const placeSize = 300

func newShelf[V any](limit int, size func(V) int) *shelf[V] {
	return &shelf[V]{limit: limit, size: size, of: make(map[agent.Owner]*list.Element)}
}

// get returns what is kept of o, or the zero value.
func (s *shelf[V]) get(o agent.Owner) (v V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of[o]; e != nil {
		v = e.Value.(*place[V]).v
	}
	return v
}

// update changes what is kept of o.
func (s *shelf[V]) update(o agent.Owner, change func(V) V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var v V
	if e := s.of[o]; e != nil {
		v = e.Value.(*place[V]).v
		s.remove(e)
	}
	v = change(v)
	n := s.size(v)
	if n == 0 {
		return
	}
	o = agent.Owner{Device: strings.Clone(o.Device), Entry: strings.Clone(o.Entry)} // it may be part of something larger
	p := &place[V]{o, v, n + placeSize + len(o.Device) + len(o.Entry)}
	s.of[o] = s.order.PushFront(p)
	s.used += p.size
	for s.used > s.limit {
		s.remove(s.order.Back())
	}
}

func (s *shelf[V]) remove(e *list.Element) {
	p := s.order.Remove(e).(*place[V])
	delete(s.of, p.owner)
	s.used -= p.size
}
