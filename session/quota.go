package session

import "time"

// Rates of one device. A burst as agreed in spec 10 is always taken; what they allow in the long run no person meets.
const (
	burstFrames    = 4000
	burstBytes     = 32 << 20
	framesASecond  = 50
	bytesASecond   = 2 << 20
	errorsASecond  = 20 // more close the connection (spec 2)
	takeOvers      = 5  // more within takeOverWindow are refused (spec 1)
	takeOverWindow = 60 // seconds
)

// recent is what is remembered of a device's recent past, also while it is offline: it belongs to the device, not to a
// connection. It exists only while there is something to remember.
type recent struct {
	dedup
	deliveries    *dedup // their own window (spec 9)
	frames, bytes bucket
	errors        counter // of this second
	takeOvers     counter // of this minute
}

// bucket limits a rate, as the time at which it is full again: in the past for most devices.
type bucket struct{ full time.Duration }

// take takes n of what refills at perSecond and holds burst; if that is too much it takes nothing and says when it is not.
func (b *bucket) take(n, perSecond, burst int, now time.Duration) (wait time.Duration) {
	full := max(b.full, now) + time.Duration(n)*time.Second/time.Duration(perSecond)
	if over := full - now - time.Duration(burst)*time.Second/time.Duration(perSecond); over > 0 {
		return over
	}
	b.full = full
	return 0
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

// charge takes one frame of so many bytes from the device's quota; wait is how long until there is room for it.
func (r *recent) charge(bytes int, now time.Duration) (wait time.Duration) {
	if wait = r.frames.take(1, framesASecond, burstFrames, now); wait == 0 {
		wait = r.bytes.take(bytes, bytesASecond, burstBytes, now)
	}
	return wait
}

// over tells whether nothing is left to remember.
func (r *recent) over(now time.Duration, second uint32) bool {
	r.expire(second)
	if r.deliveries != nil {
		if r.deliveries.expire(second); r.deliveries.empty() {
			r.deliveries = nil
		}
	}
	return r.empty() && r.deliveries == nil && r.frames.full <= now && r.bytes.full <= now && second-r.takeOvers.since >= takeOverWindow
}

// left is how long something of it is remembered at least.
func (r *recent) left(second uint32) time.Duration {
	left := uint32(takeOverWindow)
	if !r.empty() {
		left = dedupSeconds - (second - r.oldest())
	}
	if r.deliveries != nil && !r.deliveries.empty() {
		left = min(left, dedupSeconds-(second-r.deliveries.oldest()))
	}
	return time.Duration(left) * time.Second
}
