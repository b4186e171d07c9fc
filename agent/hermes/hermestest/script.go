package hermestest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Rule says what a run does. It fits when all that it names fits.
type Rule struct {
	Prefix string `json:"prefix"` // of the text of the input
	Match  string `json:"match"`  // regular expression that the text has to hold
	Run    int    `json:"run"`    // number of the run, from 1
	Steps  []Step `json:"steps"`
	Refuse *Fault `json:"refuse"` // what the request hears that would start the run; of it Status, Code, RetryAfter, Skip, Times
}

// Step is one thing that a run does. The package's documentation says which fields belong to which Do.
type Step struct {
	Do        string            `json:"do"`
	Text      string            `json:"text"`
	For       time.Duration     `json:"for"` // in a file a string: "1m30s"
	Times     int               `json:"times"`
	Size      int               `json:"size"`
	Tool      string            `json:"tool"`
	Error     bool              `json:"error"`
	Event     string            `json:"event"`
	Fields    map[string]any    `json:"fields"`
	Command   string            `json:"command"`
	RequestID string            `json:"request_id"`
	Choices   []string          `json:"choices"`
	On        map[string][]Step `json:"on"`
	More      []Step            `json:"more"`
	Busy      bool              `json:"busy"`
	Quiet     bool              `json:"quiet"`
	Silent    bool              `json:"silent"`
	Fault     *Fault            `json:"fault"`
}

// Fault is trouble for requests of one route.
type Fault struct {
	Route      string        `json:"route"` // "POST /v1/runs/{id}/approval"; empty: every route
	Skip       int           `json:"skip"`  // requests that pass before
	Times      int           `json:"times"` // requests that it hits; 0: one; negative: all
	Delay      time.Duration `json:"delay"` // before anything is answered; in a file a string
	Status     int           `json:"status"`
	Code       string        `json:"code"`
	RetryAfter string        `json:"retry_after"` // the header, if any
	Body       string        `json:"body"`        // instead of the error object
	Cut        bool          `json:"cut"`         // the connection breaks off, and nothing was done
	Lose       bool          `json:"lose"`        // the connection breaks off, and the request was done

	run string // only requests that name this run
}

// durations reads b into v strictly, after it has taken the duration called name out of it.
func durations(b []byte, name string, d *time.Duration, v any) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	if raw, ok := all[name]; ok {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return fmt.Errorf("%s is a duration in quotes", name)
		}
		parsed, err := time.ParseDuration(text)
		if err != nil || parsed < 0 {
			return fmt.Errorf("%s is no duration", name)
		}
		delete(all, name)
		*d = parsed
		b, _ = json.Marshal(all)
	}
	return strict(b, v)
}

func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more after the end")
	}
	return nil
}

func (s *Step) UnmarshalJSON(b []byte) error {
	type plain Step
	return durations(b, "for", &s.For, (*plain)(s))
}

func (f *Fault) UnmarshalJSON(b []byte) error {
	type plain Fault
	return durations(b, "delay", &f.Delay, (*plain)(f))
}

// Load reads a script from a file.
func Load(name string) (Config, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return Config{}, err
	}
	return Parse(b)
}

// Parse reads a script. Key, Profiles and RecordBody are never part of it.
func Parse(b []byte) (cfg Config, err error) {
	var f struct {
		Generation        string          `json:"generation"`
		Features          json.RawMessage `json:"features"`
		MaxConcurrentRuns int             `json:"max_concurrent_runs"`
		Think             string          `json:"think"`
		Pace              string          `json:"pace"`
		Rules             []Rule          `json:"rules"`
		Faults            []Fault         `json:"faults"`
	}
	if err = strict(b, &f); err != nil {
		return cfg, err
	}
	switch f.Generation {
	case "", "A":
	case "B":
		cfg.Features = B
	default:
		return cfg, errors.New(`generation is "A" or "B"`)
	}
	if f.Features != nil {
		if err = strict(f.Features, &cfg.Features); err != nil {
			return cfg, fmt.Errorf("features: %w", err)
		}
	}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"think", f.Think, &cfg.Think}, {"pace", f.Pace, &cfg.Pace}} {
		if d.text != "" {
			if *d.to, err = time.ParseDuration(d.text); err != nil {
				return cfg, fmt.Errorf("%s is no duration", d.name)
			}
		}
	}
	cfg.MaxConcurrentRuns, cfg.Rules, cfg.Faults = f.MaxConcurrentRuns, f.Rules, f.Faults
	_, err = compile(cfg.Rules, cfg.Faults)
	return cfg, err
}

// steps are the words that Do knows.
var steps = []string{
	"delta", "words", "tool", "tool_started", "tool_completed", "reasoning", "event", "approval", "wait", "complete", "fail",
	"cancel", "duplicate", "raw", "cut", "eof", "restart", "fault",
}

// rule is a Rule that was looked through.
type rule struct {
	Rule
	re     *regexp.Regexp
	refuse *armed
}

func compile(rules []Rule, faults []Fault) (all []rule, err error) {
	for i := range faults {
		if err := faults[i].check(); err != nil {
			return nil, fmt.Errorf("fault %d: %w", i+1, err)
		}
	}
	for i, r := range rules {
		c := rule{Rule: r}
		if r.Match != "" {
			if c.re, err = regexp.Compile(r.Match); err != nil {
				return nil, fmt.Errorf("rule %d: match: %w", i+1, err)
			}
		}
		if err = check(r.Steps); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		if r.Refuse != nil {
			if r.Refuse.Status < 400 || r.Refuse.Status > 599 {
				return nil, fmt.Errorf("rule %d: refuse needs a status from 400 to 599", i+1)
			}
			c.refuse = arm(*r.Refuse)
		}
		all = append(all, c)
	}
	return all, nil
}

func check(list []Step) error {
	for i, s := range list {
		if !slices.Contains(steps, s.Do) {
			return fmt.Errorf("step %d: no such step: %q", i+1, s.Do)
		}
		if s.Do == "fault" && s.Fault == nil {
			return fmt.Errorf("step %d: fault names no fault", i+1)
		}
		if s.Fault != nil {
			if err := s.Fault.check(); err != nil {
				return fmt.Errorf("step %d: %w", i+1, err)
			}
		}
		if _, err := json.Marshal(s.Fields); err != nil {
			return fmt.Errorf("step %d: fields: %w", i+1, err)
		}
		for _, m := range s.More {
			if m.Do == "" {
				m.Do = "approval"
			}
			if m.Do != "approval" || s.Do != "approval" {
				return fmt.Errorf("step %d: more belongs to approvals, and holds approvals", i+1)
			}
			if err := check([]Step{m}); err != nil {
				return fmt.Errorf("step %d: more: %w", i+1, err)
			}
		}
		for choice, list := range s.On {
			if err := check(list); err != nil {
				return fmt.Errorf("step %d: on %q: %w", i+1, choice, err)
			}
		}
	}
	return nil
}

// find gives the rule for a text, or nil, and what placeholders stand for. number is that of the run.
func (s *Server) find(text string, number int) (*rule, []string) {
	for i := range s.rules {
		r := &s.rules[i]
		if !strings.HasPrefix(text, r.Prefix) || r.Run != 0 && r.Run != number {
			continue
		}
		values := []string{"{rest}", strings.TrimSpace(strings.TrimPrefix(text, r.Prefix))}
		if r.re != nil {
			groups := r.re.FindStringSubmatch(text)
			if groups == nil {
				continue
			}
			for n, g := range groups {
				values = append(values, fmt.Sprintf("{%d}", n), g)
			}
		}
		return r, values
	}
	return nil, nil
}
