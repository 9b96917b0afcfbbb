package status

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// watched is a Board with readings that the test changes and a clock that it advances.
type watched struct {
	*Board
	reading Reading
	now     time.Time
	reads   int
}

func watch() *watched {
	w := &watched{now: time.UnixMilli(1_790_000_000_000)}
	w.Board = NewBoard(func(context.Context) Reading { w.reads++; return w.reading }, func() time.Time { return w.now })
	return w
}

func (w *watched) after(t *testing.T, d time.Duration) Snapshot {
	t.Helper()
	w.now = w.now.Add(d)
	var s Snapshot
	if err := json.Unmarshal(w.JSON(t.Context()), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRatesAndHistories(t *testing.T) {
	w := watch()
	w.reading = Reading{Topics: []TopicCounts{{Name: "a"}}, Groups: []GroupLag{{Name: "g", Lag: 10}}}
	w.after(t, 0)
	w.reading.Traffic = Traffic{BytesIn: 5000, BytesOut: 500, MessagesIn: 50}
	w.reading.Topics[0].Traffic = Traffic{BytesIn: 5000}
	w.reading.Groups[0].Lag = 20
	s := w.after(t, 5*time.Second)
	if s.Rates != (Rates{1000, 100, 10}) || s.Topics[0].Rates.BytesIn != 1000 {
		t.Errorf("rates %v, of the topic %v", s.Rates, s.Topics[0].Rates)
	}
	if fmt.Sprint(s.BytesIn, s.Groups[0].History) != "[0 1000] [10 20]" {
		t.Errorf("histories %v, %v", s.BytesIn, s.Groups[0].History)
	}
	w.reading.Topics[0].Traffic = Traffic{} // the topic was deleted and created again
	if s = w.after(t, 5*time.Second); s.Topics[0].Rates.BytesIn != 0 {
		t.Errorf("a new topic has a rate of %v bytes per second", s.Topics[0].Rates.BytesIn)
	}
	for range 2 * points {
		s = w.after(t, 5*time.Second)
	}
	if len(s.BytesIn) != points || len(s.Groups[0].History) != points {
		t.Errorf("histories of %d and %d points", len(s.BytesIn), len(s.Groups[0].History))
	}
	w.reading.Groups = nil
	if w.after(t, 5*time.Second); len(w.mu.groups) != 0 {
		t.Errorf("%d histories of removed groups are kept", len(w.mu.groups))
	}
}

// TestWatchersShareAReading: however often the page is requested, the broker is read once a second, and a history gets
// no additional points.
func TestWatchersShareAReading(t *testing.T) {
	w := watch()
	for range 100 {
		w.after(t, 20*time.Millisecond)
	}
	if w.reads > 3 || len(w.mu.total[0]) != 1 {
		t.Errorf("%d readings, %d points within 2 s", w.reads, len(w.mu.total[0]))
	}
}

// TestWatchersOfASlowReading: those that have waited for a reading get it, however long it has taken.
func TestWatchersOfASlowReading(t *testing.T) {
	now, reads := time.UnixMilli(1_790_000_000_000), 0
	b := NewBoard(func(context.Context) Reading { reads++; now = now.Add(3 * time.Second); return Reading{} }, func() time.Time { return now })
	for range 10 {
		b.JSON(t.Context())
	}
	if reads != 1 {
		t.Errorf("%d readings", reads)
	}
}

// TestLimits: for a large cluster the amount shown is limited, and what is left out is counted.
func TestLimits(t *testing.T) {
	w := watch()
	for i := range 10000 {
		name := fmt.Sprintf("name-%05d", i)
		w.reading.Topics = append(w.reading.Topics, TopicCounts{Name: name})
		w.reading.Groups = append(w.reading.Groups, GroupLag{Name: name, Lag: int64(i)})
		w.reading.Reassignments = append(w.reading.Reassignments, Reassignment{Topic: name})
	}
	w.reading.Topics[7777].UnderReplicated = 1
	w.reading.GroupsUnread = 5
	s := w.after(t, 0)
	if len(s.Topics) != topicsShown || s.TopicsLeft != 10000-topicsShown || s.Topics[0].Name != "name-07777" {
		t.Errorf("%d topics and %d left out, the first %s", len(s.Topics), s.TopicsLeft, s.Topics[0].Name)
	}
	if len(s.Groups) != groupsShown || s.GroupsLeft != 10005-groupsShown || s.Groups[0].Lag != 9999 || len(w.mu.groups) != groupsKept {
		t.Errorf("%d groups and %d left out, the first with lag %d, %d kept", len(s.Groups), s.GroupsLeft, s.Groups[0].Lag, len(w.mu.groups))
	}
	if len(s.Moves) != reassignmentsShown || s.MovesLeft != 10000-reassignmentsShown {
		t.Errorf("%d reassignments and %d left out", len(s.Moves), s.MovesLeft)
	}
	if size := len(w.mu.last); size > 100<<10 {
		t.Errorf("%d bytes", size)
	}
}

// TestPageIsClosed checks what keeps names chosen by clients from being interpreted as markup or script.
func TestPageIsClosed(t *testing.T) {
	get := func(h http.Handler) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w
	}
	html := get(Page())
	if p := html.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || !strings.Contains(p, "script-src 'sha256-") {
		t.Errorf("policy %q", p)
	}
	for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://", "src="} {
		if strings.Contains(html.Body.String(), forbidden) {
			t.Errorf("the page contains %s", forbidden)
		}
	}
	w := watch()
	w.reading.Groups = []GroupLag{{Name: "</script><b>"}}
	answer := get(w.Board)
	if answer.Header().Get("X-Content-Type-Options") != "nosniff" || strings.Contains(answer.Body.String(), "<") {
		t.Errorf("%v %s", answer.Header(), answer.Body)
	}
}

// TestRefreshedBoard: a request after Refresh sees the change, however recent the last reading is.
func TestRefreshedBoard(t *testing.T) {
	state := "starting"
	b := NewBoard(func(context.Context) Reading { return Reading{Broker: Broker{State: state}} }, func() time.Time { return time.UnixMilli(1) })
	shown := func() string { return string(b.JSON(t.Context())) }
	if s := shown(); !strings.Contains(s, `"state":"starting"`) {
		t.Error(s)
	}
	state = "running"
	if s := shown(); !strings.Contains(s, `"state":"starting"`) {
		t.Error("a reading is not cached:", s)
	}
	b.Refresh()
	if s := shown(); !strings.Contains(s, `"state":"running"`) {
		t.Error(s)
	}
}
