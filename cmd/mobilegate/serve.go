package main

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"mobilegate/admin"
	"mobilegate/agent"
	"mobilegate/codec"
	"mobilegate/engine"
	"mobilegate/session"
)

const (
	drainTime = 10 * time.Second // for running turns
	leaveTime = 3 * time.Second  // for the devices to take their last frames
)

// runServe is the whole gateway on one screen: configuration, floors from the bottom up, and the way down again.
func runServe(ctx context.Context, args []string, env func(string) string, out, errOut io.Writer) int {
	c, err := readConfig(args, env, out)
	if errors.Is(err, errHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(errOut, "mobilegate:", err)
		return exitUsage
	}
	devToken := c.devToken()
	log := newLog(c, errOut)
	c.engine.Log, c.session.Log = log, log
	for _, name := range c.unknown(os.Environ()) {
		log.Warn("a variable that looks like a setting is none", "name", name)
	}
	c.engine.Loops = spreadLoops()
	c.engine.MaxMessage, c.engine.MaxHello, c.engine.HelloTimeout = codec.MaxFrameBytes, codec.MaxHelloBytes, codec.HelloTimeout
	answerer, done, err := c.answerer(log)
	if err != nil {
		fmt.Fprintln(errOut, "mobilegate:", err)
		return exitUsage
	}
	defer done()
	c.session.Agent = answerer
	codec.Warm()

	hub, err := session.New(c.session)
	if err != nil {
		fmt.Fprintln(errOut, "mobilegate:", tokenAdvice(err))
		return exitUsage
	}
	defer hub.Close()
	server := engine.New(c.engine, hub)
	closeAdmin, err := listenAdmin(c, server, hub, log)
	if err != nil {
		fmt.Fprintln(errOut, "mobilegate: cannot listen for operators:", err)
		return exitFailed
	}
	defer closeAdmin()
	if err := server.Start(); err != nil {
		fmt.Fprintln(errOut, "mobilegate: cannot listen:", err)
		return exitFailed
	}
	hub.Start()
	url := "ws://" + net.JoinHostPort(dialable(c.engine.Host), strconv.Itoa(server.Port())) + "/ws"
	log.Info("listening", "url", url, "agent", c.agent, "max_connections", server.MaxConnections(), "loops", c.engine.Loops)
	if devToken != "" {
		fmt.Fprintf(out, "\nThe gateway runs with a token for this run only. Talk to it from another terminal:\n\n  MOBILE_TOKEN=%s %s chat --url %s\n\n", devToken, os.Args[0], url)
	}
	limitMemory(server, hub)
	go keepSmall(ctx, func() int64 { return server.Stats().Released + hub.Released() })

	select {
	case <-ctx.Done():
	case <-server.Ended():
		log.Error("the gateway ended by itself", "error", server.Err())
		return exitFailed
	}
	leave(server, hub, log)
	return exitOK
}

// listenAdmin opens the listener for operators, if they want one, and returns what closes it.
func listenAdmin(c *config, server *engine.Server, hub *session.Hub, log *slog.Logger) (func(), error) {
	if c.admin == "" {
		return func() {}, nil
	}
	of := admin.Config{Addr: c.admin, Engine: server.Stats, Hub: hub.Stats, Version: version(), Log: log}
	if a, ok := c.session.Agent.(agent.Reporter); ok {
		of.Agent = a.Health
	}
	l, err := admin.Listen(of)
	if err != nil {
		return nil, err
	}
	log.Info("numbers for operators", "url", l.URL())
	return l.Close, nil
}

// leave is the way down: nobody new is let in, running turns are given time, everybody is told to come back later.
func leave(server *engine.Server, hub *session.Hub, log *slog.Logger) {
	server.Drain()
	log.Info("stopping: new connections are refused, running turns have 10 s")
	drain, cancel := context.WithTimeout(context.Background(), drainTime)
	hub.Drain(drain)
	cancel()
	gone, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	for server.Stats().Connections > 0 && gone.Err() == nil {
		select {
		case <-gone.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	stop, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if err := server.Stop(stop); err != nil {
		log.Error("the event loops did not stop", "error", err)
	}
	e, s := server.Stats(), hub.Stats()
	log.Info("stopped", "accepted", e.Accepted, "upgraded", e.Upgraded, "refused", e.Refused+s.Refused, "frames", s.Frames, "turns", s.Turns,
		"failed_turns", s.Failed, "errors", s.Errors, "panics", e.Panics+s.Panics)
}

// spreadLoops says how many event loops to run, and gives the scheduler one processor more than that: with none to spare
// it takes the loop's away whenever the loop waits for events, and gives it back, twice for every turn.
func spreadLoops() int {
	cpus := runtime.GOMAXPROCS(0)
	loops := max(cpus-1, 1)
	runtime.GOMAXPROCS(max(cpus, loops+1))
	return loops
}

func newLog(c *config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.level}
	if c.json {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// devToken makes the token of a run that is to try it out, if there is no other.
func (c *config) devToken() string {
	if !c.dev || len(c.session.Access.Tokens) > 0 {
		return ""
	}
	t := newToken()
	c.session.Access.Tokens = []session.Token{{Secret: t, Name: "MOBILE_TOKEN"}}
	return t
}

// newToken makes a token that nobody guesses.
func newToken() string {
	var raw [20]byte
	rand.Read(raw[:])
	return strings.ToLower(base32.StdEncoding.EncodeToString(raw[:]))
}

// tokenAdvice turns a fault of the tokens into a sentence that helps.
func tokenAdvice(err error) string {
	switch {
	case errors.Is(err, session.ErrNoToken):
		return "there is no token, so no device could connect; make one with: export MOBILE_TOKEN=$(openssl rand -hex 20), or try it out with: mobilegate serve --dev"
	case errors.Is(err, session.ErrTokenTwice):
		return "MOBILE_TOKEN, MOBILE_EXTRA_TOKENS and MOBILE_DELIVER_TOKENS hold " + err.Error() + "; a token may be bound to one device or to none"
	}
	return err.Error()
}

// dialable is an address that a client on this host can use for a listener on host.
func dialable(host string) string {
	switch host {
	case "", "0.0.0.0":
		return "127.0.0.1"
	case "::":
		return "::1"
	}
	return host
}
