// Package agent is the contract between the gateway and whoever answers a device, and holds the built-in echo agent.
package agent

import (
	"context"
	"errors"
	"io"
	"time"
)

// Turn is one message of a device that an agent is asked to answer. It is the agent's to read until Ask returns.
type Turn struct {
	Owner
	User  string // hello.user.name, or its id: what the application claims, good as a name to show and for nothing else
	ID    string // id of the frame that caused the turn, at most 128 characters, untrusted
	Text  string // text, transcript or caption, at most 12 000 characters; not white space alone, and empty only beside a File
	File  *File  // what the device sent, or nil; valid until Ask has returned and all that was emitted is told
	Ended bool   // this command came while a turn ran, and has ended it; see Stopper
}

// Owner is whose turn it is. What an agent keeps of a device (its history, say) belongs to both together and is never shown
// to another Owner (spec 4).
type Owner struct {
	Device string // device.id, as the device chose it: untrusted, at most 120 characters
	Entry  string // name of the configuration entry whose token let it in: MOBILE_TOKEN, say; no secret, the same after a restart
}

// File is one file, from a device or to one.
type File struct {
	Kind    string // from a device: image, video, document, audio; to one: image, voice, video, document, animation
	Mime    string
	Name    string // file name without a path, untrusted when it comes from a device; may be empty
	Caption string // to a device
	ReplyTo string // to a device: id of the message that this answers; may be empty
	URL     string // to a device: where it fetches the file itself; Open is nil then
	Size    int    // bytes of the content
	// Open gives the content, which the caller closes. It is called when the device takes the file, not before, and may
	// be called more than once.
	Open func() (Content, error)
}

// Content is what a File holds.
type Content interface {
	io.ReaderAt
	io.Closer
}

// The kinds of cards (spec 8).
const (
	ExecApproval = "exec_approval" // once, session, always, deny
	SlashConfirm = "slash_confirm" // once, always, cancel
	Clarify      = "clarify"       // c0, c1, … and other
)

// Card is a question to the user with buttons.
type Card struct {
	Kind        string
	Text        string        // title or question
	Command     string        // of exec_approval: the very command
	Description string        // of exec_approval: what it does
	Choices     []string      // of clarify: the labels of c0, c1, …; of the others: the ids that are offered, nil for all
	TTL         time.Duration // how long it may be answered, in whole seconds; 0: 300 s
	// Answers brings what the user chose. It is made by the agent with room for one. After each answer that is not
	// Expired the agent calls its Confirm, and until then the card is neither open nor closed.
	Answers chan Answer
}

// Answer is what became of a card.
type Answer struct {
	Option  string // one of the ids that the card's kind knows
	Text    string // beside other: what the user wrote
	Expired bool   // nobody answered in time; the safe value counts
	// Confirm says whether the answer took effect: nil closes the card, ErrCardExpired closes it as expired, and any
	// other error opens it again, for another answer on Answers. Nil when Expired.
	Confirm func(error)
}

// ErrCardExpired is for Answer.Confirm: it was too late for this answer.
var ErrCardExpired = errors.New("the card has expired")

// Kind says what an Event is.
type Kind uint8

const (
	Message  Kind = iota // Text is a whole message
	Delta                // Text is the next piece of the streamed message, which the first Delta begins
	End                  // the streamed message is complete; the end of the turn says so too
	SendFile             // File goes to the device
	ShowCard             // Card is shown to the device; while the turn waits for its answer it does not count as running
)

// Event is something that the device shall see before the turn ends.
type Event struct {
	Kind Kind
	Text string
	File *File
	Card *Card
}

// Agent answers turns. One agent serves all devices, so its methods are called from many goroutines at once.
type Agent interface {
	// Ask answers t. It runs on a goroutine of its own and may block for as long as the turn lasts; ctx ends when the
	// turn is stopped, and Ask then returns soon. emit may be called from Ask's goroutine only, never after Ask has
	// returned; it blocks while the device takes nothing, and drops the event once ctx is done.
	//
	// The reply that ends the turn is returned, not emitted: it then leaves in the same write as the end of the turn.
	// An empty reply adds nothing to what was emitted. After an error the device is told that the turn failed, in the words
	// of a Failure if there is one; the text of the error goes to the log, so it must hold nothing that a device sent.
	// A turn that was stopped does not fail, whatever Ask returns.
	Ask(ctx context.Context, t *Turn, emit func(Event)) (reply string, err error)
}

// Instant is an Agent that knows some answers without waiting: a command of its own, say. Such a turn costs no goroutine,
// and all of it leaves in one write.
type Instant interface {
	Agent
	// Instant answers t if it can do so at once; if ok is false, t goes to Ask. It is called on an event loop and must
	// not block. t, which has no File, and its strings are valid only until it returns, but may be returned as the reply.
	Instant(t *Turn) (reply string, ok bool)
}

// Stopper is an Agent with commands that do not wait for their turn: /stop.
type Stopper interface {
	Agent
	// Stops tells whether text is such a command. If a turn is running it then ends that one, whose ctx has ErrStopped for
	// its cause, and comes next, before all that waits; to Instant first. It is called on an event loop and must not block.
	Stops(text string) bool
}

// ErrStopped is the cause of a turn's end when its user said so. Every other cause (the device's owner changed, the gateway
// stops) says nothing about whether the user still wants the answer.
var ErrStopped = errors.New("the user stopped the turn")

// Failure is an error of Ask with a sentence for the user.
type Failure struct {
	Tell string // what is wrong and what the user can do, in one plain sentence of the agent's own
	Err  error  // for the log
}

func (f *Failure) Error() string { return f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }

// Reporter is an Agent that says how the service behind it fares.
type Reporter interface {
	Agent
	Health() Health // cheap, and safe from any goroutine
}

// Health is how an agent's service fares. The numbers count from the start.
type Health struct {
	Down         bool // its circuit is open: turns are answered at once that it cannot be reached
	Calls        int64
	Failures     int64 // calls that failed by the service's fault, each attempt counted
	Retries      int64
	Refused      int64 // calls that the open circuit answered
	InputTokens  int64 // as the service counts them; 0 where it does not
	OutputTokens int64
}
