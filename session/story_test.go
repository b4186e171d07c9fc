package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/agent"
	"mobilegate/internal/transcript"
)

// story is a life of a few devices at random: in each step some things happen at the same time. Whatever happens, an answer to
// a card and its time-out never both take effect, every delivery is answered once, and in the end nothing is held any more.
type story struct {
	*stage
	random *rand.Rand
	t      *testing.T
	tally  map[string]int
	links  map[string]*fakeConn // by device
	job    *fakeConn            // delivers, and never goes away
	sent   int                  // deliveries
	said   int                  // messages, for their ids

	outcomes map[string]int    // answers to deliveries, by id
	ids      map[string]string // of cards, by their text
	shown    []shownCard       // in their order
	dones    map[string][]done // by the card's id

	mu      sync.Mutex
	cards   map[string]*cardStory // by text
	kept    []agent.Content       // that an agent did not close
	release chan struct{}         // ends the turns that end at no time of their own
}

// done is one prompt_done.
type done struct {
	Option  string `json:"option_id"`
	Expired bool
	on      *fakeConn
}

type shownCard struct{ card, device string }

// cardStory is what an agent heard of a card.
type cardStory struct {
	answers   chan agent.Answer
	confirmed string // the option that it confirmed
	expired   bool   // it was told so, or said so
	stopped   bool   // it was stopped, or gave up, before
}

var storyDevices = []string{"tel-1", "tel-2", "tel-3"}

func newStory(t *testing.T, seed uint64, tally map[string]int) *story {
	s := &story{t: t, tally: tally, random: rand.New(rand.NewPCG(seed, 3)), links: map[string]*fakeConn{}, outcomes: map[string]int{},
		ids: map[string]string{}, dones: map[string][]done{}, cards: map[string]*cardStory{}, release: make(chan struct{})}
	s.stage = newStageFor(t, s, "slots=3", "files=40000000")
	s.hub.cfg.QuotaOff = true
	s.job = s.join("job", "cron")
	for _, d := range storyDevices {
		s.links[d] = s.join(d, "secret")
	}
	return s
}

// Ask makes the story the agent of its devices. What it does is chosen by the id of the message.
func (s *story) Ask(ctx context.Context, t *agent.Turn, emit func(agent.Event)) (string, error) {
	h := fnv.New64a()
	fmt.Fprint(h, t.Device, t.ID)
	random := rand.New(rand.NewPCG(h.Sum64(), 5))
	if t.File != nil {
		return s.askFile(random, t, emit)
	}
	switch random.IntN(10) {
	case 0:
		return "", errors.New("it fails")
	case 1:
		panic("it panics")
	case 2:
		for range 20 {
			emit(agent.Event{Kind: agent.Delta, Text: "word "})
		}
		return "", nil
	case 3:
		emit(agent.Event{Kind: agent.SendFile, File: &agent.File{Kind: "image", Size: 1 << 20, Open: func() (agent.Content, error) { return transcript.Content(1 << 20), nil }}})
		return "a file", nil
	case 4:
		select {
		case <-ctx.Done():
		case <-s.release:
		}
		return "", ctx.Err()
	case 5:
		return "short", nil
	}
	var all sync.WaitGroup
	defer all.Wait() // an answer that is confirmed late is so before the turn ends
	for i := range 1 + random.IntN(2) {
		s.askCard(ctx, random, fmt.Sprintf("%s/%s/%d", t.Device, t.ID, i), emit, &all)
	}
	return "settled", nil
}

// askCard shows a card and waits for its end, unless it gives up.
func (s *story) askCard(ctx context.Context, random *rand.Rand, text string, emit func(agent.Event), all *sync.WaitGroup) {
	kind := []string{agent.ExecApproval, agent.SlashConfirm, agent.Clarify}[random.IntN(3)]
	card := &cardStory{answers: make(chan agent.Answer, 1)}
	s.mu.Lock()
	s.cards[text] = card
	s.mu.Unlock()
	ask := &agent.Card{Kind: kind, Text: text, TTL: time.Duration(1+random.IntN(4)) * time.Second, Answers: card.answers}
	if kind == agent.Clarify {
		ask.Choices = []string{"red", "green"}
	}
	emit(agent.Event{Kind: agent.ShowCard, Card: ask})
	for {
		if random.IntN(12) == 0 {
			card.stopped = true
			return
		}
		var a agent.Answer
		select {
		case <-ctx.Done():
			card.stopped = true
			return
		case a = <-card.answers:
		}
		if a.Expired {
			card.expired = true
			return
		}
		say := func(err error) {
			if random.IntN(2) == 0 {
				a.Confirm(err)
				a.Confirm(errors.New("what is said twice counts once"))
				return
			}
			all.Go(func() { a.Confirm(err) })
		}
		switch random.IntN(4) {
		case 0:
			say(errors.New("not now"))
		case 1:
			card.expired = true
			say(agent.ErrCardExpired)
			return
		default:
			card.confirmed = a.Option
			say(nil)
			return
		}
	}
}

