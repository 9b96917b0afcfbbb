package quota

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"
)

// clock is a clock that a test advances.
type clock struct{ now time.Time }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

func newTest() (*Manager, *clock) {
	c := &clock{time.Unix(1_790_000_000, 0)}
	w := Windows{Count: 11, Size: time.Second}
	return NewManager(Config{Clients: w, Controller: w, Now: func() time.Time { return c.now }}), c
}

// TestThrottleTimes compares throttle times with those that Apache Kafka 3.9.2 returned, for batches of 20 kB under a
// limit of 1,000 bytes per second.
func TestThrottleTimes(t *testing.T) {
	m, c := newTest()
	m.Set(Entity{User: Named("u")}, Limits{Produce: 1000})
	for i, step := range []struct{ after, want time.Duration }{
		{0, 10 * time.Second},
		{10300 * time.Millisecond, 29700 * time.Millisecond},
		{30 * time.Second, 10 * time.Second},
	} {
		c.pass(step.after)
		if got := m.Charge(Produce, "u", "c", 20_000); got != step.want {
			t.Errorf("produce %d is held back for %v, want %v", i+1, got, step.want)
		}
	}
	if m.Charge(Fetch, "u", "c", 1e9) != 0 || m.Charge(Produce, "v", "c", 1e9) != 0 {
		t.Error("throttled without a limit")
	}
}

// TestSteadyClientSettlesAtItsLimit: averaged over whole rounds of windows, the rate is the limit. Within a round a
// client may use up the allowance of all windows at once, and then has to wait.
func TestSteadyClientSettlesAtItsLimit(t *testing.T) {
	const limit, round = 1_000_000, 11 * time.Second
	for _, size := range []int{1 << 10, 16 << 10, 64 << 10, 1 << 20} {
		m, c := newTest()
		m.Set(Entity{Client: DefaultName}, Limits{Produce: limit})
		send := func(during time.Duration) (sent float64) {
			for end := c.now.Add(during); c.now.Before(end); sent += float64(size) {
				c.pass(time.Duration(size)*time.Nanosecond + m.Charge(Produce, "u", "c", float64(size)))
			}
			return sent
		}
		send(5 * round / 2)
		began := c.now
		sent := send(10 * round)
		if rate := sent / c.now.Sub(began).Seconds(); math.Abs(rate-limit) > limit/20 {
			t.Errorf("in pieces of %d bytes: %.0f bytes per second, the limit is %d", size, rate, limit)
		}
	}
}

func TestClosestLimitHolds(t *testing.T) {
	u, c := Named("u"), Named("c")
	levels := []Entity{ // the most specific first
		{User: u, Client: c}, {User: u, Client: DefaultName}, {User: u},
		{User: DefaultName, Client: c}, {User: DefaultName, Client: DefaultName}, {User: DefaultName},
		{Client: c}, {Client: DefaultName},
	}
	m, _ := newTest()
	for i := len(levels) - 1; i >= 0; i-- {
		m.Set(levels[i], Limits{Fetch: float64(i + 1)})
		if got := m.Largest(Fetch, "u", "c"); got != int64(10*(i+1)) {
			t.Errorf("with %+v: %d bytes in all windows, want %d", levels[i], got, 10*(i+1))
		}
	}
	for i, e := range levels {
		m.Set(e, nil)
		want := int64(10 * (i + 2))
		if i == len(levels)-1 {
			want = math.MaxInt64
		}
		if got := m.Largest(Fetch, "u", "c"); got != want {
			t.Errorf("without %+v: %d bytes in all windows, want %d", e, got, want)
		}
	}
}

// TestWhoSharesALimit: all clients of a user share a limit for the user, and all clients with an id share a limit for
// the id, whatever their users.
func TestWhoSharesALimit(t *testing.T) {
	for _, tc := range []struct {
		limit        Entity
		user, client string // beside u and c
		shared       bool
	}{
		{Entity{User: Named("u")}, "u", "other", true},
		{Entity{User: DefaultName}, "other", "c", false},
		{Entity{Client: Named("c")}, "other", "c", true},
		{Entity{Client: DefaultName}, "u", "other", false},
		{Entity{User: Named("u"), Client: Named("c")}, "u", "other", false},
		{Entity{User: Named("u"), Client: DefaultName}, "u", "other", false},
	} {
		t.Run(fmt.Sprintf("%+v", tc), func(t *testing.T) {
			m, _ := newTest()
			m.Set(tc.limit, Limits{Produce: 10})
			m.Charge(Produce, "u", "c", 1000)
			if shared := m.Charge(Produce, tc.user, tc.client, 0) > 0; shared != tc.shared {
				t.Errorf("shared %v, want %v", shared, tc.shared)
			}
		})
	}
}

