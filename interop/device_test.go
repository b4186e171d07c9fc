package interop

import (
	"encoding/json"
	"fmt"

	"github.com/stretchr/testify/require"
)

// frame is any frame of the gateway.
type frame struct {
	T     string          `json:"t"`
	ID    string          `json:"id"`
	Text  string          `json:"text"`
	Final bool            `json:"final"`
	Edit  bool            `json:"edit"`
	Stop  bool            `json:"stop"`
	Code  string          `json:"code"`
	Fatal bool            `json:"fatal"`
	Retry int             `json:"retry_after_ms"`
	State string          `json:"state"`
	TS    json.RawMessage `json:"ts"`
	Chunk struct {
		Index int `json:"index"`
		Total int `json:"total"`
	} `json:"chunk"`

	raw string
}

// device is one connection of a client that speaks the protocol.
type device struct {
	*client
	conn string
	said int
}

// connect opens a connection; no extension may come of the client's offer.
func (c *client) connect(url, conn string) *device {
	c.t.Helper()
	c.do(command{Do: "dial", Conn: conn, URL: url})
	require.Equal(c.t, event{Conn: conn, What: "open"}, c.next(conn))
	return &device{client: c, conn: conn}
}

// online is connect with a hello that is welcome.
func (c *client) online(url, conn, id string) *device {
	c.t.Helper()
	d := c.connect(url, conn)
	d.hello(token, id)
	require.Equal(c.t, "ready", d.hear().T)
	return d
}

// say sends one message, in as many fragments as there are parts.
func (d *device) say(parts ...string) {
	d.t.Helper()
	d.do(command{Do: "send", Conn: d.conn, Parts: parts})
}

func (d *device) hello(token, id string) {
	d.t.Helper()
	d.say(fmt.Sprintf(`{"t":"hello","token":%s,"device":{"id":%s}}`, quote(token), quote(id)))
}

// text sends a text with an id of its own, which it returns.
func (d *device) text(text string) (id string) {
	d.t.Helper()
	d.said++
	id = fmt.Sprintf("%s-%d", d.conn, d.said)
	d.say(fmt.Sprintf(`{"t":"text","id":%s,"text":%s}`, quote(id), quote(text)))
	return id
}

// hear returns the next frame.
func (d *device) hear() frame {
	d.t.Helper()
	ev := d.next(d.conn)
	require.Equal(d.t, "text", ev.What, ev)
	f := frame{raw: ev.Text}
	require.NoError(d.t, json.Unmarshal([]byte(ev.Text), &f), ev.Text)
	return f
}

// await returns the next frame of a type; only what accompanies a turn may come before it.
func (d *device) await(kind string) frame {
	d.t.Helper()
	for {
		f := d.hear()
		if f.T == kind {
			return f
		}
		require.Contains(d.t, []string{"avatar", "typing"}, f.T, f.raw)
	}
}

// hears requires the next message to be whole and to say text.
func (d *device) hears(text string) {
	d.t.Helper()
	f := d.await("message")
	require.Equal(d.t, text, f.Text)
	require.True(d.t, f.Final && !f.Edit && f.Chunk.Index == 0 && f.Chunk.Total == 1, f.raw)
}

// refused requires an error frame and then the end with a code and a reason; whatever still came of a turn may stand before.
func (d *device) refused(code int, reason string) {
	d.t.Helper()
	f := d.await("error")
	require.Equal(d.t, reason, f.Code)
	require.True(d.t, f.Fatal, f.raw)
	d.closed(code, reason)
}

// closed requires the end of the connection, as the client reports it.
func (d *device) closed(code int, reason string) {
	d.t.Helper()
	for {
		ev := d.next(d.conn)
		if ev.What != "text" {
			require.Equal(d.t, event{Conn: d.conn, What: "close", Code: code, Text: reason}, ev)
			return
		}
		require.Regexp(d.t, `^\{"t":"(avatar|typing)"`, ev.Text)
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
