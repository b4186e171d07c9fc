package interop

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The rates below give back one frame a second, so that a test never waits long, and a slow machine gives back little while
// a test sends what is too much.
const littleRate = "frames=1,burst-frames=20"

// pinged sends so many pings and returns how many were answered; the others must be refused for a while, with their id.
func (d *device) pinged(n int) (answered int) {
	d.t.Helper()
	for i := range n {
		d.say(fmt.Sprintf(`{"t":"ping","id":"ping-%d","ts":%d}`, i, i))
	}
	for i := range n {
		switch f := d.hear(); f.T {
		case "pong":
			require.Equal(d.t, fmt.Sprint(i), string(f.TS))
			answered++
		default:
			d.limited(f, fmt.Sprint("ping-", i), 1000)
		}
	}
	return answered
}

// limited requires f to say that a frame came too early, by so many milliseconds at most.
func (d *device) limited(f frame, id string, most int) {
	d.t.Helper()
	require.Equal(d.t, "rate_limited", f.Code, f.raw)
	require.Equal(d.t, id, f.ID)
	require.False(d.t, f.Fatal, f.raw)
	require.True(d.t, 0 < f.Retry && f.Retry <= most, f.raw)
	require.Regexp(d.t, `"message":"[A-Z][^"]+\."`, f.raw)
}

// TestQuotaDevice: a device that sends too much loses those frames and nothing else.
func TestQuotaDevice(t *testing.T) {
	t.Parallel()
	g := serve(t, "MOBILE_QUOTA_DEVICE="+littleRate)
	c := coderWebsocket(t)
	d := c.online(g.url, "a", "tel-1")
	d.text("/approve ls")
	card := d.await("prompt")
	d.say(`{"t":"media","id":"file","kind":"document","part":0,"parts":2,"data":"aGVsbG8g"}`)
	require.InDelta(t, 20, d.pinged(34), 6, "the burst, and what came back meanwhile")

	other := c.online(g.url, "b", "tel-2")
	require.Equal(t, 15, other.pinged(15), "another device is not concerned")

	again := c.online(g.url, "a again", "tel-1") // the device's account is not the connection's
	d.closed(4001, "replaced")
	require.Equal(t, card.ID, again.await("prompt").ID)
	again.await("typing") // the card's turn runs
	require.Less(t, again.pinged(12), 8)
	again.retried(`{"t":"prompt","prompt_id":` + quote(card.ID) + `,"option_id":"once"}`)
	require.Equal(t, card.ID, again.await("prompt_done").ID)
	again.hears("exec_approval: once")
	again.retried(`{"t":"text","id":"late","text":"after the flood"}`)
	again.hears("after the flood")
	g.stop()
}

// retried sends a frame again as long as it comes too early, each time after the wait that the gateway names. A ping behind
// it shows that it was taken; the ping itself may come too early.
func (d *device) retried(frame string) {
	d.t.Helper()
	for range 20 {
		d.say(frame)
		f := d.hear()
		for f.T == "avatar" || f.T == "typing" && strings.Contains(f.raw, "stop") {
			f = d.hear()
		}
		if f.Code != "rate_limited" {
			d.waiting[d.conn] = append([]event{{Conn: d.conn, What: "text", Text: f.raw}}, d.waiting[d.conn]...)
			return
		}
		require.Positive(d.t, f.Retry)
		time.Sleep(time.Duration(f.Retry) * time.Millisecond) // as an application does
	}
	require.FailNow(d.t, "the wait that it names is never enough")
}

// TestQuotaUpload: the other state that a device over its rate keeps is its unfinished upload.
func TestQuotaUpload(t *testing.T) {
	t.Parallel()
	g := serve(t, "MOBILE_QUOTA_DEVICE="+littleRate)
	d := coderWebsocket(t).online(g.url, "a", "tel-1")
	d.say(`{"t":"media","id":"file","kind":"document","filename":"a.txt","part":0,"parts":2,"data":"aGVsbG8g"}`)
	require.Less(t, d.pinged(34), 30)
	d.retried(`{"t":"media","id":"file","kind":"document","part":1,"parts":2,"data":"d29ybGQ="}`)
	require.Contains(t, d.await("media").raw, "document a.txt 11 sha256:")
	g.stop()
}