func TestRequestTimeWaitsAtMostAWindow(t *testing.T) {
	m, _ := newTest()
	m.Set(Entity{User: Named("u")}, Limits{Request: 1})
	if got := m.Charge(Request, "u", "c", 1000); got != time.Second {
		t.Errorf("throttled for %v", got)
	}
}

func TestMutations(t *testing.T) {
	m, c := newTest()
	m.Set(Entity{User: Named("u")}, Limits{Mutation: 1})
	if wait, ok := m.Mutate("u", "c", 15, true); !ok || wait != 0 { // 11 tokens have accumulated
		t.Fatalf("overdrawing: %v, %v", wait, ok)
	}
	if wait, ok := m.Mutate("u", "c", 1, true); ok || wait != 4*time.Second {
		t.Errorf("a client that supports the error: %v, %v", wait, ok)
	}
	if wait, ok := m.Mutate("u", "c", 1, false); !ok || wait != 5*time.Second {
		t.Errorf("a client that does not: %v, %v", wait, ok)
	}
	c.pass(5 * time.Second)
	if wait, ok := m.Mutate("u", "c", 1, true); !ok || wait != 0 {
		t.Errorf("later: %v, %v", wait, ok)
	}
}

func TestConnections(t *testing.T) {
	m, c := newTest()
	m.Set(Entity{IP: DefaultName}, Limits{Connection: 1})
	m.Set(Entity{IP: Named("10.0.0.1")}, Limits{Connection: 100})
	for range 10 {
		if m.Connected("10.0.0.2") != 0 || m.Connected("10.0.0.1") != 0 {
			t.Fatal("throttled below the limit")
		}
	}
	if m.Connected("10.0.0.2") == 0 || m.Connected("10.0.0.1") != 0 {
		t.Error("the limit of the address, or the default, does not apply")
	}
	m.Set(Entity{IP: DefaultName}, nil)
	if m.Connected("10.0.0.2") != 0 {
		t.Error("a removed limit still applies")
	}
	c.pass(time.Minute)
}

func TestThoseWhoHaveGoneAreForgotten(t *testing.T) {
	m, c := newTest()
	m.Set(Entity{Client: DefaultName}, Limits{Produce: 1, Mutation: 1})
	for i := range 10 * minSweep {
		m.Charge(Produce, "u", fmt.Sprint(i), 1)
		m.Mutate("u", fmt.Sprint(i), 1, true)
		c.pass(100 * time.Millisecond)
	}
	if n := m.countedLocked(); n > 2*minSweep {
		t.Errorf("%d limits are kept", n)
	}
}

// TestReplicationSavesNothingUp: more than one second's limit is too fast, even in the first second.
func TestReplicationSavesNothingUp(t *testing.T) {
	r := Rate{Windows: Windows{Count: 11, Size: time.Second}, AtOnce: true}
	now := time.Unix(1_790_000_000, 0)
	r.Add(900, now)
	if r.Exceeds(1000, now) {
		t.Error("throttled below the limit")
	}
	r.Add(200, now)
	if !r.Exceeds(1000, now) {
		t.Error("1,100 bytes at once do not exceed 1,000 bytes per second")
	}
	if now = now.Add(2 * time.Second); r.Exceeds(1000, now) {
		t.Error("still throttled two seconds later")
	}
}

func TestParseLimits(t *testing.T) {
	limits, err := ParseLimits(map[string]string{
		"producer_byte_rate": "1024", "connection_creation_rate": "2.5", "consumer_byte_rate": "lots", "request_percentage": "-1",
		"controller_mutation_rate": "NaN", "SCRAM-SHA-256": "salt=...",
	})
	if want := (Limits{Produce: 1024, Connection: 2.5}); !maps.Equal(limits, want) {
		t.Errorf("%v, want %v", limits, want)
	}
	for _, key := range []string{"consumer_byte_rate", "request_percentage", "controller_mutation_rate"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("no name for %s: %v", key, err)
		}
	}
}

// TestNamesOfLimits: each limit has a name, which leads back to it, among those for addresses or those for users and
// client ids.
func TestNamesOfLimits(t *testing.T) {
	named := make(map[Kind]bool)
	for _, ofAddress := range []bool{false, true} {
		for _, key := range Keys(ofAddress) {
			kind, known := KindOf(key)
			if !known || kind.OfAddress() != ofAddress || kind.Key() != key {
				t.Errorf("%s: %v, %v, %s", key, kind, known, kind.Key())
			}
			named[kind] = true
		}
	}
	if len(named) != int(kinds) {
		t.Errorf("%d limits have names, want %d", len(named), kinds)
	}
}

