package interop

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a location of nginx may set. bare is nginx's own sample for WebSockets; full is what careful operators write.
const (
	bare = `proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";`
	full = bare + ` proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
		proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $host;`
)

const root = 0 // its user id

// nginx runs an nginx in front of g and returns the URL of its WebSocket entry. Its workers belong to worker, or to this
// process's user when that is empty. The test is skipped where there is no nginx.
func nginx(t *testing.T, g *gateway, worker, location string) (url string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			t.Skip("nginx is not installed: apt-get install nginx-light")
		}
	}
	if worker == "" && os.Geteuid() == root {
		worker = "root"
	}
	if worker != "" {
		worker = "user " + worker + ";"
	}
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	free.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
		%s
		daemon off;
		worker_processes 1;
		pid nginx.pid;
		error_log stderr warn;
		events { worker_connections 256; }
		http {
			access_log off;
			client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
			server {
				listen %s;
				location / { proxy_pass http://%s; proxy_http_version 1.1; %s }
			}
		}`, worker, address, g.address(), location), 0o600))
	p := run(t, program, nil, "-p", dir, "-e", "stderr", "-c", config)
	t.Cleanup(func() { // before it would be killed, and its workers left
		p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(late):
		}
	})
	for deadline := time.Now().Add(late); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp4", address); err == nil {
			conn.Close()
			return "ws://" + address + "/ws"
		}
		select {
		case <-p.ended:
			require.FailNow(t, "nginx does not start", p.log)
		default:
			require.True(t, time.Now().Before(deadline), "nginx does not listen")
		}
	}
}

// deliver sends a delivery to a device and returns the answer.
func (d *device) deliver(target string) frame {
	d.t.Helper()
	d.said++
	id := fmt.Sprintf("delivery-%s-%d", d.conn, d.said)
	d.say(fmt.Sprintf(`{"t":"deliver","id":%s,"target":%s,"text":"from %s"}`, quote(id), quote(target), d.conn))
	f := d.hear()
	require.Equal(d.t, id, f.ID)
	return f
}

// delivers requires that d may deliver, which target then hears.
func (d *device) delivers(target *device) {
	d.t.Helper()
	f := d.deliver("target")
	require.Equal(d.t, "delivered", f.T, f.raw)
	target.hears("from " + d.conn)
}

// mayNot requires that d may not deliver; nothing else of it is lost.
func (d *device) mayNot() {
	d.t.Helper()
	f := d.deliver("target")
	require.True(d.t, f.Code == "forbidden" && !f.Fatal, f.raw)
	d.text("still here")
	d.hears("still here")
}

// TestNginxDelivery: a proxy on this host makes every device a loopback peer, and yet none of them is this host.
func TestNginxDelivery(t *testing.T) {
	t.Run("forwarding headers", func(t *testing.T) {
		t.Parallel()
		g := serve(t)
		url := nginx(t, g, "", full)
		c := coderWebsocket(t)
		target := c.online(g.url, "target", "target")
		c.online(g.url, "direct", "tel-1").delivers(target)
		c.online(url, "behind nginx", "tel-2").mayNot()
		require.Regexp(t, `level=WARN msg="a proxy on this host `, g.log.String())
		g.stop()
	})
	t.Run("workers of another user", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != root {
			t.Skip("only root can give nginx's workers to another user")
		}
		g := serve(t)
		url := nginx(t, g, stranger(t), bare)
		c := coderWebsocket(t)
		target := c.online(g.url, "target", "target")
		c.online(url, "behind nginx", "tel-2").mayNot()
		c.online(g.url, "direct", "tel-1").delivers(target)
		g.stop()
	})
	t.Run("trusted", func(t *testing.T) {
		t.Parallel()
		g := serve(t, "MOBILE_TRUSTED_PROXIES=127.0.0.1/32", "MOBILE_DELIVER_TOKENS=courier")
		url := nginx(t, g, "", bare)
		c := coderWebsocket(t)
		target := c.online(g.url, "target", "target")
		c.online(url, "behind nginx", "tel-1").mayNot()
		c.online(g.url, "direct", "tel-2").mayNot()
		courier := c.connect(url, "courier")
		courier.hello("courier", "tel-3")
		require.Equal(t, "ready", courier.hear().T)
		courier.delivers(target)
		g.stop()
	})
}

