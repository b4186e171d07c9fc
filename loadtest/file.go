package loadtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of a file of phases.
const (
	maxPhases    = 64 // each has histograms of its own
	maxFileBytes = 64 << 10
	maxName      = 40 // characters
)

type phaseKey struct {
	name string
	set  func(p *Phase, v string) error
}

// phaseKeys are what a phase of a file may say: the flags have the same names and values.
var phaseKeys = []phaseKey{
	{"name", func(p *Phase, v string) error { p.Name = v; return checkName(v) }},
	{"scenario", func(p *Phase, v string) error { p.Scenario = v; return nil }},
	{"for", func(p *Phase, v string) error { return parsePositive(v, &p.Duration) }},
	{"warmup", func(p *Phase, v string) error { return parsePositive(v, &p.Warmup) }},
	{"devices", func(p *Phase, v string) error { return parseNumber(v, &p.Devices) }},
	{"connect-rate", func(p *Phase, v string) error { return parseFloat(v, &p.ConnectRate) }},
	{"rate", func(p *Phase, v string) (err error) { p.Rate, p.Rise, err = ParseRate(v); return err }},
	{"mix", func(p *Phase, v string) (err error) { p.Mix, err = ParseMix(v); return err }},
	{"size", func(p *Phase, v string) error { return ParseSizes(v, &p.MinSize, &p.MaxSize) }},
	{"file-size", func(p *Phase, v string) error { return ParseSizes(v, &p.MinFile, &p.MaxFile) }},
	{"part-size", func(p *Phase, v string) error { return parseNumber(v, &p.Part) }},
	{"churn", func(p *Phase, v string) error { return parseFloat(v, &p.Churn) }},
	{"reconnect", func(p *Phase, v string) (err error) { p.Reconnect, err = ParseBackoff(v); return err }},
	{"bad", func(p *Phase, v string) error { return parseFloat(v, &p.Bad) }},
	{"fail", func(p *Phase, v string) error {
		t, err := ParseThreshold(v)
		p.Fail = append(p.Fail, t)
		return err
	}},
}

// ReadPhases reads a file of phases. What base says goes for each phase that says nothing else; but its Devices and Duration
// are the most that any phase has, to try a file out small. Errors name the line.
func ReadPhases(text []byte, base Phase) (all []Phase, err error) {
	if base.Devices < 0 || base.Duration < 0 {
		return nil, usagef("the most devices and the longest phase must be over 0")
	}
	root, err := document(text)
	if err != nil {
		return nil, err
	}
	list, err := phaseList(root)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	there, strays := 0, 0
	for _, n := range list {
		p, err := readPhase(n, base, there)
		switch {
		case err != nil:
			return nil, err
		case names[p.Name]:
			return nil, atLine(n, "a phase above has the same name")
		}
		there = p.Devices
		if base.Devices > 0 {
			p.Devices = min(p.Devices, base.Devices)
		}
		p.defaults()
		if err := p.check(); err != nil {
			return nil, atLine(n, "%s", err)
		}
		if strays += p.strays(); strays > p.Devices {
			return nil, atLine(n, "more devices go astray than there are: who did so once does not come back")
		}
		names[p.Name] = true
		all = append(all, p)
	}
	return all, nil
}

// document is the one thing that the file holds.
func document(text []byte) (*yaml.Node, error) {
	if len(text) > maxFileBytes {
		return nil, usagef("the file is longer than %d bytes", maxFileBytes)
	}
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, usagef("the file is empty")
	} else if err != nil {
		return nil, usagef("%s", printable(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	if !errors.Is(d.Decode(&more), io.EOF) {
		return nil, usagef("the file holds more than one document")
	}
	return doc.Content[0], nil
}

func phaseList(root *yaml.Node) ([]*yaml.Node, error) {
	if root.Kind != yaml.MappingNode || len(root.Content) == 0 {
		return nil, atLine(root, "the file must have the key phases")
	}
	for i := 0; i < len(root.Content); i += 2 {
		if key := root.Content[i]; key.Value != "phases" || i > 0 {
			return nil, atLine(key, "the only key here is phases, once")
		}
	}
	list := root.Content[1]
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 || len(list.Content) > maxPhases {
		return nil, atLine(list, "phases must be a list, of at most %d", maxPhases)
	}
	return list.Content, nil
}

// readPhase reads one phase, behind which there are so many devices.
func readPhase(n *yaml.Node, base Phase, there int) (p Phase, err error) {
	if n.Kind != yaml.MappingNode {
		return p, atLine(n, "a phase must have keys, as name and for")
	}
	p = base
	p.Name, p.Duration, p.Devices = "", 0, there
	said := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if said[key.Value] {
			return p, atLine(key, "%s is there twice", printable(key.Value))
		}
		said[key.Value] = true
		if err := p.set(key, value); err != nil {
			return p, err
		}
	}
	switch {
	case p.Name == "":
		return p, atLine(n, "the phase needs a name")
	case p.Devices == 0:
		return p, atLine(n, "the first phase needs devices")
	case p.Devices < there:
		return p, atLine(n, "there are %d devices already, and they can only become more", there)
	case p.Duration == 0 && (p.Devices == there || said["rate"] || said["churn"] || said["scenario"] || said["warmup"]):
		return p, atLine(n, "the phase needs the key for: how long it takes")
	case p.Duration == 0: // devices come, and that is all
		p.Warmup, p.Rate, p.Rise, p.Churn = 0, 0, 0, 0
	case base.Duration > 0:
		p.Duration = min(p.Duration, base.Duration)
	}
	if p.Scenario == "" && p.Rate+p.Rise > 0 {
		p.Scenario = "chat"
	}
	return p, nil
}

// set sets what one key says; fail may have a list of values.
func (p *Phase) set(key, value *yaml.Node) error {
	at := slices.IndexFunc(phaseKeys, func(k phaseKey) bool { return k.name == key.Value })
	if at < 0 {
		var names []string
		for _, k := range phaseKeys {
			names = append(names, k.name)
		}
		return atLine(key, "there is no key %s; a phase may have %s", printable(key.Value), strings.Join(names, ", "))
	}
	values := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode && key.Value == "fail" {
		values = value.Content
	}
	for _, v := range values {
		if v.Kind != yaml.ScalarNode || v.Value == "" {
			return atLine(v, "%s needs a plain value", key.Value)
		}
		if err := phaseKeys[at].set(p, v.Value); err != nil {
			return atLine(v, "%s: %s", key.Value, err)
		}
	}
	return nil
}

func atLine(n *yaml.Node, format string, args ...any) error {
	return usagef("line %d: %s", max(n.Line, 1), fmt.Sprintf(format, args...))
}

func checkName(s string) error {
	if utf8.RuneCountInString(s) > maxName || strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" -_.", r)
	}) {
		return fmt.Errorf("must be at most %d letters, digits, blanks, - _ or .", maxName)
	}
	return nil
}

func parsePositive(s string, to *time.Duration) (err error) {
	if *to, err = time.ParseDuration(s); err != nil || *to <= 0 {
		return errors.New("must be a time over 0, as 30s or 5m")
	}
	return nil
}

func parseNumber(s string, to *int) (err error) {
	if *to, err = strconv.Atoi(s); err != nil || *to < 1 {
		return errors.New("must be a whole number over 0")
	}
	return nil
}

func parseFloat(s string, to *float64) (err error) {
	if *to, err = strconv.ParseFloat(s, 64); err != nil || !(*to >= 0) {
		return errors.New("must be a number")
	}
	return nil
}
