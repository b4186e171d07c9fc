package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mobilegate/loadtest"
)

var usage = strings.Replace(`usage: loadtest [flags] URL
       loadtest conform [flags] URL   plays the golden transcripts of the protocol (conform -h explains)

Loads the gateway at URL (ws://HOST:PORT/ws) with simulated devices, checks every answer, and measures how long each takes.
The gateway's agent must be echo; against quotas start it with MOBILE_QUOTA=off.

Who connects
  -n, --devices N           devices (default 1)
  -R, --connect-rate N      connections begun a second (default 1000)
      --prefix TEXT         of the device ids (default load-)
      --start N             number of the first device (default 0)
      --shards N            processes that share the devices, since each may have only so many descriptors (default 1)
      --source-addrs LIST   own addresses to connect from, in turn, joined by commas: each has some 28 000 ports
      --token-file FILE     file that holds the token (default: MOBILE_TOKEN of the environment)
      --token TOKEN         the token itself; every user of this machine can read it there, so a file is safer

What they do
  -f, --file FILE           phases, one after another, as described below
      --scenario NAME       one of those below, each with defaults of its own (default idle, and chat with --rate)
  -d, --duration TIME       of what is measured (default 10s)
      --warmup TIME         before it: the same, not measured (default none)
  -r, --rate N              messages a second of all devices together (default: as the scenario says), or N..M for a rate that
                            changes evenly. Every message has a time at which it is due, and its latency counts from then,
                            whatever the gateway does
      --mix WEIGHTS         of the kinds of message, as text=90,audio=5,media=5
      --size MIN..MAX       bytes of a text (default 32..512)
      --file-size MIN..MAX  bytes of a voice message or file (default 4096..65536)
      --part-size N         bytes of one part of a file (default 65536)
      --churn N             devices a second that leave and come back
      --reconnect POLICY    full-jitter:1s..60s: when a device whose connection ended comes back (default: at once if it left
                            by itself, never if the gateway ended it)
      --bad SHARE           of devices that misbehave in slow-consumer and half-open (default 0.1)
      --seed N              of texts and their sizes (default 1)
      --timeout TIME        for a device to be ready, and for an answer (default 30s)

What is told
  -o FORMAT                 the report as text, json or csv (default text)
  -q, --quiet               no line a second
      --hist                also how the times are spread
      --plot                also how it went, second by second
      --html FILE           also a page with plots, for a browser, that needs nothing else
      --fail CONDITION      what must hold, as reply.p99<50ms or lost==0; may be given again

What it is measured beside
      --server-pid N        process of the gateway on this machine: its memory, processor time and context switches
      --server-metrics URL  page of metrics of the gateway, in the text format of Prometheus, as http://127.0.0.1:9090/metrics:
                            its memory, processor time, goroutines and descriptors, looked at once a second
      --baseline URL        another server, measured in turns with the first: the report is the ratio of the two
      --baseline-pid N, --baseline-metrics URL
                            its process, or its page of metrics
      --pairs N             how often each of the two is measured, for -d each time (default 10)

Scenarios
SCENARIOS

Phases
  A file for -f is YAML: the key phases, a list. A phase has a name, unlike the others, and these keys:

    devices         that are connected before the phase begins; those that are there stay, so it can only become more
    for             how long the phase takes; without it, its devices come and the next phase begins
    scenario, rate, mix, size, file-size, part-size, churn, reconnect, bad, warmup, connect-rate
                    as the flags of these names; default: what the flag beside -f says, or the default of that
    fail            a condition or a list of them, as for --fail, that must hold of this phase

    phases:
      - {name: all come, devices: 5000, connect-rate: 500}
      - {name: quiet, for: 30s}
      - {name: chat, for: 60s, rate: 0..200, mix: "text=90,audio=10", fail: [reply.p99<50ms, lost==0]}
      - {name: storm, for: 30s, scenario: storm, reconnect: full-jitter:1s..10s}

  A phase for which no devices come follows the one before without a gap, and a message counts in the phase in which it was
  due. Devices that went astray stay so. Beside -f, -n and -d are the most devices and the longest phase, to try a file out
  small; --fail is about the whole run; --scenario and --baseline do not go with it.

Spans: connect (TCP), upgrade (HTTP), ready (hello to ready), online (all three), reply (due to the first frame of the answer),
last (due to its last frame), expulsion (misbehaving to being cut off), lag (due to sent: how late the generator itself was).
Each has count min mean p50 p90 p95 p99 p99.9 max, and any pN.
Counts: calls online failed missing dropped, sent answered lost late refused given_up unsent, duplicated reordered misrouted
corrupted malformed, churned takeovers replaced stale, astray expelled. rate: answers a second.
Of the server: server.rss (at most) and .rss_per_device, as 1GiB or 20KiB, .cores (processors used), .cpu_per_message,
.switches_per_message, .goroutines and .fds (at most).

Exit status:
    0  all is well
    1  the gateway did wrong: answers lost, twice, out of order, wrong or to another device; devices dropped
    2  the command line, or the file of phases, is wrong
    3  the gateway or its metrics cannot be reached, or not every device became ready
    4  this generator was the bottleneck: the figures are its own
   99  a --fail does not hold
  130  interrupted; the report is about what was done until then
`, "SCENARIOS\n", scenarios(), 1)

