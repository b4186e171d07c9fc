package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	errBroken = errors.New("the connection broke")
	errGone   = errors.New("the user went away")
)

// returns is a call with that outcome.
func returns(err error) func() error { return func() error { return err } }

// open lets s fail until its circuit is open.
func open(t *testing.T, s *Service) {
	t.Helper()
	for range opensAfter {
		require.False(t, s.Stats().Down)
		require.Equal(t, errBroken, s.Once(t.Context(), returns(errBroken)))
	}
	require.True(t, s.Stats().Down)
}

func TestCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := New("model", slog.New(slog.NewTextHandler(&log, nil)))
		open(t, s)
		require.Contains(t, log.String(), "level=WARN")

		unreached := func() error { require.Fail(t, "called"); return nil }
		require.Equal(t, ErrDown, s.Once(t.Context(), unreached))
		time.Sleep(pause)
		require.Equal(t, ErrDown, s.Once(t.Context(), unreached))

		time.Sleep(1)
		require.Equal(t, errBroken, s.Once(t.Context(), func() error {
			require.Equal(t, ErrDown, s.Once(t.Context(), unreached), "one call tries, the others do not")
			return errBroken
		}))
		require.Equal(t, ErrDown, s.Once(t.Context(), unreached), "open again")

		time.Sleep(pause + 1)
		require.NoError(t, s.Once(t.Context(), returns(nil)))
		require.NoError(t, s.Once(t.Context(), returns(nil)))
		require.Contains(t, log.String(), "level=INFO")
		require.Equal(t, Stats{Calls: opensAfter + 3, Failures: opensAfter + 1, Refused: 4}, s.Stats())
	})
}

func TestOnlyFailuresOfTheServiceOpenTheCircuit(t *testing.T) {
	s := New("model", nil)
	for range 3 * opensAfter {
		require.Error(t, s.Once(t.Context(), returns(&Status{Code: http.StatusBadRequest})))
		ctx, cancel := context.WithCancelCause(t.Context())
		require.Equal(t, errGone, s.Once(ctx, func() error { cancel(errGone); return errBroken }))
	}
	require.Equal(t, Stats{Calls: 6 * opensAfter}, s.Stats())

	for range opensAfter {
		require.Error(t, s.Once(t.Context(), returns(&Status{Code: http.StatusTooManyRequests})))
	}
	require.Equal(t, Stats{Calls: 7 * opensAfter, Failures: opensAfter}, s.Stats(), "a busy service is not down")

	for range opensAfter - 1 {
		require.Error(t, s.Once(t.Context(), returns(errBroken)))
	}
	require.Error(t, s.Once(t.Context(), returns(&Status{Code: http.StatusNotFound})), "it is there: the row begins anew")
	require.Error(t, s.Once(t.Context(), returns(errBroken)))
	require.False(t, s.Stats().Down)
}

// A turn that is stopped while it tries whether the service is back leaves that to the next one.
func TestTryingIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New("model", nil)
		open(t, s)
		time.Sleep(pause + 1)
		for range 3 {
			ctx, cancel := context.WithCancelCause(t.Context())
			require.Equal(t, errGone, s.Once(ctx, func() error { cancel(errGone); return errBroken }))
			require.True(t, s.Stats().Down)
		}
		require.Panics(t, func() { s.Once(t.Context(), func() error { panic("a fault of ours") }) })
		require.Equal(t, ErrDown, s.Once(t.Context(), returns(nil)), "a panic is no success")
		time.Sleep(pause + 1)
		require.NoError(t, s.Once(t.Context(), returns(nil)))
		require.False(t, s.Stats().Down)
	})
}

func TestDo(t *testing.T) {
	for _, c := range []struct {
		name        string
		outcomes    []error
		want        error
		least, most time.Duration
	}{
		{"at once", []error{nil}, nil, 0, 0},
		{"the third time", []error{errBroken, &Status{Code: 503}, nil}, nil, 750 * time.Millisecond, 2250 * time.Millisecond},
		{"not at all", []error{errBroken, errBroken, errBroken, errBroken}, errBroken, 1750 * time.Millisecond, 5250 * time.Millisecond},
		{"refused", []error{&Status{Code: 400}}, &Status{Code: 400}, 0, 0},
		{"refused the last time", []error{errBroken, errBroken, errBroken, &Status{Code: 400}}, &Status{Code: 400}, 1750 * time.Millisecond, 5250 * time.Millisecond},
		{"when it wants", []error{&Status{Code: 429, After: 20 * time.Second}, nil}, nil, 20 * time.Second, 25 * time.Second},
		{"once and for all", []error{Final(errBroken)}, Final(errBroken), 0, 0},
		{"it wants too much", []error{&Status{Code: 429, After: time.Minute}}, &Status{Code: 429, After: time.Minute}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, start, made := New("model", nil), time.Now(), 0
				err := s.Do(t.Context(), func() error { made++; return c.outcomes[made-1] })
				require.Equal(t, c.want, err)
				require.Equal(t, len(c.outcomes), made)
				require.GreaterOrEqual(t, time.Since(start), c.least)
				require.LessOrEqual(t, time.Since(start), c.most)
				require.EqualValues(t, made-1, s.Stats().Retries)
			})
		})
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := New("model", nil), time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errGone) })
		require.Equal(t, errGone, s.Do(ctx, returns(&Status{Code: 503, After: 20 * time.Second})))
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, errGone, s.Do(ctx, func() error { require.Fail(t, "called"); return nil }))
	})
}

// The circuit may open between two tries; then the user hears of the failure itself.
func TestDoUnderAnOpenCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New("model", nil)
		require.Error(t, s.Do(t.Context(), returns(errBroken)))
		require.Equal(t, errBroken, s.Do(t.Context(), returns(errBroken)))
		require.Equal(t, ErrDown, s.Do(t.Context(), returns(errBroken)))
		require.EqualValues(t, opensAfter, s.Stats().Calls)
	})
}

// What is amiss for every turn fills no log.
func TestWarn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := New("model", slog.New(slog.NewTextHandler(&log, nil)))
		for range 1000 {
			s.Warn("the disk is full")
			s.Warn("the key is refused", "code", 401)
		}
		require.Equal(t, 2, bytes.Count(log.Bytes(), []byte("\n")))
		time.Sleep(warnEvery)
		s.Warn("the disk is full")
		require.Equal(t, 3, bytes.Count(log.Bytes(), []byte("\n")))
	})
}

func TestNumbers(t *testing.T) {
	s := New("model", nil)
	s.Used(100, 20)
	s.Used(-5, 1) // a service may say anything
	s.Failed()
	require.Equal(t, Stats{Failures: 1, InputTokens: 100, OutputTokens: 21}, s.Stats())
}

func TestFault(t *testing.T) {
	for code, fault := range map[int]bool{301: false, 400: false, 401: false, 404: false, 408: true, 422: false, 429: true, 500: true, 503: true, 529: true} {
		require.Equal(t, fault, Fault(fmt.Errorf("asked: %w", &Status{Code: code})), code)
	}
	require.False(t, Fault(nil))
	require.False(t, Fault(ErrDown))
	require.True(t, Fault(errBroken))
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands at the beginning of 2000
		for value, want := range map[string]time.Duration{
			"":                              0,
			"2":                             2 * time.Second,
			"1.5":                           1500 * time.Millisecond,
			"0":                             0,
			"-1":                            0,
			"NaN":                           0,
			"1e300":                         24 * time.Hour,
			"+Inf":                          24 * time.Hour,
			"soon":                          0,
			"Sat, 01 Jan 2000 00:00:09 GMT": 9 * time.Second,
			"Fri, 31 Dec 1999 23:59:59 GMT": 0,
			"Sat, 01 Jan 2050 00:00:00 GMT": 24 * time.Hour,
		} {
			s := StatusOf(429, http.Header{"Retry-After": {value}})
			require.Equal(t, want, s.After, value)
			require.Equal(t, "status 429", s.Error())
		}
	})
}