// askFile looks at a file, keeps it for longer than it may, or sends it back.
func (s *story) askFile(random *rand.Rand, t *agent.Turn, emit func(agent.Event)) (string, error) {
	switch random.IntN(5) {
	case 0:
		panic("it panics with a file")
	case 1:
		content, err := t.File.Open()
		if err != nil {
			return "", err
		}
		s.mu.Lock()
		s.kept = append(s.kept, content)
		s.mu.Unlock()
		return "kept", nil
	case 2:
		return "", errors.New("it fails")
	}
	f := *t.File
	f.Kind = "document"
	emit(agent.Event{Kind: agent.SendFile, File: &f})
	return t.Text, nil
}

// step lets up to four things happen at the same time.
func (s *story) step() {
	var all sync.WaitGroup
	ticks := false
	for range 1 + s.random.IntN(4) {
		what := s.happening(&ticks)
		all.Go(what)
	}
	all.Wait()
	require.NoError(s.t, s.Settle())
	s.listen()
}

// happening chooses something. What it returns runs beside others, so all that is random is chosen before.
func (s *story) happening(ticks *bool) func() {
	device := storyDevices[s.random.IntN(len(storyDevices))]
	c := s.links[device]
	s.said++
	say := func(format string, args ...any) func() {
		frame := fmt.Appendf(nil, format, args...)
		return func() { c.Say(frame) }
	}
	switch s.random.IntN(16) {
	case 0, 1, 2:
		return say(`{"t":"text","id":"m%d","text":"hi"}`, s.said)
	case 3:
		return say(`{"t":"audio","id":"m%d","format":"wav","data":"%s"}`, s.said, base64Of(1+s.random.IntN(300_000)))
	case 4, 5:
		parts := 2 + s.random.IntN(2)
		return say(`{"t":"media","id":"u%d","kind":"image","part":%d,"parts":%d,"data":"%s"}`, s.random.IntN(4), s.random.IntN(parts), parts, base64Of(1+s.random.IntN(200_000)))
	case 6, 7, 8:
		if last := s.shown[max(0, len(s.shown)-5):]; len(last) > 0 {
			id := last[s.random.IntN(len(last))]
			if s.random.IntN(6) > 0 {
				c = s.links[id.device] // whose card it is
			}
			option := []string{"once", "deny", "always", "cancel", "c0", "c1", "other", "what?"}[s.random.IntN(8)]
			text := []string{"", "words"}[s.random.IntN(2)]
			return say(`{"t":"prompt","prompt_id":%q,"option_id":%q,"text":%q}`, id.card, option, text)
		}
	case 9:
		s.sent++
		frame := fmt.Appendf(nil, `{"t":"deliver","id":"d%d","target":%q,"text":"hi"}`, s.sent, device)
		if s.random.IntN(2) == 0 {
			frame = fmt.Appendf(nil, `{"t":"deliver","id":"d%d","target":%q,"text":"hi","media":{"kind":"image","data":"%s"}}`, s.sent, device, base64Of(500_000))
		}
		return func() { s.job.Say(frame) }
	case 10:
		if !*ticks {
			*ticks = true
			to := s.now().Add(time.Duration(s.random.IntN(2000)) * time.Millisecond)
			return func() {
				s.ns.Store(to.UnixNano())
				s.hub.Tick(to)
			}
		}
	case 11:
		return func() { c.Do(transcript.Break) }
	case 12, 13: // comes back, or takes over; mostly with its own token
		token := []string{"secret", "secret", "secret", "other"}[s.random.IntN(4)]
		next := s.dial()
		s.links[device] = next
		return func() { next.Say(fmt.Appendf(nil, `{"t":"hello","token":%q,"device":{"id":%q}}`, token, device)) }
	case 14:
		return func() { c.Do(transcript.Stop) }
	case 15:
		return func() { c.Do(transcript.Goes) }
	}
	return func() {}
}

