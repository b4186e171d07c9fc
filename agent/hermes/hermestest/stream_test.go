package hermestest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// counted is a run of so many pieces, one a second, that begins at once.
func counted(n int, more ...Step) []Rule {
	list := make([]Step, 0, 2*n)
	for i := range n {
		list = append(list, Step{Do: "delta", Text: fmt.Sprint(i)}, Step{Do: "wait", For: time.Second})
	}
	return []Rule{{Steps: append(list, more...)}}
}

func TestFrames(t *testing.T) {
	rules := []Rule{{Steps: []Step{
		{Do: "delta", Text: "a"}, {Do: "tool", Tool: "terminal", Text: "ls", Error: true}, {Do: "reasoning", Text: "hm"},
		{Do: "event", Event: "subagent.start", Fields: map[string]any{"goal": "g"}}, {Do: "complete", Text: "b"},
	}}}
	for name, c := range map[string]struct {
		features Features
		names    []string
	}{
		"A": {A, []string{"message.delta", "tool.started", "tool.completed", "reasoning.available", "subagent.start", "run.completed"}},
		"B": {B, []string{"message.delta", "tool.started", "tool.completed", "reasoning.delta", "subagent.start", "run.completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Features: c.features, Rules: rules}, func(cl *client) {
				id := cl.run("x")
				f := cl.open("/v1/runs/" + id + "/events")
				for i, want := range c.names {
					block, err := f.next()
					require.NoError(t, err)
					if c.features.Journal {
						require.True(t, strings.HasPrefix(block, fmt.Sprintf("id: %d\nevent: %s\ndata: {", i+1, want)), block)
					} else {
						require.True(t, strings.HasPrefix(block, "data: {"), block)
					}
					require.Contains(t, block, `"event":"`+want+`"`)
					require.Contains(t, block, `"run_id":"`+id+`"`)
				}
				blocks, err := f.rest()
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, []string{": stream closed"}, blocks)
				run := cl.object(http.StatusOK, "GET", "/v1/runs/"+id, "")
				require.Equal(t, "b", run["output"])
				require.Equal(t, "run.completed", run["last_event"])
			})
		})
	}
}

func TestJournalIsReadAgain(t *testing.T) {
	play(t, Config{Features: B, Rules: counted(5)}, func(c *client) {
		path := "/v1/runs/" + c.run("x") + "/events"
		f := c.open(path)
		require.Equal(t, "0", f.event()["delta"])
		require.Equal(t, "1", f.event()["delta"])
		f.close()
		time.Sleep(2 * time.Second)
		after, header, fresh := c.open(path+"?after=2"), c.open(path, "Last-Event-ID", "3"), c.open(path)
		require.Equal(t, "2", after.event()["delta"])
		require.Equal(t, "3", header.event()["delta"])
		for i := range 5 {
			require.Equal(t, fmt.Sprint(i), fresh.event()["delta"], "readers take nothing from each other")
		}
		for _, f := range []*frames{after, header, fresh} {
			blocks, err := f.rest()
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, ": stream closed", blocks[len(blocks)-1])
		}
		blocks, err := c.open(path + "?after=5").rest()
		require.ErrorIs(t, err, io.EOF)
		require.Len(t, blocks, 2, "the last event and the end, also when all is over")
	})
}

func TestJournalKeepsTheLatest(t *testing.T) {
	rules := []Rule{{Steps: []Step{{Do: "delta", Text: "a", Times: 300}, {Do: "wait"}}}}
	play(t, Config{Features: B, Rules: rules, Think: -1}, func(c *client) {
		path := "/v1/runs/" + c.run("x") + "/events"
		synctest.Wait()
		f := c.open(path + "?after=7")
		defer f.close()
		block, err := f.next()
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(block, "id: 45\n"), block)
	})
}

func TestBytesOfStreams(t *testing.T) {
	large := frame{id: 1, b: make([]byte, 1<<20)}
	r := &run{journaled: true, readers: map[*pipe]struct{}{}, subscribed: make(chan struct{})}
	p := r.subscribe(0, false)
	for range 40 {
		r.put(large)
	}
	require.Len(t, r.journal, keptBytes>>20-1, "as many as fit with what each costs")
	require.LessOrEqual(t, r.kept, keptBytes)
	f, ok := p.take()
	require.True(t, ok)
	require.Equal(t, cut, f.kind, "a reader that is too far behind")
	_, ok = p.take()
	require.False(t, ok)

	q := &run{queue: newPipe(), created: time.Now()}
	for range 31 {
		q.put(large)
	}
	q.over = true
	require.Equal(t, 31*(len(large.b)+perFrame), q.weigh())
	q.put(large)
	f, ok = q.queue.take()
	require.True(t, ok)
	require.Equal(t, cut, f.kind)
	two := newPipe()
	two.put(large)
	two.put(large)
	<-two.wake
	_, _ = two.take()
	require.Len(t, two.wake, 1, "there is more, for whoever else reads")
	alone := newPipe()
	alone.put(frame{b: make([]byte, 2*keptBytes+1)})
	f, _ = alone.take()
	require.Len(t, f.b, 2*keptBytes+1, "one frame may be of any size")
}