// TestQuotaBytes: a frame that is too large for now is refused, a small one is not.
func TestQuotaBytes(t *testing.T) {
	t.Parallel()
	g := serve(t, "MOBILE_QUOTA_DEVICE=bytes=1KiB,burst-bytes=64KiB")
	d := coderWebsocket(t).online(g.url, "a", "tel-1")
	large := func(id string) {
		d.say(fmt.Sprintf(`{"t":"ping","id":%q,"ts":0,"padding":%q}`, id, strings.Repeat("x", 50<<10)))
	}
	large("first")
	require.Equal(t, "pong", d.hear().T)
	large("second")
	f := d.hear()
	d.limited(f, "second", 37_000)
	require.Greater(t, f.Retry, 20_000, "36 KiB more than there is room for, at 1 KiB a second")
	d.text("still here")
	d.hears("still here")
	g.stop()
}

// TestQuotaToken: device ids are the clients' to choose, so all devices of one token are counted together too.
func TestQuotaToken(t *testing.T) {
	t.Parallel()
	g := serve(t, "MOBILE_QUOTA_TOKEN="+littleRate, "MOBILE_EXTRA_TOKENS=another")
	c := coderWebsocket(t)
	answered := 0
	for i := range 3 {
		answered += c.online(g.url, fmt.Sprint(i), fmt.Sprint("tel-", i)).pinged(12)
	}
	require.InDelta(t, 20, answered, 6)
	d := c.connect(g.url, "other token")
	d.hello("another", "tel-9")
	require.Equal(t, "ready", d.hear().T)
	require.Equal(t, 18, d.pinged(18))
	g.stop()
}

// TestQuotaAddress: and so are all devices of one client address.
func TestQuotaAddress(t *testing.T) {
	t.Parallel()
	g := serve(t, "MOBILE_QUOTA_ADDRESS="+littleRate, "MOBILE_TRUSTED_PROXIES=127.0.0.9/32")
	for name, client := range map[string]func(*testing.T) *client{
		"peer":          func(t *testing.T) *client { return coderFrom(t, "127.0.0.2") },
		"forwarded":     func(t *testing.T) *client { return coderFrom(t, "127.0.0.9", "X-Forwarded-For", "203.0.113.7") },
		"forwarded, v6": func(t *testing.T) *client { return coderFrom(t, "127.0.0.9", "X-Forwarded-For", "2001:db8::7") },
	} {
		answered, c := 0, client(t)
		for i := range 3 {
			answered += c.online(g.url, fmt.Sprint(i), fmt.Sprint(name, i)).pinged(12)
		}
		require.InDelta(t, 20, answered, 6, name)
	}
	d := coderFrom(t, "127.0.0.3").online(g.url, "neighbour", "neighbour")
	require.Equal(t, 18, d.pinged(18), "another address is not concerned")
	g.stop()
}

// TestFailedHellos: who guesses tokens is sent away for a while, with a code after which an application comes again; who knows
// one is let in from the same address.
func TestFailedHellos(t *testing.T) {
	t.Parallel()
	g := serve(t, "MOBILE_QUOTA_FAILED_HELLOS=3", "MOBILE_EXTRA_TOKENS=bound-1=b0und")
	c := coderFrom(t, "127.0.0.2")
	for i, hello := range []func(*device){
		func(d *device) { d.hello("wr0ng", "tel-1") },
		func(d *device) { d.text("no hello at all") },
		func(d *device) { d.hello("b0und", "tel-1") },
	} {
		d := c.connect(g.url, fmt.Sprint("refused ", i))
		hello(d)
		f := d.hear()
		require.True(t, f.T == "error" && f.Fatal, f.raw)
		d.closed(1008, f.Code)
	}
	for i, secret := range []string{"wr0ng", "b0und", ""} {
		d := c.connect(g.url, fmt.Sprint("barred ", i))
		d.hello(secret, "tel-1")
		d.closed(1013, "overloaded")
	}
	c.online(g.url, "knows the token", "tel-1")
	require.Equal(t, 1, wrongHellos(coderFrom(t, "127.0.0.3"), g.url, 1), "another address is not concerned")
	g.stop()
}

// TestTakeOverStorm: of two instances of one device the newcomer is told to come later, and the other stays what it was.
func TestTakeOverStorm(t *testing.T) {
	t.Parallel()
	g := serve(t)
	c := coderWebsocket(t)
	d := c.online(g.url, "0", "tel-1")
	for i := range 5 {
		next := c.online(g.url, fmt.Sprint(i+1), "tel-1")
		d.closed(4001, "replaced")
		d = next
	}
	for i := range 3 {
		late := c.connect(g.url, fmt.Sprint("too many ", i))
		late.hello(token, "tel-1")
		late.closed(1013, "overloaded")
	}
	d.text("it is still me")
	d.hears("it is still me")
	g.stop()
}

