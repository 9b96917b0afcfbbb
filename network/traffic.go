package network

import "sync/atomic"

// Traffic counts the requests that have come over the connections of a listener, and the answers to them, with their bytes: of
// whole frames, as they are before encryption. What belongs to a login is not counted. Safe for concurrent use.
type Traffic struct {
	Requests, BytesIn atomic.Int64
	Answers, BytesOut atomic.Int64
}

func (t *Traffic) received(bytes int) {
	t.Requests.Add(1)
	t.BytesIn.Add(int64(bytes))
}

func (t *Traffic) answered(bytes int64) {
	t.Answers.Add(1)
	t.BytesOut.Add(bytes)
}
