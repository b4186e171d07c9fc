// Package upstream calls a service that may fail: it tries again what may succeed the next time, leaves a service alone
// that is down, and counts how it fares.
package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/sony/gobreaker/v2"
)

const (
	opensAfter = 5                      // failures in a row that open the circuit
	pause      = 15 * time.Second       // it stays open; then one call tries whether the service is back
	tries      = 4                      // of one Do
	firstPause = 500 * time.Millisecond // between the first two, unless the service asked for more; the next ones double
	lastPause  = 8 * time.Second
	warnEvery  = time.Minute
)

// ErrDown is the answer to a call while the circuit is open.
var ErrDown = errors.New("the circuit is open")

// Service is the circuit of one service and the numbers of its calls. It is safe for concurrent use.
type Service struct {
	circuit *gobreaker.CircuitBreaker[struct{}]
	log     *slog.Logger

	mu     sync.Mutex
	warned map[string]time.Time // when, by message

	calls, failures, retries, refused, input, output atomic.Int64
}

// Stats are the numbers from the start on.
type Stats struct {
	Down                      bool
	Calls, Failures           int64 // each attempt counts
	Retries                   int64
	Refused                   int64 // calls that the open circuit answered
	InputTokens, OutputTokens int64
}

// New makes a Service; name is what log calls it when its circuit opens and closes. log may be nil.
func New(name string, log *slog.Logger) *Service {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Service{log: log, warned: map[string]time.Time{}, circuit: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         name,
		Timeout:      pause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= opensAfter },
		IsSuccessful: func(err error) bool { return !Fault(err) || busy(err) }, // who refuses a request is there
		IsExcluded:   func(err error) bool { return errors.As(err, new(given)) },
		OnStateChange: func(name string, from, to gobreaker.State) {
			switch {
			case to == gobreaker.StateClosed:
				log.Info("the service is back", "service", name)
			case from == gobreaker.StateClosed:
				log.Warn("the service is down: it is left alone for a while", "service", name, "pause", pause)
			}
		},
	})}
}

// final is the error of a call that is not to be made again.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Final keeps Do from making the call again after err.
func Final(err error) error { return final{err} }

// given is the error of a call that its caller gave up: it says nothing about the service.
type given struct{ error }

// Once makes one call, or returns ErrDown. Its error is the service's failure when Fault says so; when ctx has ended, it is
// the cause of that. call ends soon after ctx does; it returns as soon as the service has answered and leaves what comes
// after that, a stream say, to its caller: while the circuit tries whether the service is back, everybody waits for it.
func (s *Service) Once(ctx context.Context, call func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := s.circuit.Execute(func() (struct{}, error) {
		s.calls.Add(1)
		err := call()
		switch {
		case err != nil && ctx.Err() != nil:
			err = given{context.Cause(ctx)}
		case Fault(err):
			s.failures.Add(1)
		}
		return struct{}{}, err
	})
	var g given
	switch {
	case errors.As(err, &g):
		return g.error
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		s.refused.Add(1)
		return ErrDown
	}
	return err
}

// Do makes a call that may be repeated, again and again with growing pauses while it fails by the service's fault, or after
// the pause that the service asked for in a Status. It returns the error of the last call that was made.
func (s *Service) Do(ctx context.Context, call func() error) error {
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		if last != nil {
			s.retries.Add(1)
		}
		err := s.Once(ctx, call)
		if last != nil && errors.Is(err, ErrDown) {
			return struct{}{}, backoff.Permanent(last) // tells more
		}
		last = err
		if !Fault(err) || tooLong(err) || errors.As(err, new(final)) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: firstPause, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: lastPause,
	}), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	var permanent *backoff.PermanentError // what the last try returns is not unwrapped
	if errors.As(err, &permanent) {
		return permanent.Unwrap()
	}
	return err
}

// Failed counts a failure of the service after the call itself: a stream that broke off. It does not open the circuit.
func (s *Service) Failed() { s.failures.Add(1) }

// Warn logs what is amiss, which may be so for every turn: each msg once a minute at the most.
func (s *Service) Warn(msg string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.warned[msg]) >= warnEvery {
		s.warned[msg] = now
		s.log.Warn(msg, args...)
	}
}

// Used adds what the service says that a call has cost.
func (s *Service) Used(input, output int64) {
	s.input.Add(max(input, 0))
	s.output.Add(max(output, 0))
}

// Stats returns the numbers.
func (s *Service) Stats() Stats {
	return Stats{
		Down:         s.circuit.State() != gobreaker.StateClosed,
		Calls:        s.calls.Load(),
		Failures:     s.failures.Load(),
		Retries:      s.retries.Load(),
		Refused:      s.refused.Load(),
		InputTokens:  s.input.Load(),
		OutputTokens: s.output.Load(),
	}
}
