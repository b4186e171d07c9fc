package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"mobilegate/engine"
	"mobilegate/session"
)

// config is what serve was asked for: the variables of the environment first, then the flags.
type config struct {
	engine  engine.Config
	session session.Config
	agent   string
	dev     bool
	level   slog.Level
	json    bool
}

// setting is one thing that an operator may set, as a variable and, unless it is secret, as a flag.
type setting struct {
	env, flag, usage string
	set              func(value string) error // its error says what the value may be
}

func (c *config) settings() []setting {
	return []setting{
		{"MOBILE_AGENT", "agent", "who answers: echo (default echo)", oneOf(&c.agent, "echo")},
		{"MOBILE_HOST", "host", "address to listen on (default 127.0.0.1; * for all)", host(&c.engine.Host)},
		{"MOBILE_PORT", "port", "port to listen on (default 8787; 0 takes a free one)", number(&c.engine.Port, 0, 65535)},
		{"MOBILE_ALLOWED_DEVICES", "allowed-devices", "the only device ids that may connect, joined by commas (default all)", func(v string) error {
			c.session.Access.Devices = items(v)
			return nil
		}},
		{"MOBILE_HOME_DEVICE", "home-device", "device that deliveries without a target go to", text(&c.session.HomeDevice)},
		{"MOBILE_DELIVER_LOOPBACK", "deliver-loopback", "off lets programs on this host deliver only with a deliver token, on is the default", func(v string) error {
			var local string
			err := oneOf(&local, "on", "off")(v)
			c.session.RemoteOnly = local == "off"
			return err
		}},
		{"MOBILE_AVATAR_URL", "avatar-url", "page of the avatar, told to every device", text(&c.session.AvatarURL)},
		{"MOBILE_MAX_CONNECTIONS", "max-connections", "connections at a time (default what the descriptor limit allows)", number(&c.engine.MaxConnections, 1, 1<<24)},
		{"MOBILE_PING_INTERVAL", "ping-interval", "silence before a device is pinged (default 50s; 0 never)", duration(&c.engine.PingInterval)},
		{"MOBILE_QUOTA", "quota", "off switches the rates of devices off, on is the default", func(v string) error {
			var quota string
			err := oneOf(&quota, "on", "off")(v)
			c.session.QuotaOff = quota == "off"
			return err
		}},
		{"MOBILE_LOG_LEVEL", "log-level", "debug, info, warn or error (default info)", func(v string) error {
			if c.level.UnmarshalText([]byte(v)) != nil {
				return errors.New("must be debug, info, warn or error")
			}
			return nil
		}},
		{"MOBILE_LOG_FORMAT", "log-format", "text or json (default text)", func(v string) error {
			var format string
			err := oneOf(&format, "text", "json")(v)
			c.json = format == "json"
			return err
		}},
	}
}

// tokens are the secrets: variables, or files named by the variable with _FILE, never flags, which everybody on the machine
// could read.
func (c *config) tokens() []setting {
	add := func(t session.Token) { c.session.Access.Tokens = append(c.session.Access.Tokens, t) }
	return []setting{
		{env: "MOBILE_TOKEN", usage: "the token that any device may use", set: func(v string) error {
			if v = strings.TrimSpace(v); v != "" {
				add(session.Token{Secret: v})
			}
			return nil
		}},
		{env: "MOBILE_EXTRA_TOKENS", usage: "further tokens, joined by commas: TOKEN, or DEVICE=TOKEN for one that only this device may use", set: func(v string) error {
			for _, item := range items(v) {
				device, secret, bound := strings.Cut(item, "=")
				if !bound {
					device, secret = "", item
				}
				if strings.Trim(secret, "=") == "" {
					return errors.New("has an item whose token is empty; a token that ends in = is written =TOKEN… with a device in front, or without its padding")
				}
				add(session.Token{Secret: secret, Device: device})
			}
			return nil
		}},
		{env: "MOBILE_DELIVER_TOKENS", usage: "tokens that may also deliver to other devices, joined by commas", set: func(v string) error {
			for _, item := range items(v) {
				add(session.Token{Secret: item, Deliver: true})
			}
			return nil
		}},
	}
}

