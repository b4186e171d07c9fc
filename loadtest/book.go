package loadtest

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"unicode/utf8"
)

// words are of one to four bytes a character, and JSON needs no escape for any of them.
var words = []string{"the", "gateway", "holds", "a", "fleet", "and", "answers", "each", "device", "in", "order;", "не", "теряя", "ни", "слова,",
	"Über", "straße,", "naïve", "café", "日本語", "の", "返事", "👍", "🚀", "0", "42", "3.14", "—", "so", "that", "nobody", "waits."}

// book is what the messages say: each is a piece of it.
var book = func() []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var b []byte
	for len(b) < 16<<10 {
		b = append(append(b, words[random.IntN(len(words))]...), ' ')
	}
	return b
}()

// runLength is that of a run's name.
const runLength = 8

// mark is what a message begins with, so that its answer says whose it is: run, number of the device, number of the message.
type mark struct {
	run    string
	device int
	seq    uint32
}

// minText is the least size of a message: room for any mark.
const minText = runLength + 1 + 10 + 1 + 10 + 1

func appendMark(b []byte, m mark) []byte {
	b = append(append(b, m.run...), ' ')
	b = append(strconv.AppendInt(b, int64(m.device), 10), ' ')
	return append(strconv.AppendUint(b, uint64(m.seq), 10), ' ')
}

// appendText adds the text that m says in a run with this seed: the same every time, so that it need not be kept.
func appendText(b []byte, m mark, seed uint64, minSize, maxSize int) []byte {
	random := rand.NewPCG(seed^uint64(m.device)<<32, uint64(m.seq))
	start := len(b)
	size := minSize + int(random.Uint64()%uint64(maxSize-minSize+1))
	b = appendMark(b, m)
	for at := int(random.Uint64() % uint64(len(book))); len(b)-start < size; at = 0 {
		piece := book[at:]
		for !utf8.RuneStart(piece[0]) {
			piece = piece[1:]
		}
		if room := size - (len(b) - start); len(piece) > room {
			for room > 0 && !utf8.RuneStart(piece[room]) {
				room--
			}
			if piece = piece[:room]; room == 0 {
				break
			}
		}
		b = append(b, piece...)
	}
	return b
}

// parseMark reads the mark of a text; run borrows from it.
func parseMark(text []byte) (run []byte, device int, seq uint32, ok bool) {
	if len(text) < runLength+1 || text[runLength] != ' ' {
		return nil, 0, 0, false
	}
	number, rest, ok1 := bytes.Cut(text[runLength+1:], []byte{' '})
	device, ok2 := digits(number)
	number, _, ok3 := bytes.Cut(rest, []byte{' '})
	n, ok4 := digits(number)
	return text[:runLength], device, uint32(n), ok1 && ok2 && ok3 && ok4 && n <= 1<<32-1
}

func digits(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, 0 < len(b) && len(b) <= 10
}
