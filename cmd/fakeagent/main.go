// Fakeagent is a service with no model behind it, to try the gateway's agents with: it answers with what it was asked, and
// fails as its script says.
//
//	fakeagent openai [--addr 127.0.0.1:8643] [--script FILE] [--key KEY]
//	fakeagent hermes [--addr 127.0.0.1:8642] [--script FILE] [--key KEY]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"mobilegate/agent/hermes/hermestest"
	"mobilegate/agent/openai/openaitest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

const usage = "usage: fakeagent openai|hermes [--addr HOST:PORT] [--script FILE] [--key KEY]"

// fakes are the services: the port that each has by itself, and what makes it of a script, which may be nil.
var fakes = map[string]struct {
	addr string
	make func(script io.Reader, key string) (service http.Handler, end func(), err error)
	line string // of settings that lead the gateway to it, with its address and key
}{
	"openai": {"127.0.0.1:8643", openai, "MOBILE_AGENT=openai MOBILE_OPENAI_BASE_URL=http://%s/v1 MOBILE_OPENAI_MODEL=fake MOBILE_OPENAI_API_KEY=%s"},
	"hermes": {"127.0.0.1:8642", hermes, "MOBILE_AGENT=hermes MOBILE_HERMES_URL=http://%s MOBILE_HERMES_KEY=%s"},
}

// run returns the exit status: 0 stopped, 1 it cannot listen, 2 usage.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	if len(args) == 0 || fakes[args[0]].make == nil {
		fmt.Fprintln(errOut, usage)
		return 2
	}
	fake := fakes[args[0]]
	flags := flag.NewFlagSet("fakeagent", flag.ContinueOnError)
	flags.SetOutput(errOut)
	addr := flags.String("addr", fake.addr, "where to listen")
	file := flags.String("script", "", "file that says how it behaves, in JSON")
	key := flags.String("key", "demo", "the key that callers must show")
	if flags.Parse(args[1:]) != nil || flags.NArg() > 0 {
		fmt.Fprintln(errOut, usage)
		return 2
	}
	service, end, err := load(*file, *key, fake.make)
	if err != nil {
		fmt.Fprintln(errOut, "fakeagent:", err)
		return 2
	}
	socket, err := net.Listen("tcp", *addr)
	if err != nil {
		fmt.Fprintln(errOut, "fakeagent:", err)
		return 1
	}
	server := &http.Server{Handler: service, ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	go func() {
		<-ctx.Done()
		end()
		server.Close()
	}()
	fmt.Fprintf(out, "Listening. Start the gateway with\n\n  "+fake.line+" bin/mobilegate serve --dev\n\n", socket.Addr(), *key)
	if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(errOut, "fakeagent:", err)
		return 1
	}
	return 0
}

func load(file, key string, make func(io.Reader, string) (http.Handler, func(), error)) (http.Handler, func(), error) {
	if file == "" {
		return make(nil, key)
	}
	script, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer script.Close()
	return make(script, key)
}

func openai(script io.Reader, key string) (http.Handler, func(), error) {
	s := openaitest.Script{Pace: openaitest.Duration(50 * time.Millisecond)}
	if script != nil {
		var err error
		if s, err = openaitest.Load(script); err != nil {
			return nil, nil, err
		}
	}
	s.Key = key
	return openaitest.New(s), func() {}, nil
}

func hermes(script io.Reader, key string) (http.Handler, func(), error) {
	c := hermestest.Config{Features: hermestest.B, Pace: 50 * time.Millisecond}
	if script != nil {
		text, err := io.ReadAll(script)
		if err != nil {
			return nil, nil, err
		}
		if c, err = hermestest.Parse(text); err != nil {
			return nil, nil, err
		}
	}
	c.Key = key
	s := hermestest.New(c)
	return s, s.Close, nil
}
