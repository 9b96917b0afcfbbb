package logx

import (
	"testing"
	"time"
)

func TestTallySumsUpWhatOverlaps(t *testing.T) {
	var tally Tally
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	tally.Begin(at(1))
	tally.Begin(at(2))
	if sum, done := tally.End(at(3), true, 5); done {
		t.Errorf("one operation is still running, but the sum %+v is returned", sum)
	}
	tally.Begin(at(4))
	tally.End(at(5), false, 0)
	if sum, done := tally.End(at(6), true, 7); !done || sum != (Sum{Times: 2, Count: 12, Took: 5 * time.Second}) {
		t.Errorf("%+v, %v", sum, done)
	}
	tally.Begin(at(10))
	if sum, done := tally.End(at(11), true, 1); !done || sum != (Sum{Times: 1, Count: 1, Took: time.Second}) {
		t.Errorf("the next burst: %+v, %v", sum, done)
	}
	tally.Begin(at(20))
	if _, done := tally.End(at(21), false, 0); done {
		t.Error("no exchange has succeeded")
	}
}
