package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only while all messages together take little, one is made room for before it has come; else it costs what came, and who
// announces much and stops keeps nobody out. This test runs alone: see TestInboundBudget.
func TestRoomAheadWhilePlenty(t *testing.T) {
	before := large.Load()
	s, _ := bare(t, Config{MaxInbound: plenty * (before + 5<<20)}, newDesk())
	begin := announce(fin|dataOp, 8, 1<<20, strings.Repeat("x", 100<<10))
	ready, took := 0, before
	for range 20 {
		l, _ := ownedBy(t, s, func(p *owner) { p.message = func(_ Conn, b *Buffer) { PutMessage(b) } })
		l.takes(begin, func(int) int { return 64 << 10 })
		if cap(l.in.message.B) >= 1<<20 {
			ready++
		} else {
			require.LessOrEqual(t, cap(l.in.message.B), 2*len(begin))
		}
		took += int64(cap(l.in.message.B))
		require.Equal(t, took, large.Load())
		defer func() {
			l.takes([]byte(strings.Repeat("x", 1<<20-100<<10)), func(int) int { return 64 << 10 })
			require.Nil(t, l.in, "the rest still fits")
		}()
	}
	require.Equal(t, 5, ready)
	holdsWhatCame(t, s, announce(fin|dataOp, 8, 16<<20, strings.Repeat("x", 300_000)), 10_000, 2)
}

// Every capacity has a pool of its own, and wastes an eighth at most.
func TestSpares(t *testing.T) {
	t.Parallel()
	seen := map[any]int{}
	for size := minSpare + 1; size <= maxSpare; size += 997 {
		n, spare := spareFor(size)
		require.GreaterOrEqual(t, n, size)
		require.LessOrEqual(t, n, size+size/8)
		again, same := spareFor(n)
		require.Equal(t, n, again)
		require.Same(t, spare, same)
		if is, known := seen[spare]; known {
			require.Equal(t, is, n)
		}
		seen[spare] = n
	}
	require.Len(t, seen, len(spares))
	n, spare := spareFor(maxSpare + 1)
	require.Zero(t, n)
	require.Nil(t, spare)
}

// A message leaves the buffer that it lay in to the next one.
func TestLargeMessageAllocates(t *testing.T) {
	if raceEnabled || ownersChecked {
		t.Skip("this build allocates for its checks")
	}
	s, _ := bare(t, Config{}, newDesk())
	l, _ := ownedBy(t, s, func(p *owner) { p.message = func(_ Conn, b *Buffer) { PutMessage(b) } })
	for _, size := range []int{10 << 10, 100 << 10, 1 << 20, maxSpare} {
		frame := text(strings.Repeat("x", size))
		require.Zero(t, testing.AllocsPerRun(20, func() { l.takes(frame, func(int) int { return 64 << 10 }) }), size)
		require.Nil(t, l.in)
	}
}
