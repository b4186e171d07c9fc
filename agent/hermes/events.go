package hermes

import "time"

// frame is an event as Hermes sends it, on either kind of stream.
type frame struct {
	Event       text    `json:"event"`
	Run         text    `json:"run_id"`
	Delta       text    `json:"delta"`
	Output      text    `json:"output"`
	Content     text    `json:"content"` // of a session's stream
	Command     text    `json:"command"`
	Description text    `json:"description"`
	Request     text    `json:"request_id"`
	Choices     words   `json:"choices"`
	Choice      text    `json:"choice"`
	Timestamp   seconds `json:"timestamp"` // by the agent's clock
}

// event is what Ask hears of a run.
type event struct {
	kind     eventKind
	text     string // id of the run; piece of the answer; the whole answer
	replayed bool   // the run was begun by an earlier turn
	frame    *frame // of asked and settled
	err      error  // of ended

	stamp seconds   // the event's own time, 0 if it has none
	heard time.Time // by ours
}

// clock compares the agent's clock with ours by the events that came: the one that came fastest counts.
type clock struct {
	known bool
	ahead time.Duration // of ours
}

func (c *clock) see(stamp seconds, heard time.Time) {
	if stamp == 0 {
		return
	}
	if ahead := heard.Sub(stamp.time()); !c.known || ahead < c.ahead {
		c.known, c.ahead = true, ahead
	}
}

// age is how long ago, as far as one can tell, something happened that was heard of just now.
func (c *clock) age(stamp seconds, now time.Time) time.Duration {
	if stamp == 0 {
		return 0
	}
	c.see(stamp, now)
	return now.Sub(stamp.time()) - c.ahead
}

type eventKind uint8

const (
	started   eventKind = iota
	said                // the next piece of the answer
	worked              // the agent used a tool, or another agent
	asked               // it asks for an approval
	settled             // somebody gave one
	whole               // the answer, on a session's stream
	completed           // with the answer
	ended               // without one
)

// hear tells Ask what an event means to it; over means that it was the last one. What nobody shows is left out: reasoning,
// comments of the agent on its work, and how far a tool has come.
func (f *follower) hear(fr *frame) (over bool) {
	f.stamp = fr.Timestamp
	if f.run == "" && plainID(string(fr.Run)) {
		f.started(string(fr.Run), false)
	}
	switch fr.Event {
	case "message.delta", "assistant.delta":
		f.tell(event{kind: said, text: string(fr.Delta)})
	case "tool.started", "tool.completed", "tool.failed", "subagent.start", "subagent.complete":
		f.tell(event{kind: worked})
	case "approval.request":
		f.tell(event{kind: asked, frame: fr})
	case "approval.responded":
		f.tell(event{kind: settled, frame: fr})
	case "assistant.completed":
		f.tell(event{kind: whole, text: string(fr.Content)})
	case "run.completed":
		f.tell(event{kind: completed, text: string(fr.Output)})
		return true
	case "run.failed":
		f.tell(event{kind: ended, err: errFailed})
		return true
	case "run.cancelled":
		f.tell(event{kind: ended, err: errCancelled})
		return true
	case "run.interrupted":
		f.tell(event{kind: ended, err: errInterrupted})
		return true
	}
	return false
}
