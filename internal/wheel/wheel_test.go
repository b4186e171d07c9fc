package wheel

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

const tick = 100 * time.Millisecond

type device struct {
	Item
	id    int
	fired atomic.Int32
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestItemIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Item{}), uintptr(16))
}

// model is the wheel as one would write it for three devices: a map of the moments at which each is due.
type model struct {
	at  map[*device]time.Time
	now time.Time // the latest that Advance was told
}

// due is the moment from which Advance must return x: the deadline rounded up to the tick, or the tick that has begun.
func (m *model) due(at time.Time) time.Time {
	up := epoch
	if d := at.Sub(epoch); d > 0 {
		up = epoch.Add((d + tick - 1) / tick * tick)
	}
	if begun := epoch.Add(m.now.Sub(epoch) / tick * tick); up.Before(begun) {
		return begun
	}
	return up
}

func (m *model) setEarlier(x *device, at time.Time) {
	if old, armed := m.at[x]; !armed || m.due(at).Before(old) {
		m.at[x] = m.due(at)
	}
}

func TestAgainstModel(t *testing.T) {
	for range 4 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		play(t, rand.New(rand.NewPCG(seed, 0)), 15_000)
	}
}

// play applies random operations to a wheel and to the model, and compares all that can be seen.
func play(t *testing.T, rnd *rand.Rand, operations int) {
	w := New[*device](tick, epoch)
	m := &model{at: map[*device]time.Time{}, now: epoch}
	devices := make([]*device, 300)
	for i := range devices {
		devices[i] = &device{id: i}
	}
	clock := epoch
	real := map[*device]time.Time{} // what Set was told, not rounded
	for range operations {
		x := devices[rnd.IntN(len(devices))]
		at := clock.Add(time.Duration(rnd.Int64N(int64(3*slots*tick))) - 3*tick)
		if rnd.IntN(3) > 0 {
			at = clock.Add(time.Duration(rnd.Int64N(int64(20*tick))) - 3*tick)
		}
		switch rnd.IntN(8) {
		case 0, 1, 2:
			w.Set(x, at)
			m.at[x], real[x] = m.due(at), at
		case 3, 4:
			w.SetEarlier(x, at)
			before := m.at[x]
			if m.setEarlier(x, at); m.at[x] != before {
				real[x] = at
			}
		case 5:
			w.Stop(x)
			delete(m.at, x)
		default:
			clock = clock.Add(step(rnd))
			advance(t, w, m, clock, real)
		}
		if len(m.at) != w.Len() {
			t.Fatal("Len is wrong")
		}
	}
	advance(t, w, m, clock.Add(4*slots*tick), real)
	require.Zero(t, w.Len())
}

// step is how far time goes at once: mostly a little, sometimes over a round, now and then back.
func step(rnd *rand.Rand) time.Duration {
	switch rnd.IntN(50) {
	case 0:
		return time.Duration(rnd.Int64N(int64(3 * slots * tick)))
	case 1:
		return slots * tick
	case 2:
		return -tick
	}
	return time.Duration(rnd.Int64N(int64(3 * tick)))
}

func advance(t *testing.T, w *Wheel[*device], m *model, now time.Time, real map[*device]time.Time) {
	t.Helper()
	next, ok := w.Next()
	require.Equal(t, len(m.at) > 0, ok)
	for _, at := range m.at {
		if next.After(at) {
			t.Fatal("Next is later than a deadline")
		}
	}
	if now.After(m.now) {
		m.now = now
	}
	last := time.Time{}
	for _, x := range w.Advance(now, nil) {
		at, armed := m.at[x]
		require.True(t, armed, "came without being armed, or twice")
		require.False(t, m.now.Before(real[x]), "early")
		require.False(t, at.Before(last), "out of order")
		last = at
		delete(m.at, x)
	}
	for x, at := range m.at {
		if !at.After(m.now) || m.now.Sub(real[x]) >= tick {
			t.Fatal("due and not returned")
		}
	}
}

