package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"mobilegate/loadtest"
	"mobilegate/session/testdata/transcripts"
)

const conformUsage = `usage: loadtest conform [flags] URL

Plays the golden transcripts of the protocol against a server, one after another, and says where it differs. The server must be
one to test with, set up as the transcripts expect it, and started anew, since it remembers what it was told before:

  MOBILE_TOKEN=secret MOBILE_EXTRA_TOKENS=other,tel-bound=bound MOBILE_DELIVER_TOKENS=cron \
  MOBILE_AVATAR_URL=https://example.org/a.glb mobilegate serve

Cases that need an agent that does what it is told, another configuration, or much time, are left out and named.

  --only TEXT     only the cases whose file or name holds TEXT
  --wait TIME     the longest time that a case may let pass (default 5s)
  --quiet TIME    after so much silence nothing more is expected (default 150ms; more for a server far away)

Exit status: 0 all is as it should be, 1 something differs, 2 the command line is wrong, 3 the server cannot be reached
`

func runConform(ctx context.Context, args []string, out, errOut io.Writer) int {
	c := loadtest.Conform{Files: transcripts.Files}
	flags := flag.NewFlagSet("conform", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.Only, "only", "", "")
	flags.DurationVar(&c.Wait, "wait", 0, "")
	flags.DurationVar(&c.Quiet, "quiet", 0, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, conformUsage)
		return loadtest.ExitOK
	case err != nil:
		fmt.Fprintln(errOut, "loadtest: conform:", flagError(flags, err))
		return loadtest.ExitUsage
	case flags.NArg() != 1:
		fmt.Fprintln(errOut, "loadtest: conform takes flags and then one address; loadtest conform -h explains")
		return loadtest.ExitUsage
	}
	if err := numbers(flags); err != nil {
		fmt.Fprintln(errOut, "loadtest: conform:", err)
		return loadtest.ExitUsage
	}
	c.URL = flags.Arg(0)
	found, err := c.Run(ctx, out)
	if err != nil {
		fmt.Fprintln(errOut, "loadtest:", err)
		return loadtest.ExitOf(err)
	}
	if ctx.Err() != nil {
		return loadtest.ExitInterrupted
	}
	return found.Exit()
}