// TestErrorFlood: who sends errors without end is not answered for ever.
func TestErrorFlood(t *testing.T) {
	t.Parallel()
	g := serve(t)
	l, err := openLine(g.address(), "tel-1")
	require.NoError(t, err)
	defer l.Close()
	_, err = l.Write([]byte(strings.Repeat(string(text(`{"t":"text","id":"no text"}`)), 200)))
	require.NoError(t, err)
	errorFrames := 0
	for {
		head, _, err := l.hear()
		if err != nil {
			require.Equal(t, goodbye{1013, "overloaded"}, err)
			break
		}
		require.True(t, strings.HasPrefix(head, `{"t":"error","code":"bad_frame"`) && strings.Contains(head, `"fatal":false`), head)
		errorFrames++
	}
	require.True(t, 20 <= errorFrames && errorFrames < 60, errorFrames)
	again, err := openLine(g.address(), "tel-1")
	require.NoError(t, err, "the device may come back")
	again.Close()
	l.Close()
	g.stop()
}

// TestBurst: 4 000 frames or 32 MiB, however fast they come, are taken from any device (spec 10).
func TestBurst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ frames, size int }{
		"small frames":  {4000, 60},
		"large frames":  {4000, 8000},
		"largest texts": {2, 15 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := serve(t)
			l, err := openLine(g.address(), "tel-1")
			require.NoError(t, err)
			defer l.Close()
			var wire []byte
			for i := range c.frames {
				frame := fmt.Sprintf(`{"t":"text","id":"%d","text":"%d","padding":""}`, i, i)
				wire = append(wire, text(strings.Replace(frame, `:""}`, `:"`+strings.Repeat("x", c.size-len(frame))+`"}`, 1))...)
			}
			sent := make(chan error, 1)
			go func() {
				_, err := l.Write(wire)
				sent <- err
			}()
			for i := range c.frames {
				head, err := l.awaitMessage()
				require.NoError(t, err, "%d were answered", i)
				require.Contains(t, head, fmt.Sprintf(`"text":"%d"`, i))
			}
			require.NoError(t, <-sent)
			l.Close()
			g.stop()
		})
	}
}

// awaitMessage is the next message frame; an error is one.
func (l *line) awaitMessage() (head string, err error) {
	for {
		head, _, err = l.hear()
		if strings.HasPrefix(head, `{"t":"error"`) {
			err = errors.New(head)
		}
		if err != nil || strings.HasPrefix(head, `{"t":"message"`) {
			return head, err
		}
	}
}

// TestFilesBudget: when the memory for files is full of uploads that began, some of them must come to their end, or nobody's
// ever would. The devices send their parts in turns; who is refused begins anew after the wait that the gateway names.
func TestFilesBudget(t *testing.T) {
	t.Parallel()
	const devices, parts = 5, 3
	g := serve(t, "MOBILE_MAX_FILES=1MiB")
	data := strings.Repeat("QUJD", 64<<10) // 192 KiB
	var uploading []*uploader
	for i := range devices {
		l, err := openLine(g.address(), fmt.Sprint("tel-", i))
		require.NoError(t, err)
		defer l.Close()
		uploading = append(uploading, &uploader{line: l})
	}
	for begun := time.Now(); len(uploading) > 0; time.Sleep(10 * time.Millisecond) {
		require.Less(t, time.Since(begun), late, "%d of %d uploads never come to an end", len(uploading), devices)
		uploading = slices.DeleteFunc(uploading, func(u *uploader) (done bool) {
			if time.Now().Before(u.again) {
				return false
			}
			require.NoError(t, u.send(fmt.Appendf(nil, `{"t":"media","id":"file","kind":"document","part":%d,"parts":%d,"data":"%s"}`, u.part, parts, data)))
			require.NoError(t, u.send([]byte(`{"t":"ping"}`)))
			if wait := u.refusedUntilPong(t); wait > 0 {
				u.part, u.again = 0, time.Now().Add(wait)
			} else {
				u.part++
			}
			return u.part == parts
		})
	}
}

// uploader is a device with a file of which some parts are sent.
type uploader struct {
	*line
	part  int
	again time.Time // not before then
}

// refusedUntilPong reads until a pong came, and returns the wait that an error before it named.
func (l *line) refusedUntilPong(t *testing.T) (wait time.Duration) {
	t.Helper()
	for {
		head, _, err := l.hear()
		require.NoError(t, err)
		if limited := retryAfter.FindStringSubmatch(head); limited != nil {
			ms, _ := strconv.Atoi(limited[1])
			wait = time.Duration(ms) * time.Millisecond
		} else {
			require.NotContains(t, head, `"t":"error"`)
		}
		if strings.HasPrefix(head, `{"t":"pong"`) {
			return wait
		}
	}
}
