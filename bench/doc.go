// Package bench is the yardstick of mobilegate: what a device, a turn, a burst and a fault cost. It holds tests and benchmarks
// only. The tests are gates on small fleets; the benchmarks take the figures that are promised, and fail over the same limits.
// bench/baseline, a module of its own, is a server of the same protocol written the usual way, to compare with.
//
//	make bench                       the table: every figure with a goal, beside the baseline; docs/performance.md
//	make bench TABLE=quick           the same in under five minutes; make bench-ci writes bench.json too
//	make bench-compare BASE=main     the same for this tree and another commit
//
//	go test ./bench                                           the gates, about four minutes
//	go test ./bench -run '^TestTable$/paced' -v -args -table quick      some lines of the table
//	go test ./bench -run '^$' -bench 'Idle|Burst|Turn$|Paced|Saturated|Faults|Fanout|Hoard' -benchtime 1x      the measurements below
//	go test ./bench -run '^$' -bench 'code|Frames|Base64|Whole|Connect'      one step of a frame's way each, about a minute
//
// They skip under -race, which changes all that is measured, and with -short. They need Linux, two processors, 20 000
// descriptors for each process (ulimit -n) and, for one cross-check, strace; all traffic is on loopback.
//
// # How it is measured
//
// The gateway is the binary itself: built once, started as `mobilegate serve` in a process of its own with its default
// settings, and stopped by SIGTERM; an error in its log, or a bad exit, fails the test. The devices are in processes of their
// own too (fleet_test.go runs the test binary again as a crowd: crowd_test.go, device_test.go, orders_test.go), with an own
// small client on one epoll descriptor. A device has an id of 36 characters, said hello and had one echo turn, whose end
// (typing stop) it read; it answers pings. A result in which a turn had no reply, or a device was lost, fails.
//
// A benchmark of what is below is one measurement, whatever -benchtime says; its ns/op means nothing and is left out. Those of
// one step of the way (decode_test.go, encode_test.go, framing_test.go, base64_test.go, wholeturn_test.go, hello_test.go) are
// ordinary ones.
//
// # The table
//
// TestTable (table_test.go) runs mobilegate and the baseline at the same time and measures them in turn, in short windows, the
// first of a pair changing from pair to pair (pairs_test.go): what else happens on the machine befalls both. For processor time
// the server has one processor and its devices the other. It prints the median of the windows, the median of the ratios pair by
// pair, and their spread without the lowest and the highest. Before that both must say the same (phone_test.go), word by word,
// to a device that does everything that is measured. It fails when something goes wrong, not when a goal is missed.
//
// # What is measured
//
// BenchmarkIdleDevice, TestIdleDevice: an idle device, as the slope between two sizes of one fleet, so that what the process
// costs by itself is not in it. RSS is that of /proc/PID/smaps_rollup, which is exact to the page, once it has been the same
// for 11 s: the gateway gives memory back after up to 10 quiet seconds. Heap and goroutines are those of a gateway inside
// the test's process. At most 1 000 B of RSS.
//
//	RSS-B/device  anonymous-B/device  heap-B/device  threads, goroutines (that came with the larger fleet)
//
// BenchmarkBurst, TestBurst: every one of 2 000 idle devices sends a text frame of 64 KiB. What is left 30 s later over what
// was there before, for each device: at most 500 B of RSS.
//
//	RSS-B-behind/device  RSS-B-at-once/device (right after the burst)
//
// BenchmarkTurn, TestTurn: allocations and writes of one echo turn, and of one whose frame has 64 KiB, over 5 000 and 1 000
// turns of 100 devices, after 150 000 turns have brought all pools into their steady state. Allocations are
// runtime.MemStats.Mallocs of this process, in which the gateway then is and its devices are not. Writes are TCP data segments
// that arrive (TCP_INFO): on loopback each write of a small frame is one, and TestTurnWritesBySystemCall compares that with
// strace. The avatar's frame 3 s after a turn is not counted. At most two writes.
//
//	allocs/turn  B/turn  writes/turn  allocs/64K-turn  B/64K-turn  writes/64K-turn  heap-B-behind/device
//
// TestVoice: allocations and bytes of a voice frame of 1 MiB that is echoed: nothing of its size.
//
// BenchmarkFanout, TestFanout: a device with a deliver token delivers a text to each of 1 000 others, one frame after the other.
// Every one must hear it. Processor time, writes and allocations are those of one delivery; the writes to the sender, who is
// told of many at once, apart.
//
//	cpu-us/delivery  writes/delivery  sender-writes/delivery  allocs, B (TestFanout)
//
// BenchmarkHoard, TestHoard: devices that send half of a frame of 64 KiB or 1 MiB and stop. Until they are given up each may
// cost 2.5 B of RSS for each byte that came; within 80 s all are closed with 1013 and the memory is back, as after faults.
//
//	RSS-B-held/device  s-until-given-up  s-until-memory-back
//
// TestHello: allocations, bytes and writes of a device that comes for the first time: accept, upgrade, hello, ready.
//
// BenchmarkPacedTurn: 2 000 turns a second over 2 000 devices for 5 s, once with the gateway on one processor and the devices
// on the other, once without. A latency counts from when the turn was due, so a turn that waits behind a slow one is not
// left out. Processor time is that of the process's clock, in nanoseconds; switches of contexts are summed over its threads and
// repeat within a few percent where times vary by a quarter. TestPacedTurn holds the voluntary ones to three a turn.
// TestStorm holds them to one for each device of a fleet of 12 000 that comes at once.
//
//	turns/s  cpu-us/turn  switches/turn  p50-us  p99-us
//
// BenchmarkSaturatedTurn: the same figures while 200 devices ask again as soon as they are answered.
//
// BenchmarkFaults, TestFaults: 1 000 devices each are killed, stop in the middle of a frame, send one byte a second, and ask
// for 200 000 characters and read nothing. Meanwhile 200 others have a turn each second. In every 5 s their p99 stays within
// twice what it was before, or twice that of a control at the same time: as many devices of a second gateway to which nothing
// happens, since the machine is shared. Below 5 ms (25 ms in the small test) it counts as noise, and 5 s in which the control
// itself has more than 5 ms are not judged. None of the 200 is lost. Within 60 s every faulty connection is given up and the
// memory is back, but for 1 000 B of each device and 4 MiB of the process.
//
//	p99-us-before  p99-us-worst  p99-us-control (in the worst 5 s)  unjudged-phases  s-until-given-up  s-until-memory-back
package bench
