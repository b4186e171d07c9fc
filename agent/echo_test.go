package agent

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// ask returns what an Echo says to text: the reply, and what it emitted before.
func ask(ctx context.Context, text string) (reply string, events []Event, err error) {
	reply, err = Echo{}.Ask(ctx, &Turn{Text: text}, func(e Event) { events = append(events, e) })
	return reply, events, err
}

func TestEchoReplies(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"hello", "hello"},
		{"  white \t space\r\n ", "  white \t space\r\n "},
		{"an /echo of /fail", "an /echo of /fail"},
		{"/", "/"},
		{"/unknown x", "/unknown x"},
		{"/FAIL", "/FAIL"},
		{"/failure", "/failure"},
		{"//help", "//help"},
		{"/sleep 0 now", "now"},
		{"\n/sleep\t0.000  to the \n end ", "to the \n end "},
		{"/long 1", "e"},
		{" /long 7 ", "every e"},
		{"/long 20", "every word слово ech"},
	} {
		reply, events, err := ask(t.Context(), c.text)
		require.NoError(t, err, "%q", c.text)
		require.Equal(t, c.want, reply)
		require.Empty(t, events)
	}
}

func TestEchoFails(t *testing.T) {
	for _, text := range []string{
		"/fail", "/fail and say so",
		"/stream", "/stream \n",
		"/long", "/long 0", "/long -1", "/long +1", "/long 200001", "/long 99999999999999999999", "/long x", "/long 1.0", "/long 1 1",
		"/sleep", "/sleep 1", "/sleep 1 ", "/sleep x y", "/sleep -1 x", "/sleep 3600.1 x", "/sleep 1m x", "/sleep 1h1 x", "/sleep . x",
		"/sleep NaN x", "/sleep Inf x", "/sleep 1e3 x", "/sleep 99999999999999999999 x",
		"/approve", "/confirm \n", "/ask", "/ask Which?", "/ask | a", "/ask Which? |", "/ask Which? | a | | b",
		"/ttl", "/ttl 2", "/ttl 2 /approve", "/ttl 2 /ask Which?", "/ttl 0 /approve ls", "/ttl 1.5 /approve ls", "/ttl -1 /approve ls",
		"/ttl 86401 /approve ls", "/ttl 99999999999999999999 /approve ls", "/ttl 2 /sleep 1 x", "/ttl 2 /ttl 2 /approve ls", "/ttl /approve ls",
		"/send", "/send hologram", "/send audio", "/send Image", "/send image 0", "/send image -1", "/send image 8388609",
		"/send image 99999999999999999999", "/send image x", "/send image 1 1", "/send 1024",
	} {
		reply, events, err := ask(t.Context(), text)
		require.Error(t, err, "%q", text)
		require.Empty(t, reply)
		require.Empty(t, events)
		_, arg := word(text)
		require.False(t, arg != "" && strings.Contains(err.Error(), arg), "%q holds what the device sent", err)
	}
	_, _, err := ask(t.Context(), "/send image none")
	require.EqualError(t, err, "echo /send: bad arguments")
}

func TestEchoHelp(t *testing.T) {
	reply, _, err := ask(t.Context(), "/help")
	require.NoError(t, err)
	require.Regexp(t, regexp.MustCompile(`(?s)/stream.*/long.*/sleep.*/fail.*/approve.*/confirm.*/ask.*/ttl.*/send.*animation`), reply)
	lines := strings.Split(reply, "\n")
	require.Len(t, lines, len(commands)+1)
	for i, c := range commands {
		require.True(t, strings.HasPrefix(lines[i], c.name+" "), lines[i])
		require.Equal(t, strings.ToLower(c.name), c.name)
	}
}

