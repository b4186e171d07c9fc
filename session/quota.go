package session

import "time"

// Quota are the rates at which devices may send, and what a burst may be on top; all of them by default in DefaultQuota.
// A device, all devices of one token, and all of one client address are counted apart: device ids are the clients' to choose.
type Quota struct {
	Device, Token, Address Rate
	ErrorsASecond          int // of one device; more close its connection (spec 2)
	TakeOversAMinute       int // of links that were alive; more are refused (spec 1)
	FailedHellosAMinute    int // of one client address; more are refused without a look
}

// Rate is how much may come in the long run, and at once.
type Rate struct {
	FramesASecond, BytesASecond int
	BurstFrames, BurstBytes     int
}

// DefaultQuota is met by no person and by every runaway loop. The burst of a device is agreed in spec 10.
var DefaultQuota = Quota{
	Device:              Rate{FramesASecond: 50, BytesASecond: 2 << 20, BurstFrames: 4000, BurstBytes: 32 << 20},
	Token:               Rate{FramesASecond: 200_000, BytesASecond: 1 << 30, BurstFrames: 4_000_000, BurstBytes: 16 << 30},
	Address:             Rate{FramesASecond: 5000, BytesASecond: 128 << 20, BurstFrames: 200_000, BurstBytes: 2 << 30},
	ErrorsASecond:       20,
	TakeOversAMinute:    5,
	FailedHellosAMinute: 60,
}

const minute = 60 // seconds

// recent is what is remembered of a device's recent past, also while it is offline: it belongs to the device, not to a
// connection. It exists only while there is something to remember.
type recent struct {
	dedup
	deliveries *dedup // their own window (spec 9)
	usage
	errors    counter // of this second
	takeOvers counter // of this minute
}

// usage is what was used of a Rate.
type usage struct{ frames, bytes bucket }

// bucket limits a rate, as the time at which it is full again: in the past for most devices.
type bucket struct{ full time.Duration }

// take takes n of what refills at perSecond and holds burst; if that is too much it takes nothing and says when it is not.
func (b *bucket) take(n, perSecond, burst int, now time.Duration) (wait time.Duration) {
	full := max(b.full, now) + span(n, perSecond)
	if over := full - now - span(burst, perSecond); over > 0 && b.full > now { // one alone is never too much
		return over
	}
	b.full = full
	return 0
}

// span is how long n take at a rate.
func span(n, perSecond int) time.Duration {
	return time.Duration(float64(n) / float64(perSecond) * float64(time.Second))
}

// counter counts within a span of seconds that begins with the first.
type counter struct {
	since uint32
	n     uint16
}

// over counts one more and tells whether that is more than limit within span seconds.
func (c *counter) over(limit uint16, span, second uint32) bool {
	if c.n == 0 || second-c.since >= span {
		c.since, c.n = second, 0
	}
	c.n = min(c.n, limit) + 1
	return c.n > limit
}

// charge takes one frame of so many bytes from what the rate allows; wait is how long until there is room for it.
func (u *usage) charge(rate *Rate, bytes int, now time.Duration) (wait time.Duration) {
	if wait = u.frames.take(1, rate.FramesASecond, rate.BurstFrames, now); wait == 0 {
		wait = u.bytes.take(bytes, rate.BytesASecond, rate.BurstBytes, now)
	}
	return wait
}

// restOf is how much longer than for this one frame it takes until there is room for all parts of its file: an application
// that sends the whole of it again, and not what was refused alone, would else be refused for ever.
func restOf(rate *Rate, parts, bytes int) time.Duration {
	return max(0, span(min((parts-1)*bytes, rate.BurstBytes-bytes), rate.BytesASecond))
}

// over tells whether nothing is left to remember.
func (r *recent) over(now time.Duration, second uint32) bool {
	r.expire(second)
	if r.deliveries != nil {
		if r.deliveries.expire(second); r.deliveries.empty() {
			r.deliveries = nil
		}
	}
	return r.empty() && r.deliveries == nil && r.frames.full <= now && r.bytes.full <= now && second-r.takeOvers.since >= minute
}

// forget lets go of all that is counted for all devices together.
func (r *recent) forget() {
	r.dedup.forget()
	if r.deliveries != nil {
		r.deliveries.forget()
	}
}

// left is how long something of it is remembered at least.
func (r *recent) left(second uint32) time.Duration {
	left := uint32(minute)
	if !r.empty() {
		left = dedupSeconds - (second - r.oldest())
	}
	if r.deliveries != nil && !r.deliveries.empty() {
		left = min(left, dedupSeconds-(second-r.deliveries.oldest()))
	}
	return time.Duration(left) * time.Second
}
