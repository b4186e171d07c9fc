package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mobilegate/engine"
)

// device implements engine.Caller. There are very many of them: it holds nothing that can be made anew.
type device struct {
	fleet  *fleet
	link   *engine.Link
	number int32
	state  uint8
	calls  uint8
}

// maxCalls of one device: as slow as emulation is at times, the gateway may have to refuse a request that took too long.
const maxCalls = 3

// The states of a device.
const (
	coming uint8 = iota
	ready        // and idle
	asking       // it said something
)

func (d *device) id() string { return fmt.Sprintf("vm-%d", d.number) }

// words are what it says, and no other one.
func (d *device) words() string { return fmt.Sprintf("device %d is still here", d.number) }

func (d *device) call() {
	var err error
	d.calls++
	if d.link, err = d.fleet.client.Call(d, 0); err != nil {
		d.fleet.lose(err)
	}
}

// Connected implements engine.Caller.
func (d *device) Connected(*engine.Link, time.Time) {}

// Upgraded implements engine.Caller.
func (d *device) Upgraded(*engine.Link, time.Time) {
	d.say(map[string]any{"t": "hello", "token": token, "device": map[string]string{"id": d.id()}})
}

func (d *device) ask() {
	d.state = asking
	d.say(map[string]any{"t": "text", "id": "m", "text": d.words()})
}

func (d *device) say(frame any) {
	text, _ := json.Marshal(frame) // of strings: it does not fail
	b := engine.GetBuffer()
	start := engine.BeginMasked(b)
	b.B = append(b.B, text...)
	d.fleet.client.EndMasked(b, start)
	d.link.Send(b)
}

var errAnother = errors.New("another frame than was to come")

// Message implements engine.Caller.
func (d *device) Message(_ *engine.Link, b []byte, _ time.Time) {
	f := d.fleet
	var frame struct {
		T      string
		Device struct{ ID string }
		Text   string
		Final  bool
	}
	switch err := json.Unmarshal(b, &frame); {
	case err != nil:
		f.lose(errAnother)
	case frame.T == "ready" && d.state == coming && frame.Device.ID == d.id():
		d.state = ready
		f.online++
	case frame.T == "message" && d.state == asking:
		d.state = ready
		if frame.Text == d.words() && frame.Final {
			f.answered++
		} else {
			f.wrong++
		}
	case frame.T == "error" && d.state == coming: // its hello came too late, and the end follows
	case d.state == coming, frame.T == "message", frame.T == "error":
		f.lose(errAnother)
	} // others hear nothing but what their avatar does
}

// Closed implements engine.Caller: nobody leaves by itself, so a device that was ready is lost.
func (d *device) Closed(_ *engine.Link, err error, _ time.Time) {
	if f := d.fleet; d.state == coming && d.calls < maxCalls {
		f.refused++
		f.again = append(f.again, d)
	} else {
		f.lose(err)
	}
}
