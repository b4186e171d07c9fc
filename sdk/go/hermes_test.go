package hermes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		frame Outgoing
		want  string
	}{
		{Text{"m-1", "hi <b>"}, `{"t":"text","id":"m-1","text":"hi <b>"}`},
		{Audio{ID: "a", Format: "wav", Data: []byte{1, 2}}, `{"t":"audio","id":"a","format":"wav","data":"AQI="}`},
		{Answer{PromptID: "p", OptionID: "once"}, `{"t":"prompt","prompt_id":"p","option_id":"once"}`},
		{Answer{PromptID: "p", OptionID: "other", Text: "x"}, `{"t":"prompt","prompt_id":"p","option_id":"other","text":"x"}`},
		{Typing{}, `{"t":"typing"}`},
		{Ping{TS: 17}, `{"t":"ping","ts":17}`},
		{Ping{}, `{"t":"ping"}`},
		{Ack{"m"}, `{"t":"ack","id":"m"}`},
		{Deliver{ID: "d", Text: "hi"}, `{"t":"deliver","id":"d","text":"hi"}`},
		{Deliver{ID: "d", Target: "mobile:tel-1", Media: &Attachment{Kind: "image", Mime: "image/png", Filename: "a.png", Data: []byte{1, 2}}},
			`{"t":"deliver","id":"d","target":"mobile:tel-1","media":{"kind":"image","mime":"image/png","filename":"a.png","data":"AQI="}}`},
		{Raw(`{"t":"x"}`), `{"t":"x"}`},
	} {
		b, err := c.frame.encode()
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(b))
	}
	_, err := Ping{TS: func() {}}.encode()
	require.Error(t, err)
}

func TestDecode(t *testing.T) {
	for raw, want := range map[string]any{
		`{"t":"message","id":"m","text":"a","chunk":{"index":1,"total":3},"final":true}`: &Message{ID: "m", Text: "a", Chunk: Chunk{1, 3}, Final: true},
		`{"t":"prompt","id":"p","kind":"clarify","text":"?","options":[{"id":"c0","label":"A","style":"primary"}],"timeout_seconds":9}`: &Prompt{
			ID: "p", Kind: "clarify", Text: "?", Options: []Option{{"c0", "A", "primary"}}, TimeoutSeconds: 9},
		`{"t":"media","id":"f","kind":"voice","mime":"audio/ogg","filename":"a.ogg","caption":"c","part":1,"parts":2,"final":true,"size":5,"data":"AQI=","reply_to":"m"}`: &Media{
			ID: "f", Kind: "voice", Mime: "audio/ogg", Filename: "a.ogg", Caption: "c", Part: 1, Parts: 2, Final: true, Size: 5, Data: []byte{1, 2}, ReplyTo: "m"},
		`{"t":"media","id":"f","url":"https://h/f","data":null}`:                 &Media{ID: "f", Parts: 1, URL: "https://h/f"},
		`{"t":"media","id":"f","data":"*"}`:                                      nil,
		`{"t":"prompt_done","id":"p","expired":true}`:                            &PromptDone{ID: "p", Expired: true},
		`{"t":"avatar","state":"thinking"}`:                                      &Avatar{"thinking"},
		`{"t":"avatar","state":"dancing"}`:                                       &Avatar{"idle"},
		`{"t":"typing","stop":true}`:                                             &Typing{Stop: true},
		`{"t":"pong","ts":{"a": 1}}`:                                             &Pong{json.RawMessage(`{"a": 1}`)},
		`{"t":"error","code":"rate_limited","message":"m","retry_after_ms":250}`: &Error{Code: "rate_limited", Message: "m", RetryAfterMS: 250},
		`{"t":"delivered","id":"d","device":"tel-2"}`:                            &Delivered{"d", "tel-2"},
		`{"t":"hologram"}`:                                                       nil, `{"t":7}`: nil, `{}`: nil, `[]`: nil, `nonsense`: nil, `{"t":"message","id":7}`: nil,
	} {
		require.Equal(t, want, decode([]byte(raw)), raw)
	}
}

