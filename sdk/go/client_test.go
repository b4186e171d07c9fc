package hermes

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func client(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := NewClient(cfg)
	require.NoError(t, err)
	return c
}

// ready is a client that is connected until the end of the test, and whose events nobody wants.
func ready(t *testing.T, cfg Config) *Client {
	t.Helper()
	c := client(t, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	connected := make(chan struct{})
	var looping sync.WaitGroup
	looping.Go(func() {
		for ev := range c.Events(ctx) {
			if _, ok := ev.Frame.(*Ready); ok {
				close(connected)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		looping.Wait()
	})
	<-connected
	return c
}

func TestClientTellsItsStates(t *testing.T) {
	cfg := gateway(t, func(p *peer) {
		p.hear()
		switch p.n {
		case 1:
			p.say(readyFrame, `{"t":"message","id":"m","text":"a","chunk":{"index":0,"total":2}}`)
			p.close(1001, "going away")
		case 2, 3:
			p.close(1013, "overloaded")
		case 4:
			p.say(readyFrame, `{"t":"message","id":"m","text":"b","chunk":{"index":1,"total":2},"final":true}`,
				`{"t":"hologram"}`, `{"t":"error","code":"forbidden","message":"No.","fatal":true}`)
			p.close(1008, "forbidden")
		}
	})
	c := client(t, cfg)
	require.Equal(t, Idle, c.State())
	var story []string
	for ev, err := range c.Events(within(t)) {
		switch f := ev.Frame.(type) {
		case *StateChange:
			story = append(story, strings.TrimSpace(fmt.Sprint(f.State, " ", f.Attempt)))
			require.Equal(t, f.State == Reconnecting || f.State == Failed, f.Err != nil)
		case *Ready:
			story = append(story, "ready")
		case *Message:
			story = append(story, f.Text)
		case *Error:
			story = append(story, f.Code)
		case nil:
			story = append(story, err.Error())
		}
	}
	require.Equal(t, []string{"connecting 0", "connected 0", "ready", "a", "reconnecting 1", "reconnecting 2", "reconnecting 3",
		"connected 0", "ready", "b", "forbidden", "failed 0", "closed by the gateway (1008): forbidden: No."}, story)
	require.Equal(t, Failed, c.State())
}

// TestClientLeavesPolitely: whoever leaves the loop leaves nothing behind; TestMain looks for goroutines.
func TestClientLeavesPolitely(t *testing.T) {
	closed := make(chan error, 1)
	cfg := gateway(t, func(p *peer) {
		p.hear()
		p.say(readyFrame)
		_, _, err := p.ws.Read(p.ctx)
		closed <- err
	})
	c := client(t, cfg)
	for ev := range c.Events(within(t)) {
		if _, ok := ev.Frame.(*Ready); ok {
			for _, err := range c.Events(within(t)) {
				require.ErrorIs(t, err, errTwice)
			}
			break
		}
	}
	require.Equal(t, Idle, c.State())
	require.ErrorContains(t, <-closed, "StatusNormalClosure")
	_, err := c.SendText(within(t), "hi")
	require.ErrorIs(t, err, ErrOffline)
	_, err = c.SendMedia(within(t), Upload{Kind: "image", Data: []byte("x")})
	require.ErrorIs(t, err, ErrOffline)
}

// TestNothingIsLeft: where Events has returned, the goodbye is over as well.
func TestNothingIsLeft(t *testing.T) {
	cfg := gateway(t, func(p *peer) {
		p.hear()
		p.say(readyFrame)
		p.hear()
	})
	c := client(t, cfg)
	for range 50 {
		for ev := range c.Events(within(t)) {
			if _, ok := ev.Frame.(*Ready); ok {
				break
			}
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		require.NotContains(t, string(stacks), "sdk/go.(*Conn)")
	}
}

// TestAnswersThatDoNotCome: nobody waits for ever, and an answer reaches who asked, from inside the loop as well.
func TestAnswersThatDoNotCome(t *testing.T) {
	cfg := gateway(t, func(p *peer) {
		p.hear()
		p.say(readyFrame)
		if p.n > 1 {
			for p.hear() != nil { // answers nothing
			}
			return
		}
		p.hear()
		p.say(`{"t":"delivered","id":"another","device":"x"}`, `{"t":"error","code":"rate_limited","message":"Wait.","id":"d","retry_after_ms":250}`)
		p.hear()
		p.close(1001, "going away")
	})
	c := client(t, cfg)
	ctx := within(t)
	asked := 0
	for ev, err := range c.Events(ctx) {
		require.NoError(t, err)
		switch f := ev.Frame.(type) {
		case *Delivered:
			require.Equal(t, "another", f.ID)
		case *Error:
			require.Fail(t, "this one is for Deliver")
		case *Ready:
			if asked++; asked == 1 {
				var refused *Error
				_, err := c.Deliver(ctx, Deliver{ID: "d", Text: "x"})
				require.ErrorAs(t, err, &refused)
				require.EqualValues(t, 250, refused.RetryAfterMS)
				_, err = c.Ping(ctx)
				require.EqualError(t, err, "no answer: closed by the gateway (1001): going away")
				continue
			}
			c.patience = time.Millisecond
			_, err := c.Ping(ctx)
			require.ErrorIs(t, err, ErrNoAnswer)
			c.patience = time.Hour
			short, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Millisecond, cancel)
			_, err = c.Ping(short)
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, c.waiting)
		}
		if asked == 2 {
			break
		}
	}
}

func TestOneDeliveryAtATimeWithAnID(t *testing.T) {
	c := client(t, Config{URL: "ws://h/ws", Token: secret})
	c.waiting[waitsFor{"delivered", "d"}] = make(chan answer, 1)
	_, err := c.Deliver(t.Context(), Deliver{ID: "d", Text: "x"})
	require.EqualError(t, err, "a delivery with this id is under way")
}

func TestClientRefusesByItself(t *testing.T) {
	c := client(t, Config{URL: "ws://h/ws", Token: secret})
	for says, u := range map[string]Upload{
		"must be one of":            {Kind: "voice", Data: []byte("x")},
		"empty":                     {Kind: "image"},
		"is empty":                  {Kind: "image", Reader: strings.NewReader("")},
		"no such file":              {Kind: "image", Path: t.TempDir() + "/none"},
		"at most 8388608 bytes":     {Kind: "image", Data: make([]byte, MaxMediaBytes+1)},
		"cannot be":                 {Kind: "image", Reader: iotest.ErrReader(errors.New("cannot be read"))},
		"at most 8388608 bytes can": {Kind: "image", Reader: endless{}},
	} {
		_, err := c.SendMedia(t.Context(), u)
		require.ErrorContains(t, err, says)
	}
	for says, data := range map[string][]byte{"empty": nil, "at most 8388608 bytes": make([]byte, MaxMediaBytes+1)} {
		_, err := c.SendAudio(t.Context(), Audio{Format: "wav", Data: data})
		require.ErrorContains(t, err, says)
		_, err = c.Deliver(t.Context(), Deliver{Text: "x", Media: &Attachment{Kind: "image", Data: data}})
		require.ErrorContains(t, err, says)
	}
	require.ErrorIs(t, c.AnswerPrompt(t.Context(), "", "once", ""), errEmptyAnswer)
	require.ErrorIs(t, c.AnswerPrompt(t.Context(), "p", "", ""), errEmptyAnswer)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestUploadOverABrokenConnection(t *testing.T) {
	parts := make(chan any, 10)
	c := dial(t, gateway(t, func(p *peer) {
		p.hear()
		p.say(readyFrame)
		for f := p.hear(); f != nil; f = p.hear() {
			parts <- []any{f["part"], f["parts"], len(f["data"].(string))}
		}
	}))
	require.NoError(t, c.upload(within(t), chunk{ID: "u", Kind: "video"}, make([]byte, MaxMediaBytes), MediaChunkBytes))
	require.Equal(t, []any{0.0, 3.0, 4 << 20}, <-parts)
	require.Equal(t, []any{1.0, 3.0, 4 << 20}, <-parts)
	require.Equal(t, []any{2.0, 3.0, (2<<20 + 2) / 3 * 4}, <-parts)
	c.ws.CloseNow()
	require.Error(t, c.upload(within(t), chunk{ID: "u", Kind: "video"}, []byte("x"), 1))
}

// TestQueueKeepsSoMuch: when the application takes nothing, the reader waits, and what was kept is not lost.
func TestQueueKeepsSoMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		const n, size = 100, 1 << 20
		go func() {
			for i := range n {
				q.put(t.Context(), i, size)
			}
			q.end(errors.New("the end"))
		}()
		synctest.Wait()
		require.Len(t, q.events, maxQueued/(size+eventBytes))
		for i := range n {
			frame, err := q.take()
			require.NoError(t, err)
			require.Equal(t, i, frame)
		}
		_, err := q.take()
		require.EqualError(t, err, "the end")
		require.Zero(t, q.held)

		q.put(t.Context(), "alone", 2*maxQueued)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		q.put(ended, "dropped", 1)
		require.Len(t, q.events, 1)
	})
}