func TestQueueHasOneReader(t *testing.T) {
	play(t, Config{Rules: counted(6)}, func(c *client) {
		path := "/v1/runs/" + c.run("x") + "/events"
		f, g := c.open(path), c.open(path)
		heard := map[any]int{}
		done := make(chan []any)
		for _, f := range []*frames{f, g} {
			go func() {
				var all []any
				for {
					block, err := f.next()
					if err != nil {
						done <- all
						return
					}
					if _, text, ok := strings.Cut(block, `"delta":"`); ok {
						all = append(all, text[:1])
					}
				}
			}()
		}
		time.Sleep(time.Minute)
		f.close()
		g.close()
		for range 2 {
			for _, d := range <-done {
				heard[d]++
			}
		}
		require.Len(t, heard, 6, "each piece came to somebody")
		for d, n := range heard {
			require.Equal(t, 1, n, "%v came to one only", d)
		}
	})
}

func TestQueueDiesWithItsReader(t *testing.T) {
	play(t, Config{Rules: counted(3)}, func(c *client) {
		id := c.run("x")
		path := "/v1/runs/" + id + "/events"
		f := c.open(path)
		f.event()
		f.close()
		synctest.Wait()
		require.Equal(t, "run_not_found", code(c.object(http.StatusNotFound, "GET", path, "")))
		time.Sleep(time.Minute)
		run := c.object(http.StatusOK, "GET", "/v1/runs/"+id, "")
		require.Equal(t, "012", run["output"], "the run goes on")
	})
	play(t, Config{Rules: counted(3)}, func(c *client) {
		path := "/v1/runs/" + c.run("x") + "/events"
		_, err := c.open(path).rest()
		require.ErrorIs(t, err, io.EOF)
		c.object(http.StatusNotFound, "GET", path, "")
	})
}

func TestDeafReconnect(t *testing.T) {
	features := A
	features.DeafReconnect = true
	rules := []Rule{{Steps: []Step{{Do: "delta", Text: "a"}, {Do: "cut"}, {Do: "wait", For: time.Minute}}}}
	play(t, Config{Features: features, Rules: rules}, func(c *client) {
		id := c.run("x")
		_, err := c.open("/v1/runs/" + id + "/events").rest()
		require.ErrorContains(t, err, "unexpected EOF")
		f := c.open("/v1/runs/" + id + "/events")
		for range 10 {
			block, err := f.next()
			require.NoError(t, err)
			require.Equal(t, ": keepalive", block)
		}
		require.Equal(t, "completed", c.object(http.StatusOK, "GET", "/v1/runs/"+id, "")["status"])
		c.Restart()
		_, err = f.rest()
		require.ErrorContains(t, err, "unexpected EOF")
	})
}

func TestQueueThatNobodyReads(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration
		status int
	}{"in time": {queueTTL, http.StatusOK}, "too late": {queueTTL + time.Second, http.StatusNotFound}} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Rules: []Rule{{Steps: []Step{{Do: "delta", Text: "a"}, {Do: "wait"}}}}}, func(cl *client) {
				id := cl.run("x")
				time.Sleep(c.after)
				res := cl.ask("GET", "/v1/runs/"+id+"/events", "")
				res.Body.Close()
				require.Equal(t, c.status, res.StatusCode)
				require.Equal(t, "running", cl.object(http.StatusOK, "GET", "/v1/runs/"+id, "")["status"])
			})
		})
	}
}

func TestKeepAlive(t *testing.T) {
	for name, c := range map[string]struct {
		quiet bool
		want  []string
	}{"usual": {false, []string{": keepalive", ": keepalive"}}, "quiet": {true, nil}} {
		t.Run(name, func(t *testing.T) {
			rules := []Rule{{Steps: []Step{{Do: "wait", For: 75 * time.Second, Quiet: c.quiet}}}}
			play(t, Config{Rules: rules}, func(cl *client) {
				blocks, err := cl.open("/v1/runs/" + cl.run("x") + "/events").rest()
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, c.want, append([]string(nil), blocks[:len(blocks)-2]...))
			})
		})
	}
}

