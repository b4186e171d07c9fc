package session

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/codec"
)

// TestDedupAgainstModel plays a device's life at random against the plainest reading of spec 5.
func TestDedupAgainstModel(t *testing.T) {
	for _, c := range []struct {
		name     string
		ids      int // that the device chooses from
		perStep  time.Duration
		steps    int
		failures int // one in so many gives its id back
	}{
		{"few ids over hours", 30, 40 * time.Second, 20_000, 10},
		{"around the size from which an index is kept", 60, 9 * time.Second, 20_000, 3},
		{"more than the window holds", 6000, 20 * time.Millisecond, 12_000, 50},
		{"one id", 1, 300 * time.Second, 2_000, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			type used struct {
				id string
				at time.Duration
			}
			var d dedup
			var model []used // oldest first
			random := rand.New(rand.NewPCG(uint64(c.ids), 7))
			now := time.Duration(0)
			for range c.steps {
				now += time.Duration(random.Int64N(int64(2 * c.perStep)))
				second := uint32(now / time.Second)
				id := strconv.Itoa(random.IntN(c.ids))
				for len(model) > 0 && second-uint32(model[0].at/time.Second) >= 600 {
					model = model[1:]
				}
				known := slices.ContainsFunc(model, func(u used) bool { return u.id == id })

				d.expire(second)
				require.Equal(t, known, d.has(keyOf(id)))
				require.Equal(t, len(model) == 0, d.empty())
				if len(model) > 0 {
					require.Equal(t, uint32(model[0].at/time.Second), d.oldest())
				}
				switch {
				case !known:
					d.add(keyOf(id), second)
					if model = append(model, used{id, now}); len(model) > 4000 {
						model = model[1:]
					}
				case random.IntN(c.failures) == 0:
					d.remove(keyOf(id))
					model = slices.DeleteFunc(model, func(u used) bool { return u.id == id })
				}
			}
		})
	}
}

// TestDedupForgetsAllOfIt: an empty window holds no memory.
func TestDedupForgetsAllOfIt(t *testing.T) {
	for _, n := range []int{1, 2, 33, codec.MaxDedupIDs + 5} {
		var d dedup
		for i := range n {
			d.add(keyOf(strconv.Itoa(i)), 0)
		}
		d.expire(599)
		require.False(t, d.empty())
		d.expire(600)
		require.Equal(t, dedup{}, d)
		d.remove(keyOf("1"))
		require.Equal(t, dedup{}, d)
	}
}

func TestKeyOf(t *testing.T) {
	require.Equal(t, keyOf("a"), keyOf("a"))
	require.NotEqual(t, keyOf("a"), keyOf("b"))
	require.NotEqual(t, messageKey{}, keyOf(""))
}

// TestBucket: over no span is more taken than the burst and what refills meanwhile, what is refused is free after the time
// that was named, and not before.
func TestBucket(t *testing.T) {
	const perSecond, burst = 50, 400
	type taken struct {
		at time.Duration
		n  int
	}
	random := rand.New(rand.NewPCG(1, 2))
	var b bucket
	var log []taken
	now := time.Hour
	for range 1000 {
		now += time.Duration(random.Int64N(int64(100 * time.Millisecond)))
		n := 1 + random.IntN(12)
		wait := b.take(n, perSecond, burst, now)
		if wait == 0 {
			log = append(log, taken{now, n})
			continue
		}
		early, due := b, b
		require.NotZero(t, early.take(n, perSecond, burst, now+wait-1))
		require.Zero(t, due.take(n, perSecond, burst, now+wait))
	}
	for from := range log {
		sum := 0
		for _, x := range log[from:] {
			sum += x.n
			if allowed := burst + perSecond*(x.at-log[from].at).Seconds(); float64(sum) > allowed+1e-6 {
				t.Fatalf("%d taken where %f are allowed", sum, allowed)
			}
		}
	}
	require.Zero(t, new(bucket).take(burst, perSecond, burst, 1), "a burst is taken whole, also at the very start")
	require.Equal(t, 20*time.Millisecond, (&bucket{full: 8*time.Second + 1}).take(1, perSecond, burst, 1))
}

func TestCounter(t *testing.T) {
	var c counter
	for range 3 {
		require.False(t, c.over(3, 10, 100))
	}
	require.True(t, c.over(3, 10, 105))
	require.True(t, c.over(3, 10, 109), "who is over stays over")
	require.False(t, c.over(3, 10, 110), "until the span is over")
	for range 1 << 17 {
		c.over(3, 10, 111)
	}
	require.True(t, c.over(3, 10, 111), "the count does not wrap")
}

