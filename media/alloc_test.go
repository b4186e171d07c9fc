package media

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// allocated is what f asks of the allocator on one run.
func allocated(f func()) (bytes, count uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // else the collector may empty the pool meanwhile
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
}

// With warm slabs, a file of any size costs its File, the list of its pieces and less than a slab at its end.
func TestAllocations(t *testing.T) {
	if watched {
		t.Skip("the race detector makes sync.Pool drop what it gets, and the check of owners allocates")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one pool, not one for each processor
	for _, text := range []string{b64(0, 1<<20), lines(b64(0, 1<<20)), b64(0, eight)} {
		decode := func() {
			f, err := Decode(text, eight, nil)
			if err != nil {
				t.Error(err)
				return
			}
			f.Release()
		}
		decode()
		bytes, count := allocated(decode)
		require.LessOrEqual(t, count, uint64(3), "the File, the list, and a last piece that is small")
		require.LessOrEqual(t, bytes, uint64(256+overhead*pieces(len(text)*3/4)))
	}
	bad := b64(0, 1<<20) + "*"
	bytes, _ := allocated(func() { Decode(bad, eight, nil) })
	require.Less(t, bytes, uint64(2048), "what is refused costs nothing")

	dst := make([]byte, 0, 2<<20)
	require.Zero(t, testing.AllocsPerRun(10, func() { AppendBase64(dst, content[:1<<20]) }))
}

// The smallest parts cost their bytes and little else, and the budget knows what they cost.
func TestSmallParts(t *testing.T) {
	budget := NewBudget(1 << 20)
	u := Uploads{Budget: budget}
	data := b64(0, 10)
	bytes, _ := allocated(func() {
		for part := range 2047 {
			if _, err := u.Add(&Part{ID: "1", Kind: "document", Part: part, Parts: 2048, Data: data}, 0); err != nil {
				t.Error(err)
			}
		}
	})
	require.Less(t, budget.Used(), int64(160<<10))
	require.Less(t, bytes, uint64(384<<10), "the list that grows included")
	u.Free()
	require.Zero(t, budget.Used())
}

// An idle device pays for a few words.
func TestEmptyUploadsAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Uploads{}), uintptr(48))
	var u Uploads
	require.Zero(t, testing.AllocsPerRun(10, func() {
		u.Free()
		u.Expire(1)
	}))
	require.LessOrEqual(t, unsafe.Sizeof(File{}), uintptr(fileBytes))
	require.LessOrEqual(t, unsafe.Sizeof(upload{})+2*unsafe.Sizeof(u.open[0]), uintptr(uploadBytes))
	require.LessOrEqual(t, 2*unsafe.Sizeof(piece{}), uintptr(overhead))
}

// A voice message of 1 MiB of base64, from the frame's data to a File, against what a usual server does.
func BenchmarkVoice(b *testing.B) {
	text := b64(0, 768<<10)
	frame := fmt.Appendf(nil, `{"t":"audio","id":"1","format":"ogg","data":%q}`, text)
	for name, decode := range map[string]func() error{
		"mobilegate": func() error {
			f, err := Decode(text, eight, nil)
			f.Release()
			return err
		},
		"lines": func() func() error {
			text := lines(text)
			return func() error {
				f, err := Decode(text, eight, nil)
				f.Release()
				return err
			}
		}(),
		"std": func() error {
			_, err := base64.StdEncoding.DecodeString(text)
			return err
		},
		"json": func() error {
			var in struct{ Data []byte }
			return json.Unmarshal(frame, &in)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendBase64(b *testing.B) {
	dst := make([]byte, 0, 2<<20)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		AppendBase64(dst, content[:1<<20])
	}
}
