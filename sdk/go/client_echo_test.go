package hermes_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	hermes "mobilegate/sdk/go"

	"github.com/stretchr/testify/require"
)

// phone is a client of the real gateway, whose loop runs beside the test.
type phone struct {
	*hermes.Client
	t      *testing.T
	ctx    context.Context
	events chan any
}

func connect(t *testing.T, cfg hermes.Config) *phone {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // only a failing test takes so long
	c, err := hermes.NewClient(cfg)
	require.NoError(t, err)
	p := &phone{Client: c, t: t, ctx: ctx, events: make(chan any)}
	go func() {
		defer close(p.events)
		for ev, err := range c.Events(ctx) {
			if err != nil {
				return
			}
			select {
			case p.events <- ev.Frame:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range p.events {
		}
		require.Contains(t, []hermes.State{hermes.Idle, hermes.Failed}, c.State())
	})
	require.Equal(t, "mobile:"+cfg.Device.ID, await[*hermes.Ready](p).Session)
	require.Equal(t, hermes.Connected, c.State())
	return p
}

// await returns the next event of one type; what comes before it is left out.
func await[F any](p *phone) F {
	p.t.Helper()
	for ev := range p.events {
		if f, ok := ev.(F); ok {
			return f
		}
	}
	require.FailNow(p.t, "the loop has ended", "no %T came", *new(F))
	panic("not reached")
}

// says sends a text and returns the whole answer, and how many events it came in.
func (p *phone) says(text string) (reply string, events int) {
	p.t.Helper()
	_, err := p.SendText(p.ctx, text)
	require.NoError(p.t, err)
	for {
		m := await[*hermes.Message](p)
		if events++; m.Final {
			return m.Whole, events
		}
	}
}

func gateway(t *testing.T) (url string) {
	url, stop := startGateway()
	t.Cleanup(stop)
	return url
}

func TestConversationWithEcho(t *testing.T) {
	p := connect(t, config(gateway(t), "tel-1"))
	reply, _ := p.says("hello")
	require.Equal(t, "hello", reply)
	require.Equal(t, "speaking", await[*hermes.Avatar](p).State)
	for !await[*hermes.Typing](p).Stop {
	}

	reply, _ = p.says("/stream one two three")
	require.Equal(t, "one two three", reply)
	reply, events := p.says("/long 9000")
	require.Equal(t, 9000, utf8.RuneCountInString(reply), "the chunks are joined")
	require.Equal(t, 3, events)

	took, err := p.Ping(p.ctx)
	require.NoError(t, err)
	require.Positive(t, took)
	require.Less(t, took, 10*time.Second)
	require.NoError(t, p.SendTyping(p.ctx))
	require.NoError(t, p.Acknowledge(p.ctx, "m-1"))

	id, err := p.SendText(p.ctx, " ")
	require.NoError(t, err)
	refused := await[*hermes.Error](p)
	require.Equal(t, []any{"bad_frame", id, false}, []any{refused.Code, refused.ID, refused.Fatal})
}

func TestCardsWithEcho(t *testing.T) {
	p := connect(t, config(gateway(t), "tel-1"))
	_, err := p.SendText(p.ctx, "/approve ls -l")
	require.NoError(t, err)
	card := await[*hermes.Prompt](p)
	require.Equal(t, "ls -l", card.Command)
	require.NoError(t, p.AnswerPrompt(p.ctx, card.ID, "ONCE", ""))
	require.Equal(t, &hermes.PromptDone{ID: card.ID, OptionID: "once"}, await[*hermes.PromptDone](p))

	_, err = p.SendText(p.ctx, "/ask which? | left | right")
	require.NoError(t, err)
	card = await[*hermes.Prompt](p)
	require.NoError(t, p.AnswerPrompt(p.ctx, card.ID, "", "straight on"))
	require.Equal(t, "other", await[*hermes.PromptDone](p).OptionID)
	require.Contains(t, await[*hermes.Message](p).Text, "straight on")

	require.NoError(t, p.AnswerPrompt(p.ctx, "long-gone", "once", ""))
	require.True(t, await[*hermes.PromptDone](p).Expired)
}

func TestFilesWithEcho(t *testing.T) {
	p := connect(t, config(gateway(t), "tel-1"))
	whole := bytes.Repeat([]byte("every byte counts. "), hermes.MaxMediaBytes/19+1)[:hermes.MaxMediaBytes]
	photo := filepath.Join(t.TempDir(), "photo.jpg")
	require.NoError(t, os.WriteFile(photo, whole[:hermes.MediaChunkBytes+1], 0o600))
	for _, u := range []hermes.Upload{
		{Kind: "document", Data: whole, Filename: "all.bin", Mime: "application/x-all"},
		{Kind: "image", Path: photo, Caption: "look"},
		{Kind: "video", Reader: strings.NewReader("moving")},
	} {
		id, err := p.SendMedia(p.ctx, u)
		require.NoError(t, err)
		back := await[*hermes.Media](p)
		require.Equal(t, id, back.ReplyTo)
		require.Equal(t, u.Kind, back.Kind)
		switch u.Kind {
		case "document":
			require.Equal(t, "application/x-all", back.Mime)
			require.True(t, bytes.Equal(whole, back.Data))
		case "image":
			require.Equal(t, []string{"photo.jpg", "image/jpeg"}, []string{back.Filename, back.Mime})
			require.True(t, bytes.Equal(whole[:hermes.MediaChunkBytes+1], back.Data))
			require.Equal(t, "look", await[*hermes.Message](p).Text)
		case "video":
			require.Equal(t, "moving", string(back.Data))
		}
	}
	id, err := p.SendAudio(p.ctx, hermes.Audio{Format: "ogg", Data: []byte("OggS"), Text: "what was said"})
	require.NoError(t, err)
	back := await[*hermes.Media](p)
	require.Equal(t, []string{"voice", id, "OggS"}, []string{back.Kind, back.ReplyTo, string(back.Data)})
	require.Equal(t, "what was said", await[*hermes.Message](p).Text)
}

func TestDeliveryWithEcho(t *testing.T) {
	url := gateway(t)
	p, cron := connect(t, config(url, "tel-1")), connect(t, config(url, "cron"))
	d := hermes.Deliver{ID: "today", Target: "mobile:tel-1", Text: "good morning", Media: &hermes.Attachment{Kind: "image", Data: []byte("sun")}}
	for range 2 { // the second time nothing is delivered
		device, err := cron.Deliver(cron.ctx, d)
		require.NoError(t, err)
		require.Equal(t, "tel-1", device)
	}
	require.Equal(t, "good morning", await[*hermes.Message](p).Text)
	require.Equal(t, "sun", string(await[*hermes.Media](p).Data))
	reply, events := p.says("was that all?")
	require.Equal(t, "was that all?", reply)
	require.Equal(t, 1, events)

	var refused *hermes.Error
	_, err := cron.Deliver(cron.ctx, hermes.Deliver{Target: "nobody", Text: "hi"})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "device_offline", refused.Code)
	require.ErrorContains(t, err, "device_offline: ")
}

