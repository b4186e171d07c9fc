package openai

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"mobilegate/agent"
	"mobilegate/agent/openai/openaitest"
)

func TestBoundsOfAConversation(t *testing.T) {
	b := bounds{turns: 3, bytes: 100}
	var c []exchange
	for i := range 5 {
		before := c
		c = b.append(c, exchange{fmt.Sprint("q", i), fmt.Sprint("a", i)})
		require.Equal(t, before, append([]exchange(nil), before...))
	}
	require.Equal(t, []exchange{{"q2", "a2"}, {"q3", "a3"}, {"q4", "a4"}}, c, "whole pairs, the oldest went")

	c = b.append(c, exchange{"q5", strings.Repeat("a", 91)})
	require.Len(t, c, 2, "bytes, too")
	c = b.append(c, exchange{strings.Repeat("щ", 100), strings.Repeat("ж", 100)})
	require.Equal(t, []exchange{{strings.Repeat("щ", 25), strings.Repeat("ж", 25)}}, c)
	c = b.append(c, exchange{"short?", strings.Repeat("жa", 100)})
	require.Len(t, c, 1)
	require.Equal(t, "short?", c[0].Question)
	require.True(t, utf8.ValidString(c[0].Answer))
	require.InDelta(t, 94, len(c[0].Answer), 1)
}

func TestHistoryInMemoryIsBounded(t *testing.T) {
	m := newMemory(bounds{turns: 3, bytes: 1000}, 10_000)
	who := func(i int) agent.Owner { return agent.Owner{Device: fmt.Sprint("tel-", i), Entry: "MOBILE_TOKEN"} }
	for i := range 100 {
		require.NoError(t, m.add(who(0), exchange{"still", "here"}))
		require.NoError(t, m.add(who(i), exchange{"q", strings.Repeat("a", 300)}))
		require.LessOrEqual(t, m.shelf.used, 10_000)
	}
	c, _ := m.recall(who(0))
	require.Len(t, c, 3, "whoever speaks is not forgotten")
	c, _ = m.recall(who(99))
	require.Len(t, c, 1)
	c, _ = m.recall(who(1))
	require.Empty(t, c)
	require.Less(t, len(m.shelf.of), 20)
	for i := range 100 {
		require.NoError(t, m.forget(who(i)))
	}
	require.Zero(t, m.shelf.used)
	require.Empty(t, m.shelf.of)
	require.Zero(t, m.shelf.order.Len())
}

// The agent trims what it sends.
func TestLongConversation(t *testing.T) {
	play(t, openaitest.Script{}, func(c *Config) { c.HistoryTurns, c.HistoryBytes = 4, 300 }, func(t *testing.T, s *stage) {
		for range 10 {
			s.say("hello")
		}
		require.Len(t, s.last().Messages, 9)
		s.say(strings.Repeat("long ", 50))
		s.say("hello")
		require.Len(t, s.last().Messages, 3)
	})
}

func opened(t *testing.T, path string) *disk {
	d, err := openDisk(path, bounds{turns: 3, bytes: 1000}, 50_000)
	require.NoError(t, err)
	t.Cleanup(func() { d.close() })
	return d
}

func TestHistoryOutlivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	keep := func(c *Config) { c.HistoryFile = path }
	play(t, openaitest.Script{}, keep, func(t *testing.T, s *stage) {
		require.Equal(t, "turn 1: one", s.say("one"))
		require.Equal(t, "turn 2: two", s.say("two"))
		require.Equal(t, "turn 1: x", s.sayAs(agent.Owner{Device: "tel-2"}, "x"))
	})
	play(t, openaitest.Script{}, keep, func(t *testing.T, s *stage) {
		require.Equal(t, "turn 3: three", s.say("three"))
		require.Equal(t, "turn 1: one", s.last().Messages[1].Text)
		require.Equal(t, "turn 1: who?", s.sayAs(agent.Owner{Device: owner.Device}, "who?"))
		s.say("/new")
	})
	play(t, openaitest.Script{}, keep, func(t *testing.T, s *stage) {
		require.Equal(t, "turn 1: four", s.say("four"))
		require.Equal(t, "turn 2: y", s.sayAs(agent.Owner{Device: "tel-2"}, "y"))
	})
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

// No two owners share a key, however their parts are cut.
func TestKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][2]string{{"a", "b"}, {"ab", ""}, {"", "ab"}, {"a\x01b", ""}, {"a", "\x01b"}, {"a\x00", "b"}, {"a", "\x00b"}, {"", ""}} {
		key := string(keyOf(agent.Owner{Device: parts[0], Entry: parts[1]}))
		require.False(t, seen[key], "%q", parts)
		seen[key] = true
	}
}