// listen reads what all devices heard.
func (s *story) listen() {
	for _, c := range s.conns {
		for {
			h, ok := c.Hear()
			if !ok {
				break
			}
			var f struct {
				T, ID, Text string
				done
			}
			if h.Frame == nil || json.Unmarshal(h.Frame, &f) != nil {
				continue
			}
			switch f.T {
			case "prompt":
				if s.ids[f.Text] == "" {
					s.ids[f.Text] = f.ID
					device, _, _ := strings.Cut(f.Text, "/")
					s.shown = append(s.shown, shownCard{f.ID, device})
				}
			case "prompt_done":
				f.on = c
				s.dones[f.ID] = append(s.dones[f.ID], f.done)
			case "delivered", "error":
				if c == s.job {
					s.outcomes[f.ID]++
					s.tally[f.T]++
				}
			}
		}
	}
}

// end lets everything come to its end and looks at what is left.
func (s *story) end() {
	t := s.t
	for range 10 { // what is told in the place of what waited may have to wait again
		for _, c := range s.conns {
			c.Do(transcript.Goes)
		}
		require.NoError(t, s.Settle())
	}
	s.listen()
	require.Len(t, s.outcomes, s.sent)
	for id, n := range s.outcomes {
		require.Equal(t, 1, n, "answers to delivery %s", id)
	}
	close(s.release)
	require.NoError(t, s.Advance(time.Minute))
	s.listen()
	s.checkCards()

	if s.random.IntN(2) == 0 {
		over, stop := context.WithCancel(context.Background())
		stop()
		s.links["tel-1"].text("last", "hi")
		s.hub.Drain(over) // whatever still runs
	}
	for _, c := range s.conns {
		c.Do(transcript.Leave)
	}
	require.NoError(t, s.Settle())
	if len(s.kept) > 0 {
		require.NotZero(t, s.hub.budget.Used(), "what an agent still reads is counted")
	}
	for _, c := range s.kept {
		buf := make([]byte, 1)
		n, err := c.ReadAt(buf, 0)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, c.Close())
		require.NoError(t, c.Close(), "twice is once")
		_, err = c.ReadAt(buf, 0)
		require.Error(t, err)
	}
	for what, n := range map[string]int{"kept files": len(s.kept), "deliveries": s.sent} {
		s.tally[what] += n
	}
	s.stage.close()
}

// checkCards: of an answer and a time-out one took effect, on both sides the same.
func (s *story) checkCards() {
	for text, card := range s.cards {
		require.False(s.t, card.confirmed != "" && card.expired, text)
		if !card.stopped {
			require.Empty(s.t, card.answers, "an answer behind the last one: %s", text)
		}
		s.tally["cards"]++
		s.tally["cards that were answered"] += boolInt(card.confirmed != "")
		s.tally["cards that expired"] += boolInt(card.expired)
		s.tally["cards of turns that were stopped"] += boolInt(card.stopped)
		var took string
		expired := map[*fakeConn]bool{} // a link that had stopped hears late
		for _, d := range s.dones[s.ids[text]] {
			if d.Expired {
				expired[d.on] = true
				continue
			}
			require.Empty(s.t, took, "two choices took effect: %s", text)
			require.False(s.t, expired[d.on], "a choice took effect after the end: %s", text)
			took = d.Option
		}
		switch {
		case card.stopped:
		case card.confirmed != "" && took != "":
			require.Equal(s.t, card.confirmed, took, text)
		case card.expired && took != "":
			require.Equal(s.t, other, took, "only the wait for a text ends without a word: %s", text)
		}
	}
}

func TestStories(t *testing.T) {
	stories, steps := 40, 120
	if instrumented {
		stories, steps = 5, 90
	}
	tally := map[string]int{}
	for seed := range stories {
		bubble(t, func(t *testing.T) {
			s := newStory(t, uint64(seed), tally)
			for range steps {
				s.step()
			}
			s.end()
		})
		if t.Failed() {
			t.Fatalf("story %d", seed)
		}
	}
	t.Log(tally)
	for _, what := range []string{"cards that were answered", "cards that expired", "cards of turns that were stopped", "delivered", "error", "kept files"} {
		require.Greater(t, tally[what], stories/2, "the stories are about nothing: %s", what)
	}
}