func TestConversation(t *testing.T) {
	heard := make(chan map[string]any, 10)
	cfg := gateway(t, func(p *peer) {
		heard <- p.hear()
		p.say(readyFrame)
		heard <- p.hear()
		p.say(`{"t":"hologram","x":1}`, `{"t":"message","id":"m","text":"hello","chunk":{"index":0,"total":1},"final":true}`)
		p.hear()
	})
	c := dial(t, cfg)
	require.Equal(t, "mobile:tel-1", c.Ready.Session)
	require.Equal(t, Device{ID: "tel-1", Name: "Phone"}, c.Ready.Device)
	require.Equal(t, 12000, c.Ready.Capabilities.MaxTextChars)
	require.Equal(t, map[string]any{"t": "hello", "v": 1.0, "token": secret,
		"device": map[string]any{"id": "tel-1", "name": "Phone", "platform": "test", "app_version": "1.2"},
		"user":   map[string]any{"id": "u-1"}}, <-heard)

	require.NoError(t, c.Send(within(t), Text{"m-1", "hi"}))
	require.Equal(t, map[string]any{"t": "text", "id": "m-1", "text": "hi"}, <-heard)
	var got []Event
	for ev, err := range c.Events(within(t)) {
		require.NoError(t, err)
		if got = append(got, ev); len(got) == 2 {
			break
		}
	}
	require.Nil(t, got[0].Frame, "an unknown frame")
	require.Equal(t, `{"t":"hologram","x":1}`, string(got[0].Raw))
	require.Equal(t, "hello", got[1].Frame.(*Message).Text)
}

func TestHowConnectionsEnd(t *testing.T) {
	fatal := `{"t":"error","code":"forbidden","message":"Not yours.","fatal":true}`
	mild := `{"t":"error","code":"bad_frame","message":"Odd.","fatal":false}`
	for name, c := range map[string]struct {
		say    []string
		code   int // 0: TCP ends without a close frame
		reason string
		want   *CloseError
		final  bool
	}{
		"refused":          {[]string{fatal}, 1008, "forbidden", &CloseError{1008, "forbidden", &Error{Code: "forbidden", Message: "Not yours.", Fatal: true}}, true},
		"refused, bare":    {nil, 1008, "auth_failed", &CloseError{1008, "auth_failed", nil}, true},
		"replaced":         {nil, 4001, "replaced", &CloseError{4001, "replaced", nil}, true},
		"drain":            {nil, 1001, "going away", &CloseError{1001, "going away", nil}, false},
		"overloaded":       {[]string{mild}, 1013, "overloaded", &CloseError{1013, "overloaded", nil}, false},
		"not UTF-8":        {[]string{fatal}, 1007, "invalid UTF-8", &CloseError{1007, "invalid UTF-8", &Error{Code: "forbidden", Message: "Not yours.", Fatal: true}}, false},
		"close frame lost": {[]string{fatal}, 0, "", &CloseError{1006, "", &Error{Code: "forbidden", Message: "Not yours.", Fatal: true}}, true},
		"cable cut":        {[]string{mild}, 0, "", nil, false},
	} {
		for _, when := range []string{"before ready", "later"} {
			t.Run(name+", "+when, func(t *testing.T) {
				cfg := gateway(t, func(p *peer) {
					p.hear()
					if when == "later" {
						p.say(readyFrame)
					}
					p.say(c.say...)
					if c.code == 0 {
						p.ws.CloseNow()
						return
					}
					p.close(c.code, c.reason)
				})
				conn, err := Dial(within(t), cfg)
				if when == "later" {
					require.NoError(t, err)
					for _, err = range conn.Events(within(t)) {
					}
				}
				require.Error(t, err)
				require.NotContains(t, err.Error(), secret)
				require.Equal(t, c.final, Final(err))
				var got *CloseError
				if errors.As(err, &got); c.want != nil {
					require.Equal(t, c.want, got)
				} else {
					require.Nil(t, got)
					require.EqualError(t, err, "connection lost: EOF")
				}
			})
		}
	}
}

func TestLargestMessage(t *testing.T) {
	head, tail := `{"t":"message","id":"m","text":"`, `"}`
	text := strings.Repeat("x", MaxFrameBytes-len(head)-len(tail))
	cfg := gateway(t, func(p *peer) {
		p.hear()
		p.say(readyFrame, head+text+tail, head+text+"x"+tail)
		p.hear()
	})
	n := 0
	for ev, err := range dial(t, cfg).Events(within(t)) {
		if n++; n == 1 {
			require.NoError(t, err)
			require.Len(t, ev.Frame.(*Message).Text, len(text))
			continue
		}
		require.Error(t, err, "one byte too many")
	}
	require.Equal(t, 2, n)
}

