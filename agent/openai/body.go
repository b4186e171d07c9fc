package openai

import (
	"context"
	"errors"
	"io"
	"time"
)

// body is the body of a response that is watched: it fails when its service keeps silent too long, and when too much
// comes. The time in which nobody reads does not count.
type body struct {
	io.ReadCloser // nil until there is a response
	ctx           context.Context
	cancel        context.CancelCauseFunc
	silence       *time.Timer   // ends ctx
	wait          time.Duration // silence that is allowed
	room          int           // bytes that may come yet; who gets on sets it anew
}

// watch begins to watch a call under ctx, which is made with the context of the body.
func watch(ctx context.Context, wait time.Duration) *body {
	b := &body{wait: wait}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.silence = time.AfterFunc(wait, func() { b.cancel(errSilent) })
	return b
}

// asking makes the call; after an error of it, which it returns in words of our own, b is closed.
func (b *body) asking(call func() error) error {
	err := call()
	b.silence.Stop()
	if err != nil {
		err = reason(b.ctx, err)
		b.close()
	}
	return err
}

var errRoom = errors.New("too many bytes")

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.room <= 0 {
		return 0, errRoom
	}
	b.silence.Reset(b.wait)
	n, err := b.ReadCloser.Read(p[:min(len(p), b.room)])
	b.silence.Stop()
	b.room -= n
	return n, err
}

// fault says what err, with which the body ended, means for an answer that is not complete.
func (b *body) fault(err error) error {
	switch {
	case b.ctx.Err() != nil:
		return context.Cause(b.ctx)
	case errors.Is(err, errRoom):
		return errLong
	}
	return errCut
}

func (b *body) close() {
	b.cancel(nil)
	if b.ReadCloser != nil {
		b.ReadCloser.Close()
	}
}
