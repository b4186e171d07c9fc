package openai

import (
	"context"
	"encoding/base64"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"mobilegate/agent"
	"mobilegate/internal/picture"
)

// maxDocument is how much of a document the model gets to read, in bytes.
const maxDocument = 32 << 10

// question is what the model is asked.
type question struct {
	text  string // as it stays in the history
	image string // the URL of a picture that has its content in it, or empty
}

// holdsFile tells whether t takes memory for a picture or a recording.
func (a *Agent) holdsFile(t *agent.Turn) bool {
	if f := t.File; f != nil && (f.Kind == "image" || f.Kind == "audio" && t.Text == "") {
		return true
	}
	return a.pictures.get(t.Owner).url != ""
}

// question makes a question of t: a picture is shown to the model, a recording is made into text unless there is a
// transcript, a document is read if it is text. Of a video or another document the model hears only that it came; if nothing
// was said beside it, the reply says so, and the model is not asked.
func (a *Agent) question(ctx context.Context, t *agent.Turn) (q *question, reply string, err error) {
	f := t.File
	if f == nil || f.Kind == "audio" && t.Text != "" {
		return &question{text: t.Text}, "", nil
	}
	switch f.Kind {
	case "image":
		q, err := a.showing(ctx, t)
		return q, "", err
	case "audio":
		return a.hearing(ctx, f)
	case "document":
		if q, err := reading(t); q != nil || err != nil {
			return q, "", err
		}
	}
	if t.Text == "" {
		return nil, "I cannot open a file of this kind. I can look at pictures and read files of plain text.", nil
	}
	return &question{text: "[" + title(f) + ", which cannot be shown to you]\n\n" + t.Text}, "", nil
}

// title is what the model hears of a file.
func title(f *agent.File) string {
	if f.Name == "" {
		return f.Kind
	}
	return f.Kind + " " + strconv.Quote(f.Name)
}

// showing is the question of a picture.
func (a *Agent) showing(ctx context.Context, t *agent.Turn) (*question, error) {
	data, err := contentOf(t.File, t.File.Size)
	if err != nil {
		return nil, err
	}
	data, mime, err := picture.Fit(ctx, data, a.cfg.MaxImage)
	if err != nil {
		return nil, err
	}
	return &question{
		text:  strings.TrimSpace("[" + title(t.File) + "]\n\n" + t.Text),
		image: "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data),
	}, nil
}

// reading is the question of a document; nil if that is no text.
func reading(t *agent.Turn) (*question, error) {
	data, err := contentOf(t.File, min(t.File.Size, maxDocument))
	if err != nil {
		return nil, err
	}
	end := "[end of the document]"
	if t.File.Size > len(data) {
		end = "[the rest of the document was left out]"
		data = data[:runeStart(data)]
	}
	if !utf8.Valid(data) || strings.ContainsFunc(string(data), control) {
		return nil, nil
	}
	return &question{text: strings.TrimSpace("[" + title(t.File) + "]\n" + string(data) + "\n" + end + "\n\n" + t.Text)}, nil
}

// runeStart is where the last character of data begins, which may not be all there.
func runeStart(data []byte) int {
	for i := len(data) - 1; i >= 0 && i >= len(data)-utf8.UTFMax; i-- {
		if utf8.RuneStart(data[i]) {
			return i
		}
	}
	return len(data)
}

// control tells whether no text has r in it.
func control(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\r\f", r) }

// contentOf reads the first n bytes of f.
func contentOf(f *agent.File, n int) ([]byte, error) {
	c, err := f.Open()
	if err != nil {
		return nil, errFile
	}
	defer c.Close()
	data := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(c, 0, int64(n)), data); err != nil {
		return nil, errFile
	}
	return data, nil
}
