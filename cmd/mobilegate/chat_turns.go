package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	hermes "mobilegate/sdk/go"
)

// resendWithin is half of the gateway's dedup window (spec 3): a line younger than this can be sent again without being
// answered twice.
const resendWithin = 5 * time.Minute

// chatTurn is a line that was not answered yet.
type chatTurn struct {
	id    string
	frame hermes.Outgoing
	sent  time.Time // zero: still to be sent
}

// chatTurns follows lines until they are answered. The turns of a device run in the order of its frames (spec 5), so
// the end of a turn belongs to the oldest line. No frame says more.
type chatTurns struct {
	open    []*chatTurn // oldest first
	running bool        // the gateway said typing, and not yet typing stop
	foreign bool        // the running turn is of an earlier run of the command
	resumed bool        // lines of an earlier connection are open
	lost    int         // lines given up
}

func (t *chatTurns) none() bool { return len(t.open) == 0 }

func (t *chatTurns) typing(stop bool) {
	ended := t.running && stop
	t.running = !stop
	switch {
	case ended && t.foreign:
		t.foreign = false
	case ended && !t.none() && !t.open[0].sent.IsZero():
		t.drop(0)
	}
}

func (t *chatTurns) drop(i int) {
	t.open = slices.Delete(t.open, i, i+1)
	t.resumed = t.resumed && !t.none()
}

// refused takes an error for id: no answer will come. When it ends the running turn, its typing stop counts no more.
func (t *chatTurns) refused(id string) {
	i := slices.IndexFunc(t.open, func(turn *chatTurn) bool { return turn.id == id })
	if i < 0 {
		return
	}
	if i == 0 && !t.foreign {
		t.running = false
	}
	t.drop(i)
}

// reconnected marks all lines to be sent again, and returns how many are too old for that.
func (t *chatTurns) reconnected(now time.Time) (lost int) {
	t.running, t.foreign = false, false
	before := len(t.open)
	t.open = slices.DeleteFunc(t.open, func(turn *chatTurn) bool {
		return !turn.sent.IsZero() && now.Sub(turn.sent) > resendWithin
	})
	for _, turn := range t.open {
		t.resumed = t.resumed || !turn.sent.IsZero()
		turn.sent = time.Time{}
	}
	lost = before - len(t.open)
	t.lost += lost
	return lost
}

// giveUp is for a time without any frame. After a reconnect it means that the turn of an open line ended while there
// was no connection; it returns how many lines that is.
func (t *chatTurns) giveUp() (lost int) {
	if !t.resumed || t.running {
		return 0
	}
	t.resumed = false
	lost = len(t.open)
	t.open, t.lost = nil, t.lost+lost
	return lost
}

// rawTurn returns the id of a raw frame that makes a turn: a message, or the last part of an upload.
func rawTurn(frame string) (id string, ok bool) {
	var f struct {
		T           string
		ID          string
		Part, Parts int
	}
	if json.Unmarshal([]byte(frame), &f) != nil || f.ID == "" {
		return "", false
	}
	switch strings.ToLower(f.T) {
	case "text", "audio":
		return f.ID, true
	case "media":
		return f.ID, f.Part+1 >= f.Parts
	}
	return "", false
}
