// Command vm is the job of the virtual machine that run starts: one gateway with its default settings, keep-alive and quotas
// off, and a fleet of idle devices that is as large as the machine can hold. It ends with 0 when all devices were there, the
// gateway's memory was what it may be, and every one that was asked at the end had its answer.
//
// The way through: run → newFleet → fleet.carryOut: connect, rest, ask; device is what each device does meanwhile, and
// outcome what came of it.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

// plan is what is asked for.
type plan struct {
	gateway string        // its binary
	devices int           // in all
	window  int           // of them on their way in at a time: emulation is slow, and a hello has its deadline
	samples int           // of them that say something at the end
	still   time.Duration // that the gateway's memory must stay the same before it counts
}

func run(args []string, out io.Writer) int {
	var p plan
	flags := flag.NewFlagSet("vm", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&p.gateway, "gateway", "mobilegate", "binary of the gateway")
	flags.IntVar(&p.devices, "devices", 1_000_000, "idle devices")
	flags.IntVar(&p.window, "window", 128, "devices on their way in at a time")
	flags.IntVar(&p.samples, "samples", 1000, "devices that say something at the end")
	flags.DurationVar(&p.still, "still", 30*time.Second, "that the gateway's memory must be at rest for")
	if flags.Parse(args) != nil {
		return 2
	}
	p.samples = min(p.samples, p.devices)
	if p.window < 1 || p.samples < 1 || flags.NArg() > 0 {
		fmt.Fprintln(out, "vm: devices, window and samples must be at least 1")
		return 2
	}
	f, err := newFleet(&p, out)
	if err != nil {
		fmt.Fprintln(out, "vm:", err)
		return 1
	}
	defer f.stop()
	return f.carryOut()
}

// outcome is what came of a plan.
type outcome struct {
	plan             *plan
	online, lost     int            // devices that had their ready; connections that ended, for whatever reason
	reasons          map[string]int // of those that were lost
	refused          int            // connections that were not let in, after which their devices called again
	took             time.Duration  // until the last ready
	empty, rss, most int            // bytes of the gateway: before the first device, with all of them at rest, at most
	atRest           bool
	answered, wrong  int
	asking           time.Duration
	guest, memory    int // bytes that the machine used at most, and has
}

// maxRSS is what the gateway may take: 1.1 GiB with a million devices, of which 64 MiB are its own.
func maxRSS(devices int) int { return 64<<20 + 1114*devices }

func (o *outcome) faults() (f []string) {
	add := func(fault bool, format string, args ...any) {
		if fault {
			f = append(f, fmt.Sprintf(format, args...))
		}
	}
	add(o.online < o.plan.devices, "%d of %d devices had their ready", o.online, o.plan.devices)
	add(o.lost > 0, "connections that ended: %d %v", o.lost, o.reasons)
	add(!o.atRest, "the gateway's memory was never at rest")
	add(o.rss > maxRSS(o.plan.devices), "the gateway takes %s, and may take %s", mib(o.rss), mib(maxRSS(o.plan.devices)))
	add(o.answered < o.plan.samples, "%d of %d devices were answered", o.answered, o.plan.samples)
	add(o.wrong > 0, "%d answers were not what was said", o.wrong)
	return f
}

// tell says it, with the exit status in the last line: to close a million connections takes a while, for which nobody
// need wait.
func (o *outcome) tell(out io.Writer) (status int) {
	fmt.Fprintf(out, "\ndevices    %d of %d connected in %.0f s, %.0f a second; called again %d, lost %d\n", o.online, o.plan.devices, o.took.Seconds(), float64(o.online)/o.took.Seconds(), o.refused, o.lost)
	fmt.Fprintf(out, "gateway    RSS %s at rest, %s at most, %s empty: %.0f bytes a device\n", mib(o.rss), mib(o.most), mib(o.empty), float64(o.rss-o.empty)/float64(max(o.online, 1)))
	fmt.Fprintf(out, "answered   %d of %d in %.1f s\n", o.answered, o.plan.samples, o.asking.Seconds())
	fmt.Fprintf(out, "machine    %s of %s used at most\n", mib(o.guest), mib(o.memory))
	for _, fault := range o.faults() {
		fmt.Fprintln(out, "FAULT     ", fault)
		status = 1
	}
	fmt.Fprintln(out, "status", status)
	return status
}

func mib(bytes int) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
