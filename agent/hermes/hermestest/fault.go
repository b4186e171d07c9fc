package hermestest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

const maxFaults = 1024

// armed is a Fault and how often it has been met.
type armed struct {
	Fault
	met int
}

func arm(f Fault) *armed {
	if f.Times == 0 {
		f.Times = 1
	}
	return &armed{Fault: f}
}

func (f *Fault) check() error {
	if _, known := (*Server)(nil).table()[f.Route]; f.Route != "" && !known {
		return fmt.Errorf("no such route: %q", f.Route)
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		return errors.New("a status is from 200 to 599")
	}
	return nil
}

// hits counts one request, and says whether the fault is its.
func (a *armed) hits() bool {
	a.met++
	return a.met > a.Skip && !a.spent(a.met-1)
}

func (a *armed) spent(met int) bool { return a.Times > 0 && met >= a.Skip+a.Times }

// Fault adds trouble to what the server has ahead. Of several that fit, one is met at a time, in their order. It panics
// when one of them is wrong.
func (s *Server) Fault(faults ...Fault) {
	for _, f := range faults {
		if err := f.check(); err != nil {
			panic("hermestest: " + err.Error())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		s.faults = append(s.faults, arm(f))
	}
	if over := len(s.faults) - maxFaults; over > 0 {
		s.faults = slices.Delete(s.faults, 0, over)
	}
}

// Heal takes all trouble away that Fault brought.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// struck gives the fault that a request meets, if any. s.mu is held.
func (s *Server) struck(route, run string) *Fault {
	for _, a := range s.faults {
		if a.Route != "" && a.Route != route || a.run != "" && a.run != run || !a.hits() {
			continue
		}
		s.faults = slices.DeleteFunc(s.faults, func(a *armed) bool { return a.spent(a.met) })
		return &a.Fault
	}
	return nil
}

// suffer answers a request with f; answer does what was asked.
func (c *call) suffer(f Fault, answer func() reply) {
	if f.Delay > 0 && !pause(c.r.Context(), c.life, f.Delay) {
		panic(http.ErrAbortHandler)
	}
	switch {
	case f.Lose:
		c.w = nowhere{http.Header{}}
		c.send(answer())
		panic(http.ErrAbortHandler)
	case f.Cut:
		panic(http.ErrAbortHandler)
	case f.Status == 0:
		c.send(answer())
	default:
		c.broken(f)
	}
}

// broken answers with f's status.
func (c *call) broken(f Fault) {
	if f.RetryAfter != "" {
		c.w.Header().Set("Retry-After", f.RetryAfter)
	}
	if f.Body == "" {
		c.send(fail(f.Status, f.Code, http.StatusText(f.Status)))
		return
	}
	c.status(f.Status)
	_, _ = c.w.Write([]byte(f.Body))
}

// nowhere swallows an answer.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}
