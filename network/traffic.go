package network

import "sync/atomic"

// Traffic counts a listener's requests and answers and their bytes: whole frames, before encryption. Messages of logins
// are not counted. Safe for concurrent use.
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
