// Package agent is the contract between the gateway and whoever answers a device, and holds the built-in echo agent.
package agent

import "context"

// Turn is one message of a device that an agent is asked to answer. It is the agent's to read until Ask returns.
type Turn struct {
	Device string // device.id, as the device chose it: untrusted, at most 120 characters
	ID     string // id of the frame that caused the turn
	Text   string // at most 12 000 characters; never empty and never white space alone
}

// Kind says what an Event is.
type Kind uint8

const (
	Message Kind = iota // Text is a whole message
	Delta               // Text is the next piece of the streamed message, which the first Delta begins
	End                 // the streamed message is complete; the end of the turn says so too
)

// Event is something that the device shall see before the turn ends.
type Event struct {
	Kind Kind
	Text string
}

// Agent answers turns. One agent serves all devices, so its methods are called from many goroutines at once.
type Agent interface {
	// Ask answers t. It runs on a goroutine of its own and may block for as long as the turn lasts; ctx ends when the
	// turn is stopped, and Ask then returns soon. emit may be called from Ask's goroutine only, never after Ask has
	// returned; it blocks while the device takes nothing, and drops the event once ctx is done.
	//
	// The reply that ends the turn is returned, not emitted: it then leaves in the same write as the end of the turn.
	// An empty reply adds nothing to what was emitted. After an error the device is told that the turn failed, without
	// the text of the error.
	Ask(ctx context.Context, t *Turn, emit func(Event)) (reply string, err error)
}

// Instant is an Agent that knows some answers without waiting: a command of its own, say. Such a turn costs no goroutine,
// and all of it leaves in one write.
type Instant interface {
	Agent
	// Instant answers t if it can do so at once; if ok is false, t goes to Ask. It is called on an event loop and must
	// not block. t and its strings are valid only until it returns, but may be returned as the reply.
	Instant(t *Turn) (reply string, ok bool)
}