// TestDebtOutlivesASweep: who has overdrawn a quota does not get a new one when the idle are forgotten.
func TestDebtOutlivesASweep(t *testing.T) {
	m, c := newTest()
	m.Set(Entity{Client: DefaultName}, Limits{Mutation: 1})
	m.Mutate("u", "debtor", 1000, true)
	for i := range 2 * minSweep {
		m.Mutate("u", fmt.Sprint(i), 1, true)
		c.pass(100 * time.Millisecond)
	}
	if wait, ok := m.Mutate("u", "debtor", 1, true); ok || wait <= 0 {
		t.Errorf("after 200 s of the 989: %v, %v", wait, ok)
	}
}

// TestExtremeLimits: neither no use at all nor any amount of it breaks the arithmetic.
func TestExtremeLimits(t *testing.T) {
	m, _ := newTest()
	for text, waits := range map[string]bool{"0": true, "5e-324": true, "Infinity": false, "1.7e308": false} {
		limits, err := ParseLimits(map[string]string{"controller_mutation_rate": text, "producer_byte_rate": text, "consumer_byte_rate": text})
		if err != nil {
			t.Fatal(err)
		}
		m.SetAll(map[Entity]Limits{{User: Named(text)}: limits})
		for range 3 {
			if wait, ok := m.Mutate(text, "", 1e9, false); !ok || (wait > 0) != waits || wait < 0 {
				t.Errorf("controller_mutation_rate=%s: %v, %v", text, wait, ok)
			}
			if wait := m.Charge(Produce, text, "", 1e12); (wait > 0) != waits || wait < 0 {
				t.Errorf("producer_byte_rate=%s: %v", text, wait)
			}
		}
		if largest := m.Largest(Fetch, text, ""); largest < 0 || (largest == 0) != waits {
			t.Errorf("consumer_byte_rate=%s: %d bytes at once", text, largest)
		}
	}
}

// TestAllLimitsAreReplaced: what is not among the new limits is not in force any more.
func TestAllLimitsAreReplaced(t *testing.T) {
	m, _ := newTest()
	m.Set(Entity{User: Named("u")}, Limits{Produce: 1})
	m.SetAll(map[Entity]Limits{{User: Named("v")}: {Fetch: 1}, {User: Named("w")}: nil})
	if m.Any(Produce) || !m.Any(Fetch) || m.Charge(Produce, "u", "c", 1000) != 0 || m.Charge(Fetch, "v", "c", 1000) == 0 {
		t.Error("the limits are not those that were set last")
	}
}

// TestPaceOfNewConnections: connections beyond a rate wait, for one window at most; those of a listener that is exempt
// from the limit of all neither wait for it nor count.
func TestPaceOfNewConnections(t *testing.T) {
	m, c := newTest()
	for i := range 20 {
		if wait := m.Accepted("external", 2, Unlimited); wait != 0 {
			t.Fatalf("connection %d waits %v", i, wait)
		}
	}
	if wait := m.Accepted("external", 2, Unlimited); wait <= 0 || wait > time.Second {
		t.Errorf("above the limit: %v", wait)
	}
	for i := range 10 {
		if wait := m.Accepted("internal", Unlimited, 1); wait != 0 {
			t.Fatalf("connection %d to the exempt listener waits %v", i, wait)
		}
	}
	if wait := m.Accepted("internal", Unlimited, 1); wait <= 0 {
		t.Error("the listener's own limit does not apply")
	}
	if wait := m.Accepted("internal", Unlimited, 100); wait != 0 {
		t.Errorf("after its limit was raised: %v", wait)
	}
	c.pass(15 * time.Second)
	if wait := m.Accepted("external", 2, 2); wait != 0 {
		t.Errorf("later: %v", wait)
	}
	for range 100 {
		if wait := m.Accepted("external", 0, 0); wait != time.Second {
			t.Fatalf("with a limit of 0: %v", wait)
		}
	}
}

// TestSingleWindow: with quota.window.num=1 the rate counts from the first moment of the window.
func TestSingleWindow(t *testing.T) {
	c := &clock{now: time.Unix(1_790_000_000, 0)}
	w := Windows{Count: 1, Size: time.Second}
	m := NewManager(Config{Clients: w, Controller: w, Now: func() time.Time { return c.now }})
	m.Set(Entity{User: Named("u")}, Limits{Produce: 1000})
	if wait := m.Charge(Produce, "u", "c", 5000); wait <= 0 {
		t.Error("five seconds' worth at once is not throttled")
	}
}