func TestContextEndsTheLoopPolitely(t *testing.T) {
	closed := make(chan error, 1)
	cfg := gateway(t, func(p *peer) {
		p.hear()
		p.say(readyFrame)
		_, _, err := p.ws.Read(p.ctx)
		closed <- err
	})
	c := dial(t, cfg)
	ctx, cancel := context.WithCancelCause(within(t))
	reason := errors.New("enough")
	cancel(reason)
	n := 0
	for _, err := range c.Events(ctx) {
		require.ErrorIs(t, err, reason)
		n++
	}
	require.Equal(t, 1, n)
	require.ErrorContains(t, <-closed, "StatusNormalClosure")
}

func TestHelloGoesNowhereElse(t *testing.T) {
	elsewhere := gateway(t, func(*peer) { t.Error("the redirect was followed") })
	srv := httptest.NewServer(http.RedirectHandler("http"+strings.TrimPrefix(elsewhere.URL, "ws"), http.StatusTemporaryRedirect))
	defer srv.Close()
	_, err := Dial(within(t), Config{URL: "ws" + strings.TrimPrefix(srv.URL, "http"), Token: secret})
	require.EqualError(t, err, "no gateway at this address: HTTP 307 Temporary Redirect")
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{{}, {URL: "ws://h/ws"}, {URL: "http://h/ws", Token: secret}, {URL: "ws:///ws", Token: secret}, {URL: "ws://h\x00?" + secret, Token: secret}} {
		_, err := NewSession(cfg)
		require.Error(t, err)
		require.NotContains(t, err.Error(), secret)
		_, err = Dial(t.Context(), cfg)
		require.Error(t, err)
	}
}

func TestSessionComesBack(t *testing.T) {
	cfg := gateway(t, func(p *peer) {
		p.hear()
		switch p.n {
		case 1:
			p.say(readyFrame)
			p.hear()
			p.close(1001, "going away")
		case 2:
			p.close(1013, "overloaded")
		case 3:
			p.say(readyFrame)
			p.hear()
			p.say(`{"t":"error","code":"auth_failed","message":"No.","fatal":true}`)
			p.close(1008, "auth_failed")
		}
	})
	s := session(t, cfg)
	ctx := within(t)
	require.ErrorIs(t, s.Send(ctx, Typing{}), ErrOffline)
	var story []string
	var last error
	for ev, err := range s.Events(ctx) {
		if last = err; err != nil {
			break
		}
		switch f := ev.Frame.(type) {
		case *Ready:
			story = append(story, "ready")
			require.NoError(t, s.Send(ctx, Text{"m", "hi"}))
		case *Lost:
			story = append(story, f.Err.Error())
			require.Less(t, f.Wait, cfg.MaxBackoff)
			require.ErrorIs(t, s.Send(ctx, Typing{}), ErrOffline)
		case *Error:
			story = append(story, f.Code)
		}
	}
	require.True(t, Final(last), last)
	require.Equal(t, []string{"ready", "closed by the gateway (1001): going away", "closed by the gateway (1013): overloaded", "ready", "auth_failed"}, story)
}

func TestSessionEndsWithItsContext(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	cfg := Config{URL: "ws" + strings.TrimPrefix(srv.URL, "http"), Token: secret, MaxBackoff: time.Hour}
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	n := 0
	for ev, err := range session(t, cfg).Events(ctx) {
		if n++; n == 1 {
			require.EqualError(t, ev.Frame.(*Lost).Err, "no gateway at this address: HTTP 404 Not Found")
			cancel() // a pause of up to 500 ms is cut short
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, 2, n)
}

func TestSessionLeavesSilentGateways(t *testing.T) {
	cfg := gateway(t, func(p *peer) {
		switch p.n {
		case 1: // takes the hello and says nothing
			p.hear()
			p.hear()
		default: // is gone after ready: it does not even answer pings
			p.hear()
			p.say(readyFrame)
			<-p.ctx.Done()
		}
	})
	s := session(t, cfg)
	s.readyWait = 200 * time.Millisecond
	var lost []string
	for ev, err := range s.Events(within(t)) {
		require.NoError(t, err)
		switch f := ev.Frame.(type) {
		case *Lost:
			lost = append(lost, f.Err.Error())
			s.readyWait, s.beat, s.pong = 10*time.Second, time.Millisecond, 30*time.Millisecond
		}
		if len(lost) == 2 {
			break
		}
	}
	require.Equal(t, []string{"the gateway did not answer within 200ms", "the gateway stopped answering"}, lost)
}

func TestHeartbeatKeepsALiveLink(t *testing.T) {
	pings := make(chan struct{}, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { pinged(w, r, pings) }))
	defer srv.Close()
	s := session(t, Config{URL: "ws" + strings.TrimPrefix(srv.URL, "http"), Token: secret})
	s.beat = time.Millisecond
	ctx, cancel := context.WithCancel(within(t))
	go func() {
		for range 3 {
			<-pings
		}
		cancel()
	}()
	for ev, err := range s.Events(ctx) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			break
		}
		require.IsType(t, &Ready{}, ev.Frame)
	}
}

