// Package bench is the yardstick of mobilegate: what a device, a turn, a burst and a fault cost. It holds tests and benchmarks
// only. The tests are gates on small fleets; the benchmarks take the figures that are promised, and fail over the same limits.
//
//	go test ./bench                                           the gates, about three minutes
//	go test ./bench -run '^$' -bench . -benchtime 1x          the figures, about six minutes
//	go test ./bench -run '^$' -bench Paced -benchtime 1x -count 10
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
// Every benchmark is one measurement, whatever -benchtime says; its ns/op means nothing and is left out.
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
// BenchmarkPacedTurn: 2 000 turns a second over 2 000 devices for 5 s, once with the gateway on one processor and the devices
// on the other, once without. A latency counts from when the turn was due, so a turn that waits behind a slow one is not
// left out. Processor time is utime + stime of the process, to 10 ms; switches of contexts are summed over its threads and
// repeat within a few percent where times vary by a quarter.
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
