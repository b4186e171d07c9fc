package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"mobilegate/agent"
)

// maxTranscript bounds a transcript, in bytes.
const maxTranscript = 48 << 10

// hearing is the question of a recording that came without a transcript.
func (a *Agent) hearing(ctx context.Context, f *agent.File) (q *question, reply string, err error) {
	if a.cfg.TranscribeModel == "" {
		return nil, "I cannot listen to recordings that come without a transcript. Please write instead.", nil
	}
	data, err := contentOf(f, f.Size)
	if err != nil {
		return nil, "", err
	}
	var text string
	err = a.service.Do(ctx, func() (err error) {
		text, err = a.transcribe(ctx, data, f.Mime)
		return once(err)
	})
	if err == nil && text == "" {
		return nil, "I could not hear any words in this recording.", nil
	}
	return &question{text: text}, "", err
}

// transcribe makes one call.
func (a *Agent) transcribe(ctx context.Context, data []byte, mime string) (string, error) {
	ending, mime := recorded(mime)
	b := watch(ctx, a.cfg.FirstTimeout)
	var res *http.Response
	if err := b.asking(func() error {
		_, err := a.client.Audio.Transcriptions.New(b.ctx, openai.AudioTranscriptionNewParams{
			File:  openai.File(bytes.NewReader(data), "recording"+ending, mime),
			Model: openai.AudioModel(a.cfg.TranscribeModel),
		}, option.WithResponseBodyInto(&res))
		return err
	}); err != nil {
		return "", err
	}
	b.ReadCloser, b.room = res.Body, 4*maxTranscript
	defer b.close()
	body, err := io.ReadAll(b)
	if err != nil {
		return "", b.fault(err)
	}
	var heard struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(body, &heard) != nil || heard.Text == nil {
		return "", errAnswer
	}
	if len(*heard.Text) > maxTranscript {
		return "", errLong
	}
	return strings.TrimSpace(*heard.Text), nil
}

// recorded says what the name of a recording ends with, since services go by it, and its type: one of ours, whatever the device
// calls it.
func recorded(mime string) (ending, plain string) {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	switch strings.TrimSpace(mime) {
	case "audio/ogg", "audio/opus", "application/ogg":
		return ".ogg", "audio/ogg"
	case "audio/mpeg", "audio/mp3":
		return ".mp3", "audio/mpeg"
	case "audio/mp4", "audio/m4a", "audio/x-m4a", "audio/aac", "video/mp4":
		return ".m4a", "audio/mp4"
	case "audio/webm", "video/webm":
		return ".webm", "audio/webm"
	case "audio/flac", "audio/x-flac":
		return ".flac", "audio/flac"
	}
	return ".wav", "audio/wav"
}