// errHelp says that the flags were asked for, and shown.
var errHelp = errors.New("help")

// readConfig reads the environment and the flags of serve. Its errors are sentences for the operator.
func readConfig(args []string, env func(string) string, help io.Writer) (*config, error) {
	c := &config{agent: "echo"}
	c.engine.Host, c.engine.Port, c.engine.PingInterval = "127.0.0.1", 8787, 50*time.Second
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&c.dev, "dev", false, "")
	for _, s := range c.settings() {
		flags.Func(s.flag, "", func(v string) error {
			if err := s.set(v); err != nil {
				return fmt.Errorf("--%s %w", s.flag, err)
			}
			return nil
		})
		if v := env(s.env); v != "" {
			if err := s.set(v); err != nil {
				return nil, fmt.Errorf("%s %w", s.env, err)
			}
		}
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		c.help(help)
		return nil, errHelp
	case err != nil:
		return nil, flagError(err)
	case flags.NArg() > 0:
		return nil, errors.New("serve takes flags only; mobilegate serve -h lists them")
	}
	for _, s := range c.tokens() {
		v, err := secret(s.env, env)
		if err == nil {
			err = s.set(v)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %w", s.env, err)
		}
	}
	return c, nil
}

// flagError takes the flag package's own wrapping off: it repeats the value.
func flagError(err error) error {
	if _, after, ok := strings.Cut(err.Error(), ": --"); ok {
		return errors.New("--" + after)
	}
	return errors.New("there is a flag that serve does not know, or one without its value; mobilegate serve -h lists them")
}

// secret reads a variable, or the file that the variable with _FILE names.
func secret(name string, env func(string) string) (string, error) {
	file := env(name + "_FILE")
	if file == "" {
		return env(name), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot be read from the file that %s_FILE names: %w", name, errors.Unwrap(err))
	}
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ","), nil
}

func (c *config) help(w io.Writer) {
	fmt.Fprint(w, "mobilegate serve [flags]: run the gateway.\n\n  --dev\n        make a token for this run and print the line to connect with\n")
	for _, s := range c.settings() {
		fmt.Fprintf(w, "  --%s\n        %s [%s]\n", s.flag, s.usage, s.env)
	}
	fmt.Fprint(w, "\nTokens come from the environment only (or from the file that NAME_FILE names):\n")
	for _, s := range c.tokens() {
		fmt.Fprintf(w, "  %s\n        %s\n", s.env, s.usage)
	}
}

func text(to *string) func(string) error {
	return func(v string) error {
		*to = v
		return nil
	}
}

func host(to *string) func(string) error {
	return func(v string) error {
		v = strings.TrimSuffix(strings.TrimPrefix(v, "["), "]")
		if v == "*" {
			*to = ""
			return nil
		}
		if ips, err := net.LookupIP(v); err != nil || len(ips) == 0 {
			return errors.New("must be an address or the name of one, or * for all addresses")
		}
		*to = v
		return nil
	}
}

func number(to *int, from, upTo int) func(string) error {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < from || n > upTo {
			return fmt.Errorf("must be a whole number from %d to %d", from, upTo)
		}
		*to = n
		return nil
	}
}

func duration(to *time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 || d > 0 && d < time.Second {
			return errors.New("must be a duration such as 50s, of at least a second, or 0 for never")
		}
		*to = d
		return nil
	}
}

func oneOf(to *string, allowed ...string) func(string) error {
	return func(v string) error {
		for _, a := range allowed {
			if v == a {
				*to = a
				return nil
			}
		}
		return fmt.Errorf("must be %s", strings.Join(allowed, " or "))
	}
}

// items splits a comma list; blanks around items and empty items do not count.
func items(list string) (all []string) {
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}