// stranger is the name of a user who is not this process's.
func stranger(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"www-data", "nobody"} {
		if u, err := user.Lookup(name); err == nil && u.Uid != fmt.Sprint(os.Geteuid()) {
			return name
		}
	}
	t.Skip("there is neither www-data nor nobody on this system")
	return ""
}

// wrongHellos says so many hellos with a wrong token, each on a connection of its own, and returns how many were told so: the
// others are told to come later.
func wrongHellos(c *client, url string, n int) (told int) {
	c.t.Helper()
	for i := range n {
		d := c.connect(url, fmt.Sprint("wrong ", i))
		d.hello("wr0ng", "tel-1")
		ev := c.next(d.conn)
		if ev.What == "text" {
			require.Contains(c.t, ev.Text, `"auth_failed"`)
			d.closed(1008, "auth_failed")
			told++
			continue
		}
		require.Equal(c.t, event{Conn: d.conn, What: "close", Code: 1013, Text: "overloaded"}, ev)
	}
	return told
}

// TestNginxAddresses: failed hellos are counted by the address that a trusted proxy tells, whatever the client itself writes
// to the left of it; and by none, when no proxy is trusted: one attacker must not lock everybody out.
func TestNginxAddresses(t *testing.T) {
	forged := func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }
	for _, c := range []struct {
		name, trusted string
		limited       bool
		attacker      func(t *testing.T, try int) *client
		other         func(t *testing.T) *client
	}{
		{"the proxy is trusted", "127.0.0.1/32", true,
			func(t *testing.T, try int) *client {
				return coderFrom(t, "127.0.0.2", "X-Forwarded-For", forged(try), "X-Real-IP", forged(try))
			},
			func(t *testing.T) *client { return coderFrom(t, "127.0.0.3") }},
		{"a chain of proxies is trusted", "127.0.0.0/8", true,
			func(t *testing.T, try int) *client {
				return coderFrom(t, "127.0.0.9", "X-Forwarded-For", forged(try)+", 203.0.113.7")
			},
			func(t *testing.T) *client {
				return coderFrom(t, "127.0.0.9", "X-Forwarded-For", "203.0.113.7, 203.0.113.8") // claims to be the other
			}},
		{"no proxy is trusted", "", false,
			func(t *testing.T, try int) *client { return coderFrom(t, "127.0.0.2") },
			func(t *testing.T) *client { return coderFrom(t, "127.0.0.3") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := serve(t, "MOBILE_QUOTA_FAILED_HELLOS=3", "MOBILE_TRUSTED_PROXIES="+c.trusted)
			url := nginx(t, g, "", full)
			told, all := 0, 12
			for try := range 3 {
				told += wrongHellos(c.attacker(t, try), url, all/3)
			}
			if c.limited {
				all = 3
			}
			require.Equal(t, all, told)
			require.Equal(t, 1, wrongHellos(c.other(t), url, 1))
			c.other(t).online(url, "neighbour", "tel-2")
			g.stop()
		})
	}
}

// TestNginxIdle: nginx ends what was silent for proxy_read_timeout; the gateway's pings come before that.
func TestNginxIdle(t *testing.T) {
	t.Parallel()
	timeout, interval := 3*time.Second, time.Second
	g := serve(t, "MOBILE_PING_INTERVAL="+interval.String())
	outlives(t, g, nginx(t, g, "", bare+fmt.Sprintf(" proxy_read_timeout %ds;", int(timeout.Seconds()))), timeout)
}

// TestNginxIdleDefaults is the same with what both have by default.
func TestNginxIdleDefaults(t *testing.T) {
	t.Parallel()
	if os.Getenv("MOBILEGATE_SLOW") != "1" {
		t.Skip("takes more than two minutes: MOBILEGATE_SLOW=1")
	}
	g := serve(t)
	outlives(t, g, nginx(t, g, "", bare), time.Minute)
}

// outlives leaves a connection alone for more than twice as long as nginx bears it.
func outlives(t *testing.T, g *gateway, url string, timeout time.Duration) {
	t.Helper()
	c := coderWebsocket(t)
	c.ctx = t.Context() // which a client has for a minute only
	d := c.online(url, "idle", "tel-1")
	time.Sleep(2*timeout + timeout/3) // the time of two programs that nobody drives
	d.text("still here")
	d.hears("still here")
	g.stop()
	d.closed(1001, "going away")
}