// TestRecentIsOver: what is remembered of a device ends, and is asked for again before it does.
func TestRecentIsOver(t *testing.T) {
	second := func(at time.Duration) uint32 { return uint32(at / time.Second) }
	for name, use := range map[string]func(r *recent, at time.Duration){
		"an id":        func(r *recent, at time.Duration) { r.add(keyOf("1"), second(at)) },
		"a take-over":  func(r *recent, at time.Duration) { r.takeOvers.over(5, minute, second(at)) },
		"frames":       func(r *recent, at time.Duration) { r.charge(&DefaultQuota.Device, 100, at) },
		"the whole":    func(r *recent, at time.Duration) { r.charge(&DefaultQuota.Device, DefaultQuota.Device.BurstBytes, at) },
		"nothing more": func(*recent, time.Duration) {},
	} {
		r, start := new(recent), 1000*time.Second
		use(r, start)
		at, looks := start, 0
		for !r.over(at, second(at)) {
			left := r.left(second(at))
			require.Positive(t, left, name)
			at += left
			looks++
		}
		require.LessOrEqual(t, at-start, 601*time.Second, name)
		require.LessOrEqual(t, looks, 11, name)
		require.Zero(t, r.takeOvers.n*uint16(boolInt(second(at)-r.takeOvers.since < minute)), name)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestAccess(t *testing.T) {
	for _, c := range []struct {
		name   string
		access Access
		want   error
	}{
		{"no token", Access{}, ErrNoToken},
		{"an empty one", Access{Tokens: []Token{{Secret: "a"}, {}}}, ErrEmptyToken},
		{"bound and unbound", Access{Tokens: []Token{{Secret: "a"}, {Secret: "a", Device: "d"}}}, ErrTokenTwice},
		{"unbound and bound", Access{Tokens: []Token{{Secret: "a", Device: "d"}, {Secret: "a"}}}, ErrTokenTwice},
		{"bound twice", Access{Tokens: []Token{{Secret: "a", Device: "d"}, {Secret: "a", Device: "e"}}}, ErrTokenTwice},
		{"unbound twice", Access{Tokens: []Token{{Secret: "a"}, {Secret: "a", Deliver: true}}}, nil},
		{"a device with two tokens", Access{Tokens: []Token{{Secret: "a", Device: "d"}, {Secret: "b", Device: "d"}}}, nil},
	} {
		_, err := newAccess(c.access)
		require.Equal(t, c.want, err, c.name)
	}
}

func TestAdmit(t *testing.T) {
	tokens := []Token{{Secret: "free"}, {Secret: "mine", Device: "d"}, {Secret: "also", Device: "d"}, {Secret: "cron", Deliver: true}, {Secret: "free", Deliver: true}}
	for _, c := range []struct {
		secret, device string
		generated      bool
		open, listed   refusal // without a list of devices, and with one of "x"
	}{
		{"", "d", false, badToken, badToken},
		{"wrong", "d", false, badToken, badToken},
		{"fre", "x", false, badToken, badToken},
		{"mine", "x", false, boundToken, boundToken},
		{"mine", "dev-1", true, boundToken, boundToken},
		{"free", "d", false, boundDevice, boundDevice},
		{"cron", "d", false, boundDevice, boundDevice},
		{"mine", "d", false, welcome, unknownDevice},
		{"also", "d", false, welcome, unknownDevice},
		{"free", "x", false, welcome, welcome},
		{"free", "y", false, welcome, unknownDevice},
		{"cron", "y", false, welcome, unknownDevice},
		{"cron", "dev-1", true, welcome, welcome},
		{"free", "dev-1", true, welcome, welcome}, // the same token may deliver
	} {
		for want, devices := range map[*refusal][]string{&c.open: nil, &c.listed: {"x"}} {
			x, err := newAccess(Access{Tokens: tokens, Devices: devices})
			require.NoError(t, err)
			g, refused := x.admit(c.secret, c.device, c.generated)
			require.Equal(t, *want, refused, "%+v %v", c, devices)
			require.Equal(t, *want == welcome, g != nil)
		}
	}
	x, err := newAccess(Access{Tokens: tokens})
	require.NoError(t, err)
	a, _ := x.admit("mine", "d", false)
	b, _ := x.admit("also", "d", false)
	require.NotEqual(t, a.owner, b.owner, "two tokens are two owners, also of one device")
}
