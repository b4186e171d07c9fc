package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"mobilegate/agent/hermes"
	"mobilegate/agent/openai"
	"mobilegate/engine"
	"mobilegate/session"
)

// config is what serve was asked for: the variables of the environment first, then the flags.
type config struct {
	engine  engine.Config
	session session.Config
	openai  openai.Config
	hermes  hermes.Config
	agent   string
	admin   string // address of the listener for operators; "": none
	dev     bool
	level   slog.Level
	json    bool
}

// quota is where the rates of the session's configuration are written to.
func (c *config) quota() *session.Quota {
	if c.session.Quota == nil {
		q := session.DefaultQuota
		c.session.Quota = &q
	}
	return c.session.Quota
}

// setting is one thing that an operator may set, as a variable and, unless it is secret, as a flag.
type setting struct {
	env, flag, usage string
	set              func(value string) error // its error says what the value may be
}

func (c *config) settings() []setting {
	return slices.Concat(c.basics(), c.agents(), c.bounds())
}

func (c *config) basics() []setting {
	return []setting{
		{"MOBILE_HOST", "host", "address to listen on (default 127.0.0.1; * for all)", host(&c.engine.Host)},
		{"MOBILE_PORT", "port", "port to listen on (default 8787; 0 takes a free one)", number(&c.engine.Port, 0, 65535)},
		{"MOBILE_ALLOWED_DEVICES", "allowed-devices", "the only device ids that may connect, joined by commas (default all)", func(v string) error {
			c.session.Access.Devices = items(v)
			return deviceIDs(c.session.Access.Devices...)
		}},
		{"MOBILE_HOME_DEVICE", "home-device", "device that deliveries without a target go to", device(&c.session.HomeDevice)},
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
		{"MOBILE_ADMIN_ADDR", "admin-addr", "address for operators, as 127.0.0.1:9787: its /metrics has the gateway's numbers (default none)", address(&c.admin)},
	}
}

// bounds are what devices may send, and what all of them together may hold in memory.
func (c *config) bounds() []setting {
	return []setting{
		{"MOBILE_QUOTA_DEVICE", "quota-device", "what a device may send, any of frames=50,bytes=2MiB (a second) and burst-frames=4000,burst-bytes=32MiB", rate(&c.quota().Device)},
		{"MOBILE_QUOTA_TOKEN", "quota-token", "the same for all devices of one token together", rate(&c.quota().Token)},
		{"MOBILE_QUOTA_ADDRESS", "quota-address", "the same for all devices of one client address together", rate(&c.quota().Address)},
		{"MOBILE_QUOTA_ERRORS", "quota-errors", "errors a second after which a connection is closed (default 20)", number(&c.quota().ErrorsASecond, 1, 10_000)},
		{"MOBILE_QUOTA_TAKEOVERS", "quota-takeovers", "take-overs a minute of one device (default 5)", number(&c.quota().TakeOversAMinute, 1, 10_000)},
		{"MOBILE_QUOTA_FAILED_HELLOS", "quota-failed-hellos", "refused hellos a minute of one client address (default 60)", number(&c.quota().FailedHellosAMinute, 1, 60_000)},
		{"MOBILE_TRUSTED_PROXIES", "trusted-proxies", "networks of proxies whose X-Forwarded-For names the client, joined by commas: 10.0.0.0/8,::1/128", func(v string) error {
			c.engine.TrustedProxies = nil
			for _, item := range items(v) {
				p, err := netip.ParsePrefix(item)
				if err != nil {
					return errors.New("must be networks such as 10.0.0.0/8, joined by commas")
				}
				c.engine.TrustedProxies = append(c.engine.TrustedProxies, p.Masked())
			}
			return nil
		}},
		{"MOBILE_MAX_INBOUND", "max-inbound", "memory for messages of all devices on their way in (default 512MiB)", size(&c.engine.MaxInbound)},
		{"MOBILE_MAX_OUTBOUND", "max-outbound", "memory for what waits for all devices (default 256MiB)", size(&c.engine.MaxOutbound)},
		{"MOBILE_MAX_STRANGERS", "max-strangers", "memory for what comes before a hello is accepted (default 32MiB)", size(&c.engine.MaxStrangers)},
		{"MOBILE_MAX_FILES", "max-files", "memory for files of all devices, and the same again for files in parts (default 512MiB)", size(&c.session.MaxFiles)},
		{"MOBILE_MAX_OFFLINE", "max-offline", "offline devices that something is remembered of (default 100000)", number(&c.session.MaxOffline, 1, 1<<30)},
	}
}

// secrets are variables, or files named by the variable with _FILE, never flags, which everybody on the machine could read.
func (c *config) secrets() []setting { return append(c.tokens(), c.keys()...) }

// tokens let devices in.
func (c *config) tokens() []setting {
	add := func(t session.Token) { c.session.Access.Tokens = append(c.session.Access.Tokens, t) }
	// An item of a list is known by its place in the list, or among the tokens of its device, for as long as the
	// configuration keeps it there, whatever its value.
	place := func(list string, n int) string { return list + "/" + strconv.Itoa(n) }
	return []setting{
		{env: "MOBILE_TOKEN", usage: "the token that any device may use", set: func(v string) error {
			if v = strings.TrimSpace(v); v != "" {
				add(session.Token{Secret: v, Name: "MOBILE_TOKEN"})
			}
			return nil
		}},
		{env: "MOBILE_EXTRA_TOKENS", usage: "further tokens, joined by commas: TOKEN, or DEVICE=TOKEN for one that only this device may use", set: func(v string) error {
			of := map[string]int{}
			for n, item := range places(v) {
				device, secret, bound := strings.Cut(item, "=")
				if !bound {
					device, secret = "", item
				}
				if strings.Trim(secret, "=") == "" {
					return errors.New("has an item whose token is empty; a token that ends in = is written =TOKEN… with a device in front, or without its padding")
				}
				if device != "" {
					if err := deviceIDs(device); err != nil {
						return err
					}
				}
				name := place("MOBILE_EXTRA_TOKENS", n)
				if device != "" {
					of[device]++
					name = place("MOBILE_EXTRA_TOKENS/"+device, of[device])
				}
				add(session.Token{Secret: secret, Device: device, Name: name})
			}
			return nil
		}},
		{env: "MOBILE_DELIVER_TOKENS", usage: "tokens that may also deliver to other devices, joined by commas", set: func(v string) error {
			for n, item := range places(v) {
				add(session.Token{Secret: item, Deliver: true, Name: place("MOBILE_DELIVER_TOKENS", n)})
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
	for _, s := range c.secrets() {
		v, err := secret(s.env, env)
		if err == nil {
			err = s.set(v)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %w", s.env, err)
		}
	}
	if len(c.engine.TrustedProxies) > 0 {
		c.session.RemoteOnly = true // behind a proxy nobody is known to be this host (spec 9)
	}
	return c, nil
}

// flagError takes the flag package's own wrapping off: it repeats the value.
func flagError(err error) error {
	text := err.Error()
	if _, after, ok := strings.Cut(text, ": --"); ok {
		return errors.New("--" + after)
	}
	for begin, what := range map[string]string{
		"flag provided but not defined: -": "is no flag of serve; mobilegate serve -h lists them",
		"flag needs an argument: -":        "needs a value",
	} {
		if name, ok := strings.CutPrefix(text, begin); ok {
			return errors.New("--" + name + " " + what)
		}
	}
	return errors.New("a flag has a value that it cannot have; mobilegate serve -h explains them")
}

// unknown names the variables that look like settings and are none: most likely misspelt.
func (c *config) unknown(environ []string) (names []string) {
	known := map[string]bool{}
	for _, s := range c.settings() {
		known[s.env] = true
	}
	for _, s := range c.secrets() {
		known[s.env], known[s.env+"_FILE"] = true, true
	}
	for _, pair := range environ {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "MOBILE_") && !known[name] && !ofClients[name] {
			names = append(names, name)
		}
	}
	return names
}

// ofClients are the variables that chat and send read.
var ofClients = map[string]bool{"MOBILE_DELIVER_TOKEN": true}

// secret reads a variable, or the file that the variable with _FILE names.
func secret(name string, env func(string) string) (string, error) {
	file := env(name + "_FILE")
	if file == "" {
		return env(name), nil
	}
	if env(name) != "" {
		return "", fmt.Errorf("is set, and so is %s_FILE: only one of them may be", name)
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
	fmt.Fprint(w, "\nSecrets come from the environment only (or from the file that NAME_FILE names):\n")
	for _, s := range c.secrets() {
		fmt.Fprintf(w, "  %s\n        %s\n", s.env, s.usage)
	}
}
