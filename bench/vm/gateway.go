package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// token of the gateway, which nobody but the fleet can reach.
const token = "token-of-the-fleet"

// gateway is the process that is measured.
type gateway struct {
	cmd  *exec.Cmd
	addr netip.AddrPort
	said chan struct{} // closed at the end of its log
}

// startGateway starts one with its default settings, but for what a fleet from one host needs.
func startGateway(binary string) (*gateway, error) {
	g := &gateway{cmd: exec.Command(binary, "serve"), said: make(chan struct{})}
	g.cmd.Env = []string{"MOBILE_TOKEN=" + token, "MOBILE_PORT=0", "MOBILE_PING_INTERVAL=0", "MOBILE_QUOTA=off"}
	pipe, err := g.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	log := bufio.NewReader(pipe)
	for err == nil && !g.addr.IsValid() {
		var line string
		line, err = log.ReadString('\n')
		fmt.Fprint(os.Stderr, line)
		if _, url, ok := strings.Cut(line, "url=ws://"); ok {
			host, _, _ := strings.Cut(url, "/")
			g.addr, err = netip.ParseAddrPort(host)
		}
	}
	go func() {
		defer close(g.said)
		io.Copy(os.Stderr, log)
	}()
	if err != nil {
		g.stop()
		return nil, errors.New("the gateway did not start")
	}
	return g, nil
}

// stop ends it at once: what had to be seen was seen.
func (g *gateway) stop() {
	g.cmd.Process.Kill()
	<-g.said
	g.cmd.Wait()
}

// memory is what it holds now, and what it held at most, in bytes; nothing once it is gone.
func (g *gateway) memory() (rss, most int) {
	status := readSizes(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	return status["VmRSS"], status["VmHWM"]
}

// machineMemory is what all programs and the kernel use, and what there is, in bytes.
func machineMemory() (used, all int) {
	m := readSizes("/proc/meminfo")
	return m["MemTotal"] - m["MemFree"], m["MemTotal"]
}

// readSizes reads the lines "NAME: N kB" of a file.
func readSizes(file string) map[string]int {
	sizes := map[string]int{}
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if kb, ok := strings.CutSuffix(strings.TrimSpace(value), " kB"); ok {
			n, _ := strconv.Atoi(kb)
			sizes[name] = n << 10
		}
	}
	return sizes
}