func TestDeadlineInThePastIsDueAtOnce(t *testing.T) {
	w, x := New[*device](tick, epoch), &device{}
	now := epoch.Add(10 * tick)
	require.Empty(t, w.Advance(now, nil))
	w.Set(x, epoch.Add(-time.Hour))
	at, ok := w.Next()
	require.True(t, ok)
	require.False(t, at.After(now))
	require.Equal(t, []*device{x}, w.Advance(now, nil))
	require.Empty(t, w.Advance(now, nil))
	w.Set(x, now.Add(tick))
	at, _ = w.Next()
	require.True(t, at.After(now), "what was overdue keeps the driver awake")
}

func TestTimesFarAway(t *testing.T) {
	w, x := New[*device](time.Nanosecond, epoch), &device{}
	w.Set(x, epoch.AddDate(1000, 0, 0)) // further than a Duration reaches
	at, ok := w.Next()
	require.True(t, ok)
	require.True(t, at.After(epoch))
	require.Empty(t, w.Advance(epoch.AddDate(100, 0, 0), nil))
	w.Stop(x)
	w.Stop(x)
	require.Zero(t, w.Len())
}

// TestMemoryAfterBurst counts capacities: neither firing nor stopping leaves more behind than the small slots.
func TestMemoryAfterBurst(t *testing.T) {
	const n = 50_000
	devices := make([]device, n)
	end := map[string]func(w *Wheel[*device]){
		"fired":       func(w *Wheel[*device]) { require.Len(t, w.Advance(epoch.Add(5*tick), nil), n) },
		"fired late":  func(w *Wheel[*device]) { require.Len(t, w.Advance(epoch.Add(5*slots*tick), nil), n) },
		"all stopped": func(w *Wheel[*device]) { stop(w, devices) },
		"one remains": func(w *Wheel[*device]) { stop(w, devices[1:]) },
	}
	for name, end := range end {
		w := New[*device](tick, epoch)
		for i := range devices {
			w.Set(&devices[i], epoch.Add(time.Duration(i%5+1)*tick))
		}
		end(w)
		total := 0
		for _, s := range w.slots {
			total += cap(s)
		}
		require.LessOrEqual(t, total, slots*small, name)
		stop(w, devices)
	}
}

func TestSlotsLetGo(t *testing.T) {
	w, devices := New[*device](tick, epoch), make([]device, 4)
	for i := range devices {
		w.Set(&devices[i], epoch.Add(time.Duration(1+i%2*slots)*tick)) // one slot, two rounds
	}
	nothingLeft := func(armed int) {
		s := w.slots[1]
		require.Len(t, s, armed)
		for _, x := range s[len(s):cap(s)] {
			require.Nil(t, x, "the slot keeps what it no longer holds")
		}
	}
	require.Len(t, w.Advance(epoch.Add(tick), nil), 2)
	nothingLeft(2)
	w.Stop(&devices[1])
	nothingLeft(1)
}

func stop(w *Wheel[*device], devices []device) {
	for i := range devices {
		w.Stop(&devices[i])
	}
}

func TestSetAndStopDoNotAllocate(t *testing.T) {
	w, x, y := New[*device](tick, epoch), &device{}, &device{}
	w.Set(y, epoch.Add(tick))
	w.Set(x, epoch.Add(tick))
	w.Set(x, epoch.Add(2*tick))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w.Set(x, epoch.Add(tick))
		w.SetEarlier(x, epoch.Add(5*tick))
		w.Set(x, epoch.Add(2*tick))
		w.Stop(x)
	}))
}

// alarm is one call of fire.
type alarm struct {
	after time.Duration
	ids   []int
}

// pass lets time go by, and the driver do what it has to.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// drive runs a wheel in a synctest bubble, noting each call of fire and each look at the clock.
func drive(t *testing.T, play func(w *Wheel[*device], alarms *[]alarm, looks *int)) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := New[*device](tick, start)
		ctx, cancel := context.WithCancel(t.Context())
		var alarms []alarm
		looks, ended := 0, false
		go func() {
			w.Run(ctx, func() time.Time { looks++; return time.Now() }, func(now time.Time, due []*device) {
				a := alarm{after: now.Sub(start)}
				for _, x := range due {
					a.ids = append(a.ids, x.id)
				}
				alarms = append(alarms, a)
				if x := due[0]; x.id == 99 && len(alarms) < 5 { // a heartbeat
					w.Set(x, now.Add(time.Second))
				}
			})
			ended = true
		}()
		synctest.Wait()
		play(w, &alarms, &looks)
		cancel()
		synctest.Wait()
		require.True(t, ended, "Run goes on after ctx has ended")
	})
}