func scenarios() (lines string) {
	names, about := loadtest.Scenarios()
	for i, name := range names {
		lines += fmt.Sprintf("  %-15s %s\n", name, about[i])
	}
	return lines
}

// options are what the command line asks for.
type options struct {
	config     loadtest.Config
	conditions []loadtest.Threshold
	format     string
	shards     int

	file       string // of phases
	hist, plot bool
	html       string                  // file
	pictures   []func(io.Writer) error // that follow the report

	baseline               string // address of the server to compare with
	pairs                  int
	server, baselineServer watched
	quiet                  bool

	tokenFile string
}

// flags are all that the command line may say; usage tells of each.
func (o *options) flags() *flag.FlagSet {
	c := &o.config
	flags := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for _, name := range []string{"n", "devices"} {
		flags.IntVar(&c.Devices, name, 0, "")
	}
	for _, name := range []string{"R", "connect-rate"} {
		flags.Float64Var(&c.ConnectRate, name, 0, "")
	}
	for _, name := range []string{"d", "duration"} {
		flags.DurationVar(&c.Duration, name, 0, "")
	}
	for _, name := range []string{"r", "rate"} {
		flags.Func(name, "", func(v string) (err error) {
			if c.Rate, c.Rise, err = loadtest.ParseRate(v); err == nil && c.Rate == 0 && c.Rise == 0 {
				err = errOver0
			}
			return err
		})
	}
	for _, name := range []string{"f", "file"} {
		flags.StringVar(&o.file, name, "", "")
	}
	for _, name := range []string{"q", "quiet"} {
		flags.BoolVar(&o.quiet, name, false, "")
	}
	flags.DurationVar(&c.Warmup, "warmup", 0, "")
	flags.DurationVar(&c.Timeout, "timeout", 0, "")
	flags.StringVar(&c.Scenario, "scenario", "", "")
	flags.StringVar(&c.Prefix, "prefix", "", "")
	flags.IntVar(&c.Start, "start", 0, "")
	flags.Uint64Var(&c.Seed, "seed", 1, "")
	flags.Func("o", "", oneOf(&o.format, "text", "json", "csv"))
	flags.IntVar(&o.shards, "shards", 1, "")
	flags.BoolVar(&o.hist, "hist", false, "")
	flags.BoolVar(&o.plot, "plot", false, "")
	flags.StringVar(&o.html, "html", "", "")
	flags.StringVar(&o.baseline, "baseline", "", "")
	flags.IntVar(&o.pairs, "pairs", defaultPairs, "")
	for name, w := range map[string]*watched{"server": &o.server, "baseline": &o.baselineServer} {
		flags.IntVar(&w.pid, name+"-pid", 0, "")
		flags.StringVar(&w.metrics, name+"-metrics", "", "")
	}
	flags.Float64Var(&c.Churn, "churn", 0, "")
	flags.Float64Var(&c.Bad, "bad", 0, "")
	flags.IntVar(&c.Part, "part-size", 0, "")
	flags.Func("mix", "", func(v string) (err error) { c.Mix, err = loadtest.ParseMix(v); return err })
	flags.Func("reconnect", "", func(v string) (err error) { c.Reconnect, err = loadtest.ParseBackoff(v); return err })
	flags.Func("size", "", func(v string) error { return loadtest.ParseSizes(v, &c.MinSize, &c.MaxSize) })
	flags.Func("file-size", "", func(v string) error { return loadtest.ParseSizes(v, &c.MinFile, &c.MaxFile) })
	flags.Func("source-addrs", "", func(v string) error { return addresses(v, c) })
	flags.Func("fail", "", func(v string) error {
		t, err := loadtest.ParseThreshold(v)
		o.conditions = append(o.conditions, t)
		return err
	})
	flags.StringVar(&c.Token, "token", "", "")
	flags.StringVar(&o.tokenFile, "token-file", "", "")
	return flags
}

