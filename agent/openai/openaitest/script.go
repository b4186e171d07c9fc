// Package openaitest is a service with the OpenAI API that has no model: it answers with what it was asked, and fails as its
// script says. It is for tests and demonstrations.
package openaitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Script says how the service behaves. The zero value answers everything at once.
type Script struct {
	Key       string   `json:"key,omitempty"`        // the only API key that is accepted; empty: none is looked at
	NoOptions bool     `json:"no_options,omitempty"` // stream_options is refused with 400
	NewLimit  bool     `json:"new_limit,omitempty"`  // so is max_tokens
	Steps     []Step   `json:"steps,omitempty"`      // one for each call that is not refused by the above; then all is well
	Loop      bool     `json:"loop,omitempty"`       // then they begin anew
	Pace      Duration `json:"pace,omitempty"`       // before each word, unless a step says its own
}

// Step is what becomes of one call. The zero value is a full answer, streamed word by word.
type Step struct {
	Wait       Duration `json:"wait,omitempty"`        // before anything at all
	Status     int      `json:"status,omitempty"`      // and nothing else, 200 if it is 0
	RetryAfter string   `json:"retry_after,omitempty"` // header of that status
	Body       string   `json:"body,omitempty"`        // beside the status, or in place of an answer

	Text        string    `json:"text,omitempty"`         // of the answer; empty: "turn N: " and the question
	Pace        *Duration `json:"pace,omitempty"`         // before each word
	Plain       bool      `json:"plain,omitempty"`        // the answer comes whole, though a stream was asked for
	ContentType string    `json:"content_type,omitempty"` // of the answer
	Finish      string    `json:"finish,omitempty"`       // reason, "stop" if it is empty
	Role        bool      `json:"role,omitempty"`         // a chunk without text comes first, as from the service itself
	Reasoning   string    `json:"reasoning,omitempty"`    // comes before the answer
	KeepAlive   int       `json:"keep_alive,omitempty"`   // comments before the answer, in the pace of the words
	Garbage     bool      `json:"garbage,omitempty"`      // between the chunks comes what is none
	Twice       bool      `json:"twice,omitempty"`        // each chunk comes twice
	Endless     bool      `json:"endless,omitempty"`      // the words come again and again
	After       int       `json:"after,omitempty"`        // words, after which Then happens
	Then        Then      `json:"then,omitempty"`
	NoEnd       bool      `json:"no_end,omitempty"` // the mark of the end and the usage are left out
	Linger      bool      `json:"linger,omitempty"` // the connection stays open in their place
}

// Then is how an answer ends too early.
type Then string

const (
	Cut     Then = "cut"     // the connection ends
	Silence Then = "silence" // nothing more comes, and it stays open
	Comment Then = "comment" // nothing but comments, in the pace of the words
	Error   Then = "error"   // an error comes in place of a chunk
)

// Load reads a script in JSON.
func Load(r io.Reader) (s Script, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err = d.Decode(&s); err != nil {
		return s, fmt.Errorf("openaitest: the script: %w", err)
	}
	return s, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Then) UnmarshalText(text []byte) error {
	switch *t = Then(text); *t {
	case Cut, Silence, Comment, Error:
		return nil
	}
	return errors.New("then is one of cut, silence, comment and error")
}

// Duration is written as in "1.5s".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }
