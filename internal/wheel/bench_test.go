package wheel

import (
	"runtime"
	"testing"
	"time"
	"unsafe"
)

const million = 1_000_000

func fleet() []device {
	devices := make([]device, million)
	for i := range devices {
		devices[i].id = i
	}
	return devices
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkSet moves one of a million armed devices; B/item is what an armed device costs, Item included.
func BenchmarkSet(b *testing.B) {
	w, devices := New[*device](tick, epoch), fleet()
	before := heap()
	for i := range devices {
		w.Set(&devices[i], epoch.Add(time.Duration(i%500+1)*tick))
	}
	perItem := float64(heap()-before)/million + float64(unsafe.Sizeof(Item{}))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		w.Set(&devices[i%million], epoch.Add(time.Duration((i+i/million)%500+1)*tick))
		i += 7919
	}
	b.ReportMetric(perItem, "B/item")
	runtime.KeepAlive(devices)
}

// BenchmarkAdvance is one tick of a million devices that are due every 50 s and armed again at once.
func BenchmarkAdvance(b *testing.B) {
	w, devices := New[*device](tick, epoch), fleet()
	for i := range devices {
		w.Set(&devices[i], epoch.Add(time.Duration(i%500+1)*tick))
	}
	var due []*device
	now, fired := epoch, 0
	for b.Loop() {
		now = now.Add(tick)
		due = w.Advance(now, due[:0])
		for _, x := range due {
			w.Set(x, now.Add(500*tick))
		}
		fired += len(due)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(fired), "ns/item")
	runtime.KeepAlive(devices)
}