func readOptions(args []string, env func(string) string) (*options, error) {
	o := &options{config: loadtest.Config{Seed: 1}, format: "text"}
	c := &o.config
	if err := parse(o.flags(), args, c); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.file != "" {
		if err := o.readFile(); err != nil {
			return nil, err
		}
	} else if c.Scenario == "" && c.Rate+c.Rise > 0 {
		c.Scenario = "chat"
	}
	return o, token(c, o.tokenFile, env)
}

// check says what does not go together.
func (o *options) check() error {
	ofServer := slices.ContainsFunc(o.conditions, loadtest.Threshold.OfServer)
	switch {
	case o.baseline != "" && (o.hist || o.plot || o.html != "") || o.format != "text" && (o.hist || o.plot):
		return errors.New("--hist and --plot belong to a report as text, and they and --html to one of a single server")
	case o.file != "" && (o.baseline != "" || o.config.Scenario != ""):
		return errors.New("--scenario and --baseline do not go with -f")
	case o.server.pid != 0 && o.server.metrics != "" || o.baselineServer.pid != 0 && o.baselineServer.metrics != "":
		return errors.New("a server is looked at by its pid or by its metrics, not both")
	case o.baseline == "" && (o.pairs != defaultPairs || o.baselineServer != watched{}):
		return errors.New("--pairs, --baseline-pid and --baseline-metrics need a --baseline")
	case ofServer && (o.server == watched{} || o.baseline != ""):
		return errors.New("a condition about the server needs --server-pid or --server-metrics, and a single server")
	}
	return nil
}

// readFile reads the phases.
func (o *options) readFile() error {
	b, err := readUpTo(o.file, maxFile)
	if err != nil {
		return fmt.Errorf("the file of phases cannot be read: %w", err)
	}
	c := &o.config
	if c.Phases, err = loadtest.ReadPhases(b, c.Phase); err != nil {
		return fmt.Errorf("the file of phases: %w", err)
	}
	for _, p := range c.Phases {
		if slices.ContainsFunc(p.Fail, loadtest.Threshold.OfServer) && o.server == (watched{}) {
			return fmt.Errorf("the phase %s has a condition about the server, which needs --server-pid or --server-metrics", p.Name)
		}
	}
	c.Name = filepath.Base(o.file)
	return nil
}

const defaultPairs = 10

// maxFile is the least that is too much for any file that is read here.
const maxFile = 1 << 20

// readUpTo reads a file of which the name is known to whoever reads the error.
func readUpTo(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	return b, nil
}

// token finds the token in the flag, the file, or the environment.
func token(c *loadtest.Config, file string, env func(string) string) error {
	switch {
	case c.Token != "" && file != "":
		return errors.New("--token and --token-file exclude each other")
	case file != "":
		b, err := readUpTo(file, maxFile)
		if err != nil {
			return fmt.Errorf("the token file cannot be read: %w", err)
		}
		c.Token = strings.TrimSpace(string(b))
	case c.Token == "":
		c.Token = env("MOBILE_TOKEN")
	}
	return nil
}

func oneOf(to *string, allowed ...string) func(string) error {
	return func(v string) error {
		for _, a := range allowed {
			if v == a {
				*to = v
				return nil
			}
		}
		return fmt.Errorf("must be %s", strings.Join(allowed, " or "))
	}
}

func addresses(v string, c *loadtest.Config) error {
	for _, item := range strings.Split(v, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(item))
		if err != nil {
			return errors.New("must be addresses joined by commas, as 127.0.0.2,127.0.0.3")
		}
		c.SourceAddrs = append(c.SourceAddrs, a)
	}
	return nil
}