func TestRunWakesForAnEarlierDeadline(t *testing.T) {
	drive(t, func(w *Wheel[*device], alarms *[]alarm, _ *int) {
		late, soon := &device{id: 1}, &device{id: 2}
		w.Set(late, time.Now().Add(30*time.Second))
		synctest.Wait()
		w.Set(soon, time.Now().Add(2*time.Second-time.Millisecond))
		pass(time.Minute)
		require.Equal(t, []alarm{{2 * time.Second, []int{2}}, {30 * time.Second, []int{1}}}, *alarms)
	})
}

func TestRunFiresAtOnceWhatIsOverdue(t *testing.T) {
	drive(t, func(w *Wheel[*device], alarms *[]alarm, _ *int) {
		w.Set(&device{id: 1}, time.Now().Add(time.Second))
		pass(time.Second)
		w.Set(&device{id: 2}, time.Now().Add(-time.Hour))
		synctest.Wait()
		require.Equal(t, []alarm{{time.Second, []int{1}}, {time.Second, []int{2}}}, *alarms)
	})
}

func TestRunBeyondARound(t *testing.T) {
	drive(t, func(w *Wheel[*device], alarms *[]alarm, looks *int) {
		w.Set(&device{id: 1}, time.Now().Add(10*slots*tick+tick/2))
		pass(24 * time.Hour)
		require.Equal(t, []alarm{{10*slots*tick + tick, []int{1}}}, *alarms)
		require.Less(t, *looks, 30, "woken more than once a round")
	})
}

func TestRunArmsAgainInsideFire(t *testing.T) {
	drive(t, func(w *Wheel[*device], alarms *[]alarm, _ *int) {
		w.Set(&device{id: 99}, time.Now().Add(time.Second))
		pass(time.Hour)
		require.Len(t, *alarms, 5)
		require.Equal(t, 5*time.Second, (*alarms)[4].after)
	})
}

func TestRunSleepsWhileNothingIsArmed(t *testing.T) {
	drive(t, func(w *Wheel[*device], alarms *[]alarm, looks *int) {
		pass(24 * time.Hour)
		require.Zero(t, *looks)
		x := &device{id: 1}
		w.Set(x, time.Now().Add(time.Hour))
		synctest.Wait()
		w.Stop(x)
		pass(2 * time.Hour)
		before := *looks
		pass(24 * time.Hour)
		require.Equal(t, before, *looks)
		require.Empty(t, *alarms)
	})
}

func TestRunFiresNothingAfterItsContext(t *testing.T) {
	w := New[*device](tick, epoch)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		w.Set(&device{}, epoch)
		w.Run(ctx, func() time.Time { return epoch }, func(time.Time, []*device) { t.Error("fired") })
	}
}

// TestConcurrentUse lets four goroutines arm and stop while Run fires; in the end every device fires once more.
func TestConcurrentUse(t *testing.T) {
	w := New[*device](time.Millisecond, time.Now())
	devices := make([]*device, 500)
	for i := range devices {
		devices[i] = &device{id: i}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var last sync.WaitGroup
	var ending atomic.Bool
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		w.Run(ctx, time.Now, func(now time.Time, due []*device) {
			for _, x := range due {
				if !ending.Load() {
					w.SetEarlier(x, now.Add(time.Millisecond))
				} else if x.fired.Add(1) == 1 {
					last.Done()
				}
			}
		})
	}()
	var users sync.WaitGroup
	for g := range 4 {
		users.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for range 5_000 {
				x, at := devices[rnd.IntN(len(devices))], time.Now().Add(time.Duration(rnd.IntN(5))*time.Millisecond)
				switch rnd.IntN(3) {
				case 0:
					w.Set(x, at)
				case 1:
					w.SetEarlier(x, at)
				case 2:
					w.Stop(x)
				}
			}
		})
	}
	users.Wait()
	last.Add(len(devices))
	ending.Store(true)
	for _, x := range devices {
		w.Set(x, time.Now())
	}
	last.Wait()
	cancel()
	<-ran
	for slot, s := range w.slots {
		for i, x := range s {
			require.Equal(t, int32(i+1), x.pos)
			require.Equal(t, int64(slot), x.tick%slots)
		}
	}
}
