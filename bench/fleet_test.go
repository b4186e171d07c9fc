package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fleet is a crowd in a process of its own, as the test sees it.
type fleet struct {
	tb      testing.TB
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *json.Decoder
}

// fleetEnv makes the test binary run a crowd: its value is the address, and its arguments the token and the name.
const fleetEnv = "MOBILEGATE_BENCH_FLEET"

// orderTimeout is far over what any order takes.
const orderTimeout = 2 * time.Minute

// newFleet starts a fleet without devices. name sets the ids of its devices apart from those of others: eight characters.
func newFleet(tb testing.TB, address, name string, cpus ...int) *fleet {
	tb.Helper()
	return startFleet(tb, address, token, name, cpus...)
}

func startFleet(tb testing.TB, address, token, name string, cpus ...int) *fleet {
	tb.Helper()
	self, err := os.Executable()
	require.NoError(tb, err)
	f := &fleet{tb: tb, cmd: exec.Command(self, token, name)}
	f.cmd.Env = []string{fleetEnv + "=" + address}
	f.cmd.Stderr = os.Stderr
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	f.orders, err = f.cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := f.cmd.StdoutPipe()
	require.NoError(tb, err)
	f.answers = json.NewDecoder(out)
	require.NoError(tb, startOn(f.cmd, cpus))
	tb.Cleanup(f.stop)
	return f
}

// do gives an order and waits for its result. Every turn must have ended well: order by order the figures count on it.
func (f *fleet) do(o order) result {
	f.tb.Helper()
	r, err := f.try(o)
	require.NoError(f.tb, err, o.Do)
	require.Empty(f.tb, r.Err, o.Do)
	require.Zero(f.tb, r.Bad, "turns that went wrong, %s", o.Do)
	return r
}

func (f *fleet) try(o order) (r result, err error) {
	late := time.AfterFunc(orderTimeout, func() { f.cmd.Process.Kill() })
	defer late.Stop()
	if err := json.NewEncoder(f.orders).Encode(o); err != nil {
		return r, fmt.Errorf("the fleet takes no order: %w", err)
	}
	if err := f.answers.Decode(&r); err != nil {
		return r, fmt.Errorf("the fleet does not answer: %w", err)
	}
	return r, nil
}

// connect adds n devices, each with its hello and one turn done, and all of them online.
func (f *fleet) connect(n int) result {
	f.tb.Helper()
	r := f.do(order{Do: "connect", N: n})
	require.Equal(f.tb, n, r.Turns, "devices that had their first turn")
	return r
}

// kill ends the fleet as a crash would.
func (f *fleet) kill() {
	f.cmd.Process.Kill()
	f.cmd.Wait()
}

// stop ends the fleet; its sockets are reset.
func (f *fleet) stop() {
	f.orders.Close()
	f.kill()
}
