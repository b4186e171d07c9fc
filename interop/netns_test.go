package interop

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The two ends of the cable between the namespaces, of a network that is for examples only (RFC 5737).
const (
	gatewaySide = "192.0.2.1"
	deviceSide  = "192.0.2.2"
)

// cable is two network namespaces and a cable between them. Nothing of it is seen outside of them.
type cable struct {
	t                *testing.T
	gateway, devices string // the names of the namespaces
}

// layCable makes the namespaces; it takes them away at the end of the test. The test is skipped where it may not, or cannot.
func layCable(t *testing.T) *cable {
	t.Helper()
	if os.Geteuid() != root {
		t.Skip("only root can make network namespaces")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed: apt-get install iproute2 nftables")
		}
	}
	n := &cable{t: t, gateway: fmt.Sprintf("mg-gateway-%d", os.Getpid()), devices: fmt.Sprintf("mg-devices-%d", os.Getpid())}
	for _, name := range []string{n.gateway, n.devices} {
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			t.Skipf("network namespaces cannot be made here: %s", strings.TrimSpace(string(out)))
		}
		t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	}
	n.command("ip", "link", "add", "cable", "netns", n.gateway, "type", "veth", "peer", "name", "cable", "netns", n.devices)
	for name, address := range map[string]string{n.gateway: gatewaySide, n.devices: deviceSide} {
		n.command("ip", "-n", name, "addr", "add", address+"/30", "dev", "cable")
		n.command("ip", "-n", name, "link", "set", "cable", "up")
		n.command("ip", "-n", name, "link", "set", "lo", "up")
	}
	n.command("ip", "netns", "exec", n.devices, "nft", "add table inet cut; "+
		"add chain inet cut out { type filter hook output priority 0; }; add chain inet cut in { type filter hook input priority 0; }")
	return n
}

func (n *cable) command(name string, args ...string) {
	n.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(n.t, err, "%s %v: %s", name, args, out)
}

// within runs do in a namespace. Sockets and processes that it makes stay there.
func (n *cable) within(namespace string, do func()) {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		panic(err)
	}
	defer home.Close()
	there, err := os.Open(filepath.Join("/run/netns", namespace))
	if err != nil {
		panic(err)
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err) // this thread must not go on elsewhere
		}
		runtime.UnlockOSThread()
	}()
	do()
}

// ports notes from which ports its connections come.
type ports struct {
	*cable
	namespace string
	mu        sync.Mutex
	last      int
}

// dial opens a connection from the namespace.
func (p *ports) dial(_ context.Context, network, address string) (conn net.Conn, err error) {
	p.within(p.namespace, func() { conn, err = net.DialTimeout(network, address, late) })
	if err == nil {
		p.mu.Lock()
		p.last = conn.LocalAddr().(*net.TCPAddr).Port
		p.mu.Unlock()
	}
	return conn, err
}

// cut drops whatever goes to and fro on the connection that was opened last, as a NAT does that has forgotten it. Neither end
// is told.
func (p *ports) cut() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.command("ip", "netns", "exec", p.namespace, "nft",
		fmt.Sprintf("add rule inet cut out tcp sport %d drop; add rule inet cut in tcp dport %d drop", p.last, p.last))
}

// TestDeadLink: a link that is dead is noticed within two intervals of the keep-alive, and does not keep the device out.
func TestDeadLink(t *testing.T) {
	t.Parallel()
	deadLink(t, 2*time.Second, "MOBILE_PING_INTERVAL=2s")
}

// TestDeadLinkDefaults is the same with the interval that is the default.
func TestDeadLinkDefaults(t *testing.T) {
	if os.Getenv("MOBILEGATE_SLOW") != "1" {
		t.Skip("takes almost two minutes: MOBILEGATE_SLOW=1")
	}
	deadLink(t, 50*time.Second)
}

func deadLink(t *testing.T, interval time.Duration, env ...string) {
	n := layCable(t)
	var g *gateway
	n.within(n.gateway, func() {
		g = serve(t, append(env, "MOBILE_HOST="+gatewaySide, "MOBILE_EXTRA_TOKENS=another", "MOBILE_DELIVER_TOKENS=courier")...)
	})
	far, near := &ports{cable: n, namespace: n.devices}, &ports{cable: n, namespace: n.gateway}
	phones, c := coderVia(t, far.dial), coderVia(t, near.dial)
	phones.ctx, c.ctx = t.Context(), t.Context() // which a client has for a minute only

	alive := phones.online(g.url, "alive", "alive")
	impatient := phones.online(g.url, "impatient", "impatient")
	far.cut()
	lost := phones.online(g.url, "lost", "target")
	lost.text("last words")
	lost.hears("last words")
	far.cut()
	begun := time.Now()

	// The device itself need not wait until its old link is found dead.
	impatient = phones.online(g.url, "impatient again", "impatient")
	impatient.text("back")
	impatient.hears("back")
	require.Less(t, time.Since(begun), time.Second)
	early := c.connect(g.url, "early")
	early.hello("another", "target")
	early.refused(1008, "forbidden") // for all that is known the device is online

	courier := c.connect(g.url, "courier")
	courier.hello("courier", "courier")
	require.Equal(t, "ready", courier.hear().T)
	for courier.deliver("target").Code != "device_offline" {
		require.Less(t, time.Since(begun), 3*interval, "the dead link is not found")
		time.Sleep(interval / 40) // the gateway has a clock of its own
	}
	noticed := time.Since(begun)
	t.Logf("the dead link was found after %v, with an interval of %v", noticed.Round(10*time.Millisecond), interval)
	require.Less(t, noticed, 2*interval+time.Second, "its clock ticks in seconds")

	begun = time.Now()
	next := phones.connect(g.url, "next")
	next.hello("another", "target")
	require.Equal(t, "ready", next.hear().T)
	require.Less(t, time.Since(begun), time.Second)
	for _, d := range []*device{next, alive, impatient} {
		d.text("still here")
		d.hears("still here")
	}
	g.stop()
}