// What a stream may bring that is not as it should be.
func TestTrouble(t *testing.T) {
	tail := []string{"run.completed", ": stream closed"}
	for name, c := range map[string]struct {
		steps []Step
		want  []string // what each block holds
		err   string
		state string
	}{
		"cut":            {[]Step{{Do: "delta", Text: "a"}, {Do: "cut"}, {Do: "wait"}}, []string{"message.delta"}, "unexpected EOF", "running"},
		"cut in a frame": {[]Step{{Do: "cut", Text: `data: {"ev`}, {Do: "wait"}}, []string{`data: {"ev`}, "unexpected EOF", "running"},
		"end of stream":  {[]Step{{Do: "eof"}, {Do: "wait"}}, nil, "EOF", "running"},
		"no last event":  {[]Step{{Do: "complete", Text: "a", Silent: true}}, nil, "EOF", "completed"},
		"silent failure": {[]Step{{Do: "fail", Text: "a", Silent: true}}, nil, "EOF", "failed"},
		"failure":        {[]Step{{Do: "fail", Text: "why"}}, []string{`"error":"why"`, tail[1]}, "EOF", "failed"},
		"more fields":    {[]Step{{Do: "fail", Fields: map[string]any{"partial": true}}}, []string{`"partial":true`, tail[1]}, "EOF", "failed"},
		"newer end":      {nil, []string{`"completed":true`, tail[1]}, "EOF", "completed"},
		"cancelled":      {[]Step{{Do: "cancel"}}, []string{"run.cancelled", tail[1]}, "EOF", "cancelled"},
		"twice":          {[]Step{{Do: "delta", Text: "a"}, {Do: "duplicate"}}, append([]string{`id: 1`, `id: 1`}, tail...), "EOF", "completed"},
		"garbage":        {[]Step{{Do: "raw", Text: "data: {\n\nrubbish\n\n"}}, append([]string{"data: {", "rubbish"}, tail...), "EOF", "completed"},
		"other output":   {[]Step{{Do: "delta", Text: "a"}, {Do: "complete", Text: "b"}}, []string{`"delta":"a"`, `"output":"b"`, tail[1]}, "EOF", "completed"},
		"huge":           {[]Step{{Do: "delta", Text: "a", Size: 3_000_000}}, append([]string{strings.Repeat("x", 2_999_999)}, tail...), "EOF", "completed"},
		"repeated":       {[]Step{{Do: "delta", Text: "a", Times: 3}}, []string{"delta", "delta", "delta", `"output":"aaa"`, tail[1]}, "EOF", "completed"},
		"image":          {[]Step{{Do: "complete", Text: "![image]({png})"}}, []string{"![image](data:image/png;base64," + pixel + ")", tail[1]}, "EOF", "completed"},
		"words":          {[]Step{{Do: "words", Text: "a b"}}, append([]string{`"delta":"a "`, `"delta":"b"`}, tail...), "EOF", "completed"},
		"restart":        {[]Step{{Do: "delta", Text: "a"}, {Do: "restart"}}, []string{"message.delta"}, "unexpected EOF", "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Config{Features: B, Rules: []Rule{{Steps: c.steps}}}, func(cl *client) {
				id := cl.run("x", "Idempotency-Key", "k")
				blocks, err := cl.open("/v1/runs/" + id + "/events").rest()
				require.EqualError(t, err, c.err)
				require.Len(t, blocks, len(c.want), "%.500q", blocks)
				for i, want := range c.want {
					require.Contains(t, blocks[i], want)
				}
				require.Equal(t, c.state, cl.object(http.StatusOK, "GET", "/v1/runs/"+id, "")["status"])
			})
		})
	}
}

func TestTroubleIsNotReadAgain(t *testing.T) {
	rules := []Rule{{Steps: []Step{{Do: "delta", Text: "a"}, {Do: "cut"}, {Do: "wait", For: time.Second}, {Do: "delta", Text: "b"}}}}
	play(t, Config{Features: B, Rules: rules}, func(c *client) {
		path := "/v1/runs/" + c.run("x") + "/events"
		_, err := c.open(path).rest()
		require.ErrorContains(t, err, "unexpected EOF")
		blocks, err := c.open(path).rest()
		require.ErrorIs(t, err, io.EOF)
		require.Len(t, blocks, 4)
	})
}

// What breaks a stream before anybody reads it breaks the first reader's, once.
func TestTroubleWaitsForItsReader(t *testing.T) {
	rules := []Rule{{Steps: []Step{{Do: "delta", Text: "a"}, {Do: "cut"}, {Do: "delta", Text: "b"}}}}
	play(t, Config{Features: B, Rules: rules, Think: -1}, func(c *client) {
		path := "/v1/runs/" + c.run("x") + "/events"
		synctest.Wait()
		blocks, err := c.open(path).rest()
		require.ErrorContains(t, err, "unexpected EOF")
		require.Len(t, blocks, 1)
		blocks, err = c.open(path, "Last-Event-ID", "1").rest()
		require.ErrorIs(t, err, io.EOF)
		require.Len(t, blocks, 3)
	})
}
