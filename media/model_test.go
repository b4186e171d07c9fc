package media

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// model does what spec 6 says of uploads in the plainest way.
type model struct {
	limits Limits
	open   map[string]*modelUpload
}

type modelUpload struct {
	kind  string
	parts int
	have  map[int][]byte
	last  time.Duration
}

func (u *modelUpload) size() (n int) {
	for _, b := range u.have {
		n += len(b)
	}
	return n
}

func (m *model) add(p *Part, now time.Duration) ([]byte, error) {
	up := m.open[p.ID]
	if p.Parts < 1 || p.Parts > m.limits.Parts || p.Part < 0 || p.Part >= p.Parts {
		return nil, ErrPart
	}
	if up != nil && (up.kind != p.Kind || up.parts != p.Parts) {
		delete(m.open, p.ID)
		return nil, ErrDisagrees
	}
	data, err := reference(p.Data)
	switch {
	case err != nil:
		return nil, err
	case p.Parts == 1 && len(data) > m.limits.File:
		return nil, ErrTooBig
	case p.Parts == 1:
		return data, nil
	case up == nil && len(m.open) == m.limits.Open:
		return nil, ErrOpen
	case up == nil:
		up = &modelUpload{p.Kind, p.Parts, map[int][]byte{}, now}
	}
	delete(m.open, p.ID)
	sum := 0
	for _, other := range m.open {
		sum += other.size()
	}
	up.have[p.Part] = data
	inFile, inSum := m.limits.File-up.size(), m.limits.Bytes-sum-up.size()
	switch {
	case inFile < 0 && inFile <= inSum:
		return nil, ErrTooBig
	case inSum < 0:
		return nil, ErrSum
	case len(up.have) == up.parts:
		var all []byte
		for _, part := range slices.Sorted(maps.Keys(up.have)) {
			all = append(all, up.have[part]...)
		}
		return all, nil
	}
	up.last = now
	m.open[p.ID] = up
	return nil, nil
}

// play reads a story from script, plays it to Uploads and to the model, and compares after every step. At the end, wherever
// that comes, the device goes away and all files are released: not a byte of the budget may be missing.
func play(t *testing.T, script []byte) {
	next := func() (b byte) {
		if len(script) > 0 {
			b, script = script[0], script[1:]
		}
		return b
	}
	limits := Limits{Open: 2, Bytes: 400 * int(next()%4+1), Parts: 5, File: 500 * int(next()%3+1), Idle: 50}
	if next()%4 == 0 {
		limits.Bytes, limits.File = limits.Bytes*200, limits.File*200 // several slabs
	}
	budget := NewBudget(1 << 30)
	if next()%2 == 0 {
		budget = NewBudget(int64(limits.Bytes) / 2)
	}
	u := Uploads{Limits: &limits, Budget: budget}
	m := model{limits, map[string]*modelUpload{}}
	var now time.Duration
	held, lengths := map[*File][]byte{}, []int{0, 1, 2, 3, 4, 5, 6, 50, 60, limits.Bytes / 10, limits.Bytes / 3, limits.File}
	for len(script) > 0 {
		op := next()
		now += time.Duration(op >> 4)
		switch {
		case op%16 < 12:
			a, b, c := next(), next(), next()
			id, n := int(b)%4, lengths[int(a)%len(lengths)]+int(b%3)
			p := &Part{ID: fmt.Sprint(id), Kind: "image", Parts: id + 1, Part: int(c) % (id + 1), Data: spell(content[b:int(b)+n], op%16)}
			p.Filename, p.Caption = "a.png", "caption"
			switch { // now and then a part that does not fit the others
			case a > 250:
				p.Kind = "video"
			case b > 245:
				p.Parts = int(b - 248)
			case c > 250:
				p.Part = int(c) - 252
			}
			used, before := budget.Used(), maps.Clone(m.open)
			f, err := u.Add(p, now)
			if err == ErrBudget {
				need := n
				if before[p.ID] == nil {
					need = min(limits.File, p.Parts*decodedLen(len(p.Data))) // room for the whole upload
				}
				require.Less(t, budget.limit-used, int64(cost(need)*4/3+1024), "there was room in the budget")
				require.Equal(t, used, budget.Used())
				m.open = before
				break
			}
			want, fault := m.add(p, now)
			require.Equal(t, fault, err)
			require.Equal(t, want != nil, f != nil)
			if f != nil {
				held[f] = want
			}
		case op == 13:
			u.Free()
			clear(m.open)
		case op%16 == 14:
			var want []string
			for id, up := range m.open {
				if now-up.last >= limits.Idle {
					want = append(want, id)
					delete(m.open, id)
				}
			}
			require.ElementsMatch(t, want, u.Expire(now))
		default:
			release(t, held)
		}
		compare(t, &u, &m)
	}
	u.Free()
	release(t, held)
	require.Zero(t, budget.Used())
	require.Equal(t, Uploads{Limits: &limits, Budget: budget}, u, "no memory is held")
}

// release checks that files are still what they were, and lets go of them.
func release(t *testing.T, held map[*File][]byte) {
	for f, want := range held {
		require.True(t, bytes.Equal(want, contentOf(f)))
		require.Equal(t, "image/png", f.Mime)
		f.Release()
	}
	clear(held)
}

// compare holds what can be seen of u, and its own accounts, against the model.
func compare(t *testing.T, u *Uploads, m *model) {
	require.Equal(t, len(m.open) == 0, u.Empty())
	require.Len(t, u.open, len(m.open))
	sum, first := 0, time.Duration(1<<62)
	for id, up := range m.open {
		require.True(t, u.Has(id))
		real := u.find(id)
		require.Equal(t, up.size(), real.size)
		require.Equal(t, up.parts-len(up.have), real.missed)
		for _, p := range real.pieces[len(real.pieces):cap(real.pieces)] {
			require.Nil(t, p.b, "a piece that is gone is held")
		}
		sum += up.size()
		first = min(first, up.last+m.limits.Idle)
	}
	require.Equal(t, sum, u.sum)
	at, ok := u.Next()
	require.Equal(t, len(m.open) > 0, ok)
	if ok {
		require.Equal(t, first, at)
	}
}

// spell writes b in one of the ways that a device may or may not write it.
func spell(b []byte, way byte) string {
	text := base64.StdEncoding.EncodeToString(b)
	switch way {
	case 0:
		return strings.TrimRight(text, "=")
	case 1:
		return lines(text)
	case 2:
		return text + "="
	case 3:
		return text[:len(text)/2] + "*" + text[min(len(text), len(text)/2+1):]
	case 4:
		return " \n"
	}
	return text
}

func TestUploadsAgainstTheModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	stories := 500
	if watched {
		stories = 50
	}
	for range stories {
		script := make([]byte, r.IntN(400))
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		play(t, script)
	}
}

func FuzzUploads(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 1, 1, 5, 3, 0, 1, 5, 3, 0, 9, 13})
	f.Add(bytes.Repeat([]byte{0, 0, 0, 1, 5, 7, 0, 1, 6, 7, 0, 9, 14, 255}, 5))
	f.Fuzz(play)
}
