package quota

import "time"

// bucket is a token bucket: it fills at the rate of the limit, up to the amount that all windows allow, and may be
// overdrawn once (TokenBucket, 3.9; KIP-599).
type bucket struct {
	tokens float64
	last   time.Time
}

func newBucket(bound float64, w Windows, now time.Time) *bucket {
	return &bucket{tokens: burst(bound, w), last: now}
}

func burst(bound float64, w Windows) float64 {
	return bound * (time.Duration(w.Count) * w.Size).Seconds()
}

func (b *bucket) fill(bound float64, w Windows, now time.Time) {
	b.tokens = min(b.tokens+bound*now.Sub(b.last).Seconds(), burst(bound, w))
	b.last = now
}

// wait returns how long it takes until the bucket is no longer overdrawn.
func (b *bucket) wait(bound float64) time.Duration {
	if b.tokens >= 0 {
		return 0
	}
	return millis(-b.tokens / bound * 1000)
}

// full reports whether a bucket would be as full as a new one.
func (b *bucket) full(bound float64, w Windows, now time.Time) bool {
	return b.tokens+bound*now.Sub(b.last).Seconds() >= burst(bound, w)
}