func TestBackoff(t *testing.T) {
	b := backoff{max: 15 * time.Second}
	var most time.Duration
	for i := range 2000 {
		wait := b.next(0)
		require.GreaterOrEqual(t, wait, time.Duration(0))
		require.Less(t, wait, min(b.max, 500*time.Millisecond<<min(i, 10)))
		most = max(most, wait)
	}
	require.Greater(t, most, 14*time.Second)
	require.Less(t, b.next(b.max+1), 500*time.Millisecond, "a connection that lasted starts over")
	require.Equal(t, 1, b.tries)
	b.next(b.max)
	require.Equal(t, 2, b.tries, "one that was dropped soon does not")
}

func TestTranscript(t *testing.T) {
	var tr Transcript
	say := func(m Message) string {
		text, final := tr.Add(&m)
		if final {
			text += "|"
		}
		return text
	}
	require.Equal(t, "one|", say(Message{ID: "1", Text: "one", Chunk: Chunk{0, 1}, Final: true}))

	require.Equal(t, "a", say(Message{ID: "2", Text: "a", Chunk: Chunk{0, 3}}))
	require.Equal(t, "S", say(Message{ID: "3", Text: "S", Chunk: Chunk{0, 1}}), "another message in between")
	require.Equal(t, "ab", say(Message{ID: "2", Text: "b", Chunk: Chunk{1, 3}}))
	require.Equal(t, "ab", say(Message{ID: "2", Text: "b", Chunk: Chunk{1, 3}}), "a piece that comes twice counts once")
	require.Equal(t, "S so far", say(Message{ID: "3", Text: "S so far", Chunk: Chunk{0, 1}, Edit: true}))
	require.Equal(t, "abc|", say(Message{ID: "2", Text: "c", Chunk: Chunk{2, 3}, Final: true}))
	require.Equal(t, "S so", say(Message{ID: "3", Text: "S so", Chunk: Chunk{0, 1}}), "begun again on a new connection")
	require.Equal(t, "all|", say(Message{ID: "3", Text: "all", Chunk: Chunk{0, 1}, Edit: true, Final: true}))
	require.Empty(t, tr.open)
	require.Equal(t, "tail|", say(Message{ID: "4", Text: "tail", Chunk: Chunk{2, 3}, Final: true}), "its beginning was lost")
}

func TestTranscriptKeepsSoMuch(t *testing.T) {
	var tr Transcript
	for i := range maxPartials + 1 {
		tr.Add(&Message{ID: strconv.Itoa(i), Text: "a", Chunk: Chunk{0, 2}})
	}
	require.Len(t, tr.open, maxPartials)
	text, _ := tr.Add(&Message{ID: "0", Text: "b", Chunk: Chunk{1, 2}, Final: true})
	require.Equal(t, "b", text, "the oldest was forgotten")
	text, _ = tr.Add(&Message{ID: "1", Text: "b", Chunk: Chunk{1, 2}, Final: true})
	require.Equal(t, "ab", text)

	tr = Transcript{}
	tr.Add(&Message{ID: "short", Text: "a", Chunk: Chunk{0, 2}})
	half := strings.Repeat("x", maxPartialText/2)
	tr.Add(&Message{ID: "x", Text: half, Chunk: Chunk{0, 3}})
	require.Equal(t, []int{2, len(half) + 1}, []int{len(tr.open), tr.held})
	text, _ = tr.Add(&Message{ID: "x", Text: half, Chunk: Chunk{1, 3}})
	require.Len(t, text, maxPartialText)
	require.Equal(t, []int{1, maxPartialText}, []int{len(tr.open), tr.held}, "a long text pushes short ones out")
	tr.Add(&Message{ID: "x", Text: "x", Chunk: Chunk{1, 3}})
	text, _ = tr.Add(&Message{ID: "y", Text: half + half + "x", Chunk: Chunk{0, 3}})
	require.Len(t, text, maxPartialText+1)
	require.Equal(t, []int{0, 0}, []int{len(tr.open), tr.held})
}
