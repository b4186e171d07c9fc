package hermes

import (
	"errors"
	"fmt"
	"net/http"

	"mobilegate/agent"
	"mobilegate/internal/upstream"
)

// What may become of a run. The texts go to the log, so they hold nothing that came from outside.
var (
	errBusy        = errors.New("no place became free in time")
	errGone        = errors.New("the agent does not know the run any more")
	errFailed      = errors.New("the run failed")
	errCancelled   = errors.New("the run was cancelled elsewhere")
	errInterrupted = errors.New("the agent ended while the run went on")
	errStream      = errors.New("the stream of events broke off")
	errLimit       = errors.New("the turn took too long")
	errAnswer      = errors.New("an answer that is none")
	errClosed      = errors.New("the agent was closed")
)

// died tells whether a run has ended without an answer, so that the same key would bring no other one.
func died(err error) bool {
	return errors.Is(err, errFailed) || errors.Is(err, errCancelled) || errors.Is(err, errInterrupted) || errors.Is(err, errGone)
}

// sentence is what the user hears of err.
func sentence(err error) string {
	var a *answered
	switch {
	case errors.Is(err, errBusy):
		return "The agent is busy with other work. Please try again in a few minutes."
	case errors.Is(err, errGone), errors.Is(err, errInterrupted):
		return "The agent was restarted and did not finish this message. Please send it again."
	case errors.Is(err, errFailed):
		return "The agent could not finish its answer. Please try again."
	case errors.Is(err, errCancelled):
		return "The work on this message was stopped elsewhere."
	case errors.Is(err, errLength):
		return "The answer is too long to be shown; the rest of it is left out."
	case errors.Is(err, errLimit):
		return "The agent has worked on this for a day without an end, and was stopped."
	case errors.Is(err, errStream):
		return "The connection to the agent was lost before its answer was complete. Please send the message again."
	case errors.As(err, &a):
		switch code := a.Code; {
		case code == http.StatusUnauthorized, code == http.StatusForbidden:
			return "The agent does not accept the key of this gateway. Its operator has to correct that."
		case code/100 == 3, code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code == http.StatusNotImplemented:
			return "The agent does not offer what this gateway needs. Its operator has to look after that."
		case code == http.StatusRequestEntityTooLarge:
			return "This message is too large for the agent."
		case !upstream.Fault(err):
			return "The agent did not accept this message."
		}
	}
	return "The agent cannot be reached at the moment. Please try again in a few minutes."
}

// failure makes the error of Ask.
func (a *Agent) failure(err error) error {
	var refused *answered
	if errors.As(err, &refused) && (refused.Code == http.StatusUnauthorized || refused.Code == http.StatusForbidden) {
		a.service.Warn("hermes: the agent refuses the key of this gateway")
	}
	return &agent.Failure{Tell: sentence(err), Err: fmt.Errorf("hermes: %w", err)}
}
