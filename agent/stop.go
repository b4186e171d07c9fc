package agent

import "strings"

// StopCommand gives the agent that embeds it the command /stop (in any case, with nothing behind it): its methods are those
// of Stopper and Instant. Ask is to begin with Instant, for the times when the gateway does not.
type StopCommand struct{}

// Stops is Stopper's.
func (StopCommand) Stops(text string) bool {
	return strings.EqualFold(strings.TrimSpace(text), "/stop")
}

// Instant is Instant's: nobody waits to be told that a turn was stopped.
func (c StopCommand) Instant(t *Turn) (reply string, ok bool) {
	switch {
	case t.Ended:
		return "Stopped.", true
	case t.File == nil && c.Stops(t.Text):
		return "Nothing was running.", true
	}
	return "", false
}
