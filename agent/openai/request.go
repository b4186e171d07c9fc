package openai

import (
	"encoding/json"

	"mobilegate/agent"
)

// request is the body of a call. The library's own types of it, and of a chunk of an answer, take four times the time and
// up to fourteen times the memory of these.
type request struct {
	Model       string         `json:"model"`
	Messages    []message      `json:"messages"`
	Stream      bool           `json:"stream"`
	Options     *streamOptions `json:"stream_options,omitempty"`
	Temperature *float64       `json:"temperature,omitempty"`
	MaxTokens   int            `json:"max_tokens,omitempty"`
	MaxNew      int            `json:"max_completion_tokens,omitempty"` // what newer models call max_tokens
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // a string, or []part
}

type part struct {
	Type  string    `json:"type"`
	Text  string    `json:"text,omitempty"`
	Image *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

// The forms of a request, in the order in which they are tried until the service takes one; it keeps to that then.
const (
	formUsage    = iota // asks for the usage
	formPlain           // does not
	formMaxNew          // asks for the usage, and says max_completion_tokens
	formMaxPlain        // says that, and does not ask
)

// lastForm is the last one in which r differs from those before.
func (r *request) lastForm() int32 {
	if r.MaxTokens == 0 {
		return formPlain
	}
	return formMaxPlain
}

// encode returns r in that form.
func (r request) encode(form int32) ([]byte, error) {
	if form == formUsage || form == formMaxNew {
		r.Options = &streamOptions{IncludeUsage: true}
	}
	if form >= formMaxNew {
		r.MaxTokens, r.MaxNew = 0, r.MaxTokens
	}
	return json.Marshal(r)
}

// request makes the body for q: what the model is told first, the conversation so far, and the question.
func (a *Agent) request(o agent.Owner, q *question) *request {
	past, err := a.history.recall(o)
	if err != nil {
		a.service.Warn("a conversation was not remembered", "err", err)
	}
	r := &request{Model: a.cfg.Model, Stream: true, Temperature: a.cfg.Temperature, MaxTokens: a.cfg.MaxTokens}
	if a.cfg.System != "" {
		r.Messages = append(r.Messages, message{"system", a.cfg.System})
	}
	last := a.pictures.get(o)
	for i, x := range past {
		url := ""
		if len(past)-1-i == last.ago {
			url = last.url
		}
		r.Messages = append(r.Messages, message{"user", asked(x.Question, url)}, message{"assistant", x.Answer})
	}
	r.Messages = append(r.Messages, message{"user", asked(q.text, q.image)})
	return r
}

// asked is what a message of the user holds, with a picture unless url is empty.
func asked(text, url string) any {
	if url == "" {
		return text
	}
	return []part{{Type: "text", Text: text}, {Type: "image_url", Image: &imageURL{url}}}
}

// shown is the last picture of an owner, sent again with the next questions.
type shown struct {
	url string // with the content in it; empty: none
	ago int    // how many questions were answered since the one that it came with
}

const (
	pictureTurns = 4        // questions that a picture is sent with
	maxPictures  = 32 << 20 // bytes of all pictures that are kept for that; the oldest go
)

func (p shown) size() int { return len(p.url) }
