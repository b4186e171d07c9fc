package hermes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Send writes one frame to the ready connection, or returns [ErrOffline]. Frames whose id the application chose itself
// go this way: one that may not have arrived can be sent again with the same id.
func (c *Client) Send(ctx context.Context, f Outgoing) error { return c.session.Send(ctx, f) }

// SendText sends one message to the agent and returns its id, which an [Error] about it carries.
func (c *Client) SendText(ctx context.Context, text string) (id string, err error) {
	id = NewID()
	return id, c.Send(ctx, Text{ID: id, Text: text})
}

// SendAudio sends one voice message; without an ID it gets a new one.
func (c *Client) SendAudio(ctx context.Context, a Audio) (id string, err error) {
	if err := checkFile(a.Data); err != nil {
		return "", err
	}
	if a.ID == "" {
		a.ID = NewID()
	}
	return a.ID, c.Send(ctx, a)
}

var errEmptyAnswer = errors.New("an answer needs the id of its card, and an option or a text")

// AnswerPrompt answers a card with one of its options, with a text, or for clarify with the option "other" and a text.
func (c *Client) AnswerPrompt(ctx context.Context, promptID, optionID, text string) error {
	if promptID == "" || optionID == "" && text == "" {
		return errEmptyAnswer
	}
	return c.Send(ctx, Answer{PromptID: promptID, OptionID: strings.ToLower(optionID), Text: text})
}

// SendTyping says that somebody is typing.
func (c *Client) SendTyping(ctx context.Context) error { return c.Send(ctx, Typing{}) }

// Acknowledge says that the message with this id was shown or played.
func (c *Client) Acknowledge(ctx context.Context, id string) error { return c.Send(ctx, Ack{ID: id}) }

// ErrNoAnswer is what [Client.Ping] and [Client.Deliver] return after 30 s: some gateways confirm no delivery.
var ErrNoAnswer = errors.New("the gateway did not answer")

// Ping asks the gateway for a sign of life and returns how long that took.
func (c *Client) Ping(ctx context.Context) (time.Duration, error) {
	ts := c.pings.Add(1)
	sent := time.Now()
	_, err := c.ask(ctx, waitsFor{"pong", strconv.FormatInt(ts, 10)}, Ping{TS: ts})
	return time.Since(sent), err
}

// Deliver puts a message before another device, and returns which one, once the gateway has handed it over; without an
// ID the delivery gets a new one. What the gateway refuses is an [*Error]: device_offline or forbidden, say. After any
// other error it may have been delivered: only a Deliver with the same ID, within ten minutes, is sure not to do so twice.
func (c *Client) Deliver(ctx context.Context, d Deliver) (device string, err error) {
	if d.Text == "" && d.Media == nil {
		return "", errors.New("a delivery needs a text or a file")
	}
	if d.Media != nil {
		if err := checkFile(d.Media.Data); err != nil {
			return "", err
		}
		file := *d.Media // the caller's stays as it is
		file.Kind = strings.ToLower(file.Kind)
		d.Media = &file
	}
	if d.ID == "" {
		d.ID = NewID()
	}
	return c.ask(ctx, waitsFor{"delivered", d.ID}, d)
}

// waitsFor names the frame that answers another one.
type waitsFor struct{ frame, id string }

type answer struct {
	device string
	err    error
}

// ask sends f and waits for its answer, which then is no event of the loop.
func (c *Client) ask(ctx context.Context, w waitsFor, f Outgoing) (device string, err error) {
	got := make(chan answer, 1)
	c.mu.Lock()
	_, twice := c.waiting[w]
	if !twice {
		c.waiting[w] = got
	}
	c.mu.Unlock()
	if twice {
		return "", errors.New("a delivery with this id is under way")
	}
	defer func() {
		c.mu.Lock()
		if c.waiting[w] == got {
			delete(c.waiting, w)
		}
		c.mu.Unlock()
	}()
	if err := c.Send(ctx, f); err != nil {
		return "", err
	}
	late := time.NewTimer(c.patience)
	defer late.Stop()
	select {
	case a := <-got:
		return a.device, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-late.C:
		return "", ErrNoAnswer
	}
}

// answered hands a frame to whoever waits for it.
func (c *Client) answered(frame any) bool {
	switch f := frame.(type) {
	case *Pong:
		return c.tell(waitsFor{"pong", string(f.TS)}, answer{})
	case *Delivered:
		return c.tell(waitsFor{"delivered", f.ID}, answer{device: f.Device})
	case *Error:
		return !f.Fatal && c.tell(waitsFor{"delivered", f.ID}, answer{err: f})
	}
	return false
}

func (c *Client) tell(w waitsFor, a answer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, ok := c.waiting[w]
	if !ok {
		return false
	}
	delete(c.waiting, w)
	got <- a
	return true
}

// giveUp tells all who wait that the connection, and with it the answer, was lost.
func (c *Client) giveUp(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w, got := range c.waiting {
		delete(c.waiting, w)
		got <- answer{err: fmt.Errorf("no answer: %w", err)}
	}
}
