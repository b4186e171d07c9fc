package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"mobilegate/loadtest"
)

// parse takes the flags, which may also stand behind the URL.
func parse(flags *flag.FlagSet, args []string, c *loadtest.Config) error {
	for {
		if err := flags.Parse(args); err != nil {
			return flagError(flags, err)
		}
		if flags.NArg() == 0 {
			break
		}
		if c.URL != "" {
			return errors.New("only one address can be tested")
		}
		c.URL, args = flags.Arg(0), flags.Args()[1:]
	}
	if c.URL == "" {
		return errors.New("an address is needed: loadtest [flags] ws://127.0.0.1:8787/ws; loadtest -h explains")
	}
	return numbers(flags)
}

// flagError is err of flags.Parse in the words of this program. It repeats no value, which may be a token, and of what is no
// flag only what looks like the name of one.
func flagError(flags *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	text := err.Error()
	if _, name, ok := strings.Cut(text, "needs an argument: -"); ok && flags.Lookup(name) != nil {
		return fmt.Errorf("%s needs a value", dashed(name))
	}
	if _, name, ok := strings.Cut(text, "not defined: -"); ok && len(name) <= 20 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") == "" {
		return fmt.Errorf("%s is no flag; -h lists them", dashed(name))
	}
	_, after, _ := strings.Cut(text, "flag -")
	name, why, _ := strings.Cut(after, ": ")
	f := flags.Lookup(name)
	if f == nil {
		return errors.New("there is something that is no flag; -h lists them")
	}
	if is := kind(f); is != "" {
		why = "must be " + is
	}
	return fmt.Errorf("%s: %s", dashed(name), why)
}

// kind says what the value of a flag is; empty when the flag says so itself.
func kind(f *flag.Flag) string {
	value, ok := f.Value.(flag.Getter)
	if !ok {
		return ""
	}
	switch value.Get().(type) {
	case time.Duration:
		return "a time, as 500ms, 30s or 5m"
	case int:
		return "a whole number"
	case uint64:
		return "a whole number from 0"
	case float64:
		return "a number"
	case bool:
		return "true or false, or left out"
	}
	return ""
}

var errOver0 = errors.New("must be over 0; without it, it is the default")

// numbers refuses a 0 that somebody wrote: in a Config it stands for the default.
func numbers(flags *flag.FlagSet) (err error) {
	flags.Visit(func(f *flag.Flag) {
		switch f.Value.String() {
		case "0", "0s":
			if f.Name != "start" && f.Name != "seed" && f.Name != "warmup" && kind(f) != "" {
				err = fmt.Errorf("%s: %w", dashed(f.Name), errOver0)
			}
		}
	})
	return err
}

// dashed is a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