func TestHistoryOnDiskIsBounded(t *testing.T) {
	d := opened(t, filepath.Join(t.TempDir(), "history"))
	who := func(i int) agent.Owner { return agent.Owner{Device: fmt.Sprint("tel-", i)} }
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 25 {
				if err := d.add(who(1+i*25+j), exchange{"q", strings.Repeat("a", 300)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, d.add(who(1000), exchange{"the", "last"}))
	c, err := d.recall(who(1000))
	require.NoError(t, err)
	require.Equal(t, []exchange{{"the", "last"}}, c)
	kept := 0
	for i := range 201 {
		if c, _ := d.recall(who(i)); c != nil {
			kept++
		}
	}
	require.InDelta(t, 50_000/550, kept, 10)
	require.NoError(t, d.db.View(func(tx *bbolt.Tx) error {
		require.LessOrEqual(t, tx.Size(), int64(4*50_000), "freed pages are used again")
		return nil
	}))

	for i := range 1001 {
		if c, _ := d.recall(who(i)); c != nil {
			require.NoError(t, d.forget(who(i)))
		}
	}
	require.NoError(t, d.forget(who(5)))
	require.NoError(t, d.db.View(func(tx *bbolt.Tx) error {
		require.Equal(t, make([]byte, 8), tx.Bucket(sums).Get(total), "all is accounted for")
		require.Zero(t, tx.Bucket(byAge).Stats().KeyN)
		return nil
	}))
}

// One conversation that is larger than all may be stays.
func TestTheLastConversationStays(t *testing.T) {
	d, err := openDisk(filepath.Join(t.TempDir(), "history"), bounds{turns: 3, bytes: 1000}, 10)
	require.NoError(t, err)
	defer d.close()
	for _, device := range []string{"a", "b", "b"} {
		require.NoError(t, d.add(agent.Owner{Device: device}, exchange{"q", "a"}))
	}
	c, _ := d.recall(agent.Owner{Device: "a"})
	require.Empty(t, c)
	c, _ = d.recall(agent.Owner{Device: "b"})
	require.Len(t, c, 2)
}

// A record of another version is as good as none, and is written over.
func TestOtherVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	d := opened(t, path)
	for _, value := range []string{`{"v":2,"turns":[{"q":"x","a":"y"}]}`, "no JSON", ""} {
		require.NoError(t, d.add(owner, exchange{"q", "a"}))
		require.NoError(t, d.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(byOwner)
			age := bytes.Clone(b.Get(keyOf(owner))[:ageSize])
			return b.Put(keyOf(owner), append(age, value...))
		}))
		c, err := d.recall(owner)
		require.NoError(t, err)
		require.Empty(t, c)
		require.NoError(t, d.add(owner, exchange{"q", "a"}))
		c, err = d.recall(owner)
		require.NoError(t, err)
		require.Len(t, c, 1)
		require.NoError(t, d.forget(owner))
	}
	require.NoError(t, d.close())
	opened(t, path)
}

func TestLockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	opened(t, path)
	_, err := New(Config{Model: "m", HistoryFile: path})
	require.ErrorIs(t, err, errLocked)
	require.ErrorContains(t, err, path)
	_, err = New(Config{Model: "m", HistoryFile: filepath.Join(path, "no", "such")})
	require.Error(t, err)
}

// A damaged file is refused, or still opens when the damage lies where nothing is; it never ends the process.
func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "history")
	d := opened(t, path)
	for i := range 60 {
		require.NoError(t, d.add(agent.Owner{Device: fmt.Sprint(i)}, exchange{"q", strings.Repeat("a", 300)}))
	}
	require.NoError(t, d.close())
	sound, err := os.ReadFile(path)
	require.NoError(t, err)
	open := func(data []byte) error {
		require.NoError(t, os.WriteFile(path, data, 0o600))
		d, err := openDisk(path, bounds{turns: 3, bytes: 1000}, 50_000)
		if err != nil {
			require.ErrorIs(t, err, errDamaged)
			require.NoError(t, os.Remove(path)) // what was opened and is in doubt stays locked
			return err
		}
		for i := range 60 {
			_, err := d.recall(agent.Owner{Device: fmt.Sprint(i)})
			require.NoError(t, err)
		}
		require.NoError(t, d.add(owner, exchange{"q", "a"}))
		return d.close()
	}
	require.NoError(t, open(sound))
	require.Error(t, open([]byte("this is no history at all")))
	require.Error(t, open(bytes.Repeat([]byte{0xff}, len(sound))))
	const page = 4096
	require.Error(t, open(append(bytes.Clone(sound[:2*page]), make([]byte, len(sound)-2*page)...)), "nothing but the head")
	refused := 0
	for size := page; size < len(sound); size += page {
		if open(sound[:size]) != nil {
			refused++
		}
		broken := bytes.Clone(sound)
		for i := range page {
			broken[size+i] ^= 0x5a
		}
		if open(broken) != nil {
			refused++
		}
	}
	require.Greater(t, refused, 4)
}

// What was answered is in the file when the process is killed, however that happens.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	writer := exec.CommandContext(ctx, os.Args[0])
	writer.Env = append(os.Environ(), "OPENAI_TEST_WRITER="+path)
	out, err := writer.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, writer.Start())
	told := 0
	for told < 20 {
		_, err := fmt.Fscanln(out, &told)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Process.Kill())
	writer.Wait()
	d, err := openDisk(path, bounds{turns: 1000, bytes: 1 << 20}, 1<<30)
	require.NoError(t, err)
	defer d.close()
	c, err := d.recall(owner)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(c), told)
	for i, x := range c {
		require.Equal(t, fmt.Sprint(i+1), x.Question)
	}
}

// writeUntilKilled is what the process does that is killed: it says what it has put into the file.
func writeUntilKilled(path string) {
	d, err := openDisk(path, bounds{turns: 1000, bytes: 1 << 20}, 1<<30)
	if err != nil {
		panic(err)
	}
	for i := 1; ; i++ {
		if err := d.add(owner, exchange{fmt.Sprint(i), strings.Repeat("a", 100)}); err != nil {
			panic(err)
		}
		fmt.Println(i)
	}
}
