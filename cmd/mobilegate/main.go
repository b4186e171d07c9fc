// Command mobilegate is a gateway between fleets of mobile devices and AI agents.
//
//	mobilegate serve     runs the gateway
//	mobilegate chat      talks to a gateway from a terminal
//	mobilegate send      delivers a message to a device
//	mobilegate version   says what this binary is
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"mobilegate/codec"
)

// Exit statuses that all commands share.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `mobilegate holds a fleet of mobile devices on WebSockets and puts an AI agent behind them.

  mobilegate serve [flags]     run the gateway (serve --dev to try it out)
  mobilegate chat [flags]      talk to a gateway from this terminal
  mobilegate send [flags]      deliver a text or a file to a device, from a cron job say
  mobilegate version           say what this binary is

Every command explains its flags with -h.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	status := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, env func(string) string, in io.Reader, out, errOut io.Writer) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "serve":
		return runServe(ctx, args, env, out, errOut)
	case "chat":
		return runChat(ctx, args, env, in, out, errOut)
	case "send":
		return runSend(ctx, args, env, out, errOut)
	case "version", "--version":
		fmt.Fprintln(out, version())
		return exitOK
	case "help", "-h", "--help":
		fmt.Fprint(out, usage)
		return exitOK
	}
	fmt.Fprint(errOut, usage)
	return exitUsage
}

// release is set by the build: -ldflags "-X main.release=…".
var release = "dev"

func version() string {
	commit := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	if buildCommit != "" {
		commit = buildCommit
	}
	json := "fast"
	if !codec.FastPath() {
		json = "slow (encoding/json)"
	}
	return fmt.Sprintf("mobilegate %s, commit %s, %s %s/%s, JSON path %s", release, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, json)
}

// buildCommit is set by the build where the toolchain does not stamp it.
var buildCommit string