func TestTakenOver(t *testing.T) {
	url := gateway(t)
	first := connect(t, config(url, "tel-1"))
	again := config(url, "tel-1")
	again.ReconnectWhenReplaced = true
	second := connect(t, again)
	gone := await[*hermes.StateChange](first)
	require.Equal(t, hermes.Failed, gone.State)
	var why *hermes.CloseError
	require.ErrorAs(t, gone.Err, &why)
	require.Equal(t, "replaced", why.ErrorCode())
	require.Equal(t, hermes.Failed, first.State())

	third, err := hermes.Dial(t.Context(), config(url, "tel-1"))
	require.NoError(t, err)
	defer third.Close()
	require.Equal(t, hermes.Reconnecting, await[*hermes.StateChange](second).State)
	await[*hermes.Ready](second)
}

func TestRefusedForGood(t *testing.T) {
	cfg := config(gateway(t), "tel-1")
	cfg.Token = "another"
	c, err := hermes.NewClient(cfg)
	require.NoError(t, err)
	var states []hermes.State
	for ev, err := range c.Events(t.Context()) {
		if change, ok := ev.Frame.(*hermes.StateChange); ok {
			states = append(states, change.State)
		}
		if err != nil {
			var why *hermes.CloseError
			require.ErrorAs(t, err, &why)
			require.Equal(t, "auth_failed", why.ErrorCode())
			require.True(t, hermes.Final(err))
		}
	}
	require.Equal(t, []hermes.State{hermes.Connecting, hermes.Failed}, states)
}
