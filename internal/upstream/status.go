package upstream

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// longest is how long a call waits because the service asked for it; who is asked for more gives up.
const longest = 30 * time.Second

// Status is the error of a call that the service answered with a status that is no success. Its text is the number alone,
// since what a service writes beside it is nothing to log.
type Status struct {
	Code  int
	After time.Duration // the service wants no call before that, if it said so
}

// StatusOf makes the error of a response.
func StatusOf(code int, header http.Header) *Status {
	return &Status{Code: code, After: retryAfter(header.Get("Retry-After"))}
}

func (s *Status) Error() string { return "status " + strconv.Itoa(s.Code) }

// Unwrap tells the retry when to come back: later by up to a quarter than the service said, since it said so to many.
func (s *Status) Unwrap() error {
	if s.After <= 0 {
		return nil
	}
	return &backoff.RetryAfterError{Duration: s.After + rand.N(s.After/4+1)}
}

// Fault tells whether err is the service's failure: no connection, no answer in time, an answer that is none, 408, 429 or
// 5xx. Another status is the fault of the request.
func Fault(err error) bool {
	if err == nil || errors.As(err, new(given)) || errors.Is(err, ErrDown) {
		return false
	}
	var s *Status
	if !errors.As(err, &s) {
		return true
	}
	return s.Code == http.StatusRequestTimeout || s.Code == http.StatusTooManyRequests || s.Code >= http.StatusInternalServerError
}

// busy tells whether the service has too much to do at the moment: it is tried again, but nobody is told that it is down.
func busy(err error) bool {
	var s *Status
	return errors.As(err, &s) && s.Code == http.StatusTooManyRequests
}

// tooLong tells whether the service asked for a longer pause than anybody waits.
func tooLong(err error) bool {
	var s *Status
	return errors.As(err, &s) && s.After > longest
}

// retryAfter reads the header: seconds, or a date. It returns 0 for what is neither and for what is over, and at most a day.
func retryAfter(value string) time.Duration {
	const most = 24 * time.Hour
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0) {
			return 0
		}
		return time.Duration(min(seconds, most.Seconds()) * float64(time.Second))
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(date), 0), most)
	}
	return 0
}
