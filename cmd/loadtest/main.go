// Command loadtest loads a gateway with simulated devices, checks every answer, and measures how long each takes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"mobilegate/internal/terminal"
	"mobilegate/loadtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)                      // a second Ctrl-C ends it at once
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 2)) // with one to spare the scheduler leaves the loop's alone while it waits
	if os.Getenv(loadtest.ShardVariable) != "" {
		if err := loadtest.ServeShard(ctx, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "loadtest: a shard:", err)
			os.Exit(loadtest.ExitWrong)
		}
		os.Exit(loadtest.ExitOK)
	}
	status := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, env func(string) string, out, errOut io.Writer) int {
	if len(args) > 0 && args[0] == "conform" {
		return runConform(ctx, args[1:], out, errOut)
	}
	o, err := readOptions(args, env)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		return loadtest.ExitOK
	}
	if err != nil {
		fmt.Fprintln(errOut, "loadtest:", err)
		return loadtest.ExitUsage
	}
	page, err := o.openPage()
	if err != nil {
		fmt.Fprintln(errOut, "loadtest: --html: the page cannot be written:", err)
		return loadtest.ExitUsage
	}
	defer page.Close()
	var columns func() int
	if terminal.Is(errOut) {
		columns = func() int { return terminal.Columns(errOut) }
	}
	live := loadtest.NewLive(errOut, columns)
	if !o.quiet {
		o.config.Second = live.Second
	}
	result, err := o.run(ctx)
	live.Close()
	if err != nil {
		fmt.Fprintln(errOut, "loadtest:", err)
		return loadtest.ExitOf(err)
	}
	write := map[string]func(io.Writer) error{"text": result.WriteText, "json": result.WriteJSON, "csv": result.WriteCSV}[o.format]
	err = write(out)
	for _, draw := range o.pictures {
		err = errors.Join(err, draw(out))
	}
	if err != nil {
		err = fmt.Errorf("the report cannot be written: %w", err)
	}
	if r, ok := result.(*loadtest.Report); ok && page != nil { // behind the report, which is not lost with it
		if failed := errors.Join(page.Truncate(0), r.WriteHTML(page), page.Close()); failed != nil {
			err = errors.Join(err, fmt.Errorf("the page cannot be written: %w", failed))
		}
	}
	if err != nil {
		fmt.Fprintln(errOut, "loadtest:", err)
		return loadtest.ExitWrong
	}
	return result.Exit()
}

// openPage opens the page before the run, which may be long; what it held stays until there is something better. It is nil
// when none was asked for.
func (o *options) openPage() (*os.File, error) {
	if o.html == "" {
		return nil, nil
	}
	page, err := os.OpenFile(o.html, os.O_WRONLY|os.O_CREATE, 0o644)
	return page, errors.Unwrap(err)
}

// result is a report of one server, or of two.
type result interface {
	WriteText(io.Writer) error
	WriteJSON(io.Writer) error
	WriteCSV(io.Writer) error
	Exit() int
}

// run tests one server, or compares two.
func (o *options) run(ctx context.Context) (result, error) {
	if o.baseline == "" {
		return o.single(ctx)
	}
	target := o.config.URL
	p, err := loadtest.RunPairs(ctx, o.pairs, func(ctx context.Context, baseline bool) (*loadtest.Report, error) {
		if o.config.URL = target; baseline {
			o.config.URL = o.baseline
			return o.watched(ctx, o.baselineServer)
		}
		return o.watched(ctx, o.server)
	})
	if err != nil {
		return nil, err
	}
	p.Target.Hold(o.conditions)
	return p, nil
}

// single tests one server, and makes the pictures that were asked for.
func (o *options) single(ctx context.Context) (*loadtest.Report, error) {
	r, err := o.watched(ctx, o.server)
	if err != nil {
		return nil, err
	}
	r.Hold(o.conditions)
	if o.hist {
		o.pictures = append(o.pictures, r.WriteHist)
	}
	if o.plot {
		o.pictures = append(o.pictures, r.WritePlot)
	}
	return r, nil
}

// watched is where a server is looked at, if at all: by the id of its process, or by its page of metrics.
type watched struct {
	pid     int
	metrics string
}

func (w watched) begin() (*loadtest.Watch, error) {
	if w.metrics != "" {
		return loadtest.WatchMetrics(w.metrics)
	}
	return loadtest.NewWatch(w.pid)
}

// watched runs a test beside a look at the server, if there is one to look at.
func (o *options) watched(ctx context.Context, server watched) (*loadtest.Report, error) {
	if server == (watched{}) {
		return o.test(ctx, o.config)
	}
	w, err := server.begin()
	if err != nil {
		return nil, err
	}
	c := o.config
	if second := c.Second; second != nil {
		c.Second = func(m loadtest.Moment) {
			w.Tell(&m)
			second(m)
		}
	}
	r, err := o.test(ctx, c)
	samples, lost := w.Stop()
	if err == nil {
		r.Use(samples, lost)
	}
	return r, err
}

// test runs what was asked for, in this process or in shards.
func (o *options) test(ctx context.Context, c loadtest.Config) (*loadtest.Report, error) {
	if o.shards == 1 {
		return loadtest.Run(ctx, c)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return loadtest.RunShards(ctx, c, o.shards, func() *exec.Cmd { return exec.Command(self) })
}