func TestEchoStream(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"/stream one two three", []string{"one ", "two ", "three"}},
		{"/stream alone", []string{"alone"}},
		{"/stream \n a\r\n\r\nb \t", []string{"a\r\n\r\n", "b \t"}},
		{"/stream /fail\u3000я 👩‍👩‍👧‍👦", []string{"/fail\u3000", "я ", "👩‍👩‍👧‍👦"}},
	} {
		reply, events, err := ask(t.Context(), c.text)
		require.NoError(t, err)
		require.Empty(t, reply)
		var got []string
		for _, e := range events {
			require.Equal(t, Delta, e.Kind)
			got = append(got, e.Text)
		}
		require.Equal(t, c.want, got)
	}
}

func TestEchoStreamStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	said := 0
	_, err := Echo{}.Ask(ctx, &Turn{Text: "/stream a b c d"}, func(Event) {
		if said++; said == 2 {
			stop()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, said)
}

func TestEchoSleep(t *testing.T) {
	for seconds, want := range map[string]time.Duration{
		"1": time.Second, "0.25": 250 * time.Millisecond, ".5": 500 * time.Millisecond, "3600": time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			reply, _, err := ask(t.Context(), "/sleep "+seconds+" good  morning")
			require.NoError(t, err)
			require.Equal(t, "good  morning", reply)
			require.Equal(t, want, time.Since(start))
		})
	}
}

func TestEchoSleepStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		reply, _, err := ask(ctx, "/sleep 3600 late")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, reply)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

// TestEchoLong holds the long replies of every length against their promises.
func TestEchoLong(t *testing.T) {
	for n := 1; n <= maxLong; n += 1 + n/300 {
		text := longText(n)
		require.True(t, utf8.ValidString(text))
		require.Equal(t, n, utf8.RuneCountInString(text))
		last, _ := utf8.DecodeLastRuneInString(text)
		require.True(t, unicode.IsLetter(last), "%d characters end in %q", n, last)
		first, _ := utf8.DecodeRuneInString(text)
		require.True(t, unicode.IsLetter(first), "%d characters begin with %q", n, first)
	}
	text := longText(maxLong)
	require.Equal(t, maxLong, utf8.RuneCountInString(text))
	require.Equal(t, text, longText(maxLong))
	for _, re := range []string{`[a-z]`, `[а-я]`, `👩‍👩‍👧‍👦`, `[^\n]\n[^\n]`, `[^\n]\n\n[^\n]`} {
		const every = 1_000 // characters hold each of these
		for r := []rune(text); len(r) >= every; r = r[every:] {
			require.Regexp(t, re, string(r[:every]))
		}
	}
}

func TestEchoInstant(t *testing.T) {
	for text, want := range map[string]bool{"hi": true, " \n hi ": true, "a /help": true, "/": false, "/unknown": false} {
		reply, ok := Echo{}.Instant(&Turn{Text: text})
		require.Equal(t, want, ok, "%q", text)
		if ok {
			require.Equal(t, text, reply)
		}
	}
	for _, c := range commands {
		_, ok := Echo{}.Instant(&Turn{Text: "\n" + c.name + " 1 x"})
		require.False(t, ok, c.name)
	}
	for _, caption := range []string{"", "hi"} {
		_, ok := Echo{}.Instant(&Turn{Text: caption, File: &File{}})
		require.False(t, ok, "with a file")
	}
}

func TestEchoAllocates(t *testing.T) {
	var a Agent = Echo{}
	emit := func(Event) {}
	for text, want := range map[string]float64{"hello there": 0, "/unknown": 0, "/stream a b c": 0, "/long 200000": 1} {
		turn := &Turn{Text: text}
		require.Equal(t, want, testing.AllocsPerRun(10, func() { a.Ask(t.Context(), turn, emit) }), text)
	}
}

func BenchmarkEcho(b *testing.B) {
	for _, text := range []string{"hello there", "/stream one two three four", "/long 200000"} {
		b.Run(strings.Fields(text)[0], func(b *testing.B) {
			var a Agent = Echo{}
			turn := &Turn{Text: text}
			b.ReportAllocs()
			for b.Loop() {
				a.Ask(b.Context(), turn, func(Event) {})
			}
		})
	}
}
