package zksim

import (
	"context"
	"errors"
	"testing"

	"barnabas/internal/testlog"
	"barnabas/zkcoord"

	"github.com/go-zookeeper/zk"
)

func connect(t *testing.T, e *Ensemble) (*zkcoord.Client, *Conn) {
	t.Helper()
	return e.Connect(zkcoord.Config{Logger: testlog.Quiet()})
}

// script lets a connection's requests meet the given fates in order, and reconnects when it broke.
func script(c *Conn, fates ...Fate) {
	c.Wait = c.Restore
	c.Fate = func() Fate {
		if len(fates) == 0 {
			return Answered
		}
		f := fates[0]
		fates = fates[1:]
		return f
	}
}

func TestFates(t *testing.T) {
	for _, test := range []struct {
		name string
		fate Fate
		err  error
		made bool
	}{
		{"answered", Answered, nil, true},
		{"request lost", RequestLost, zk.ErrConnectionClosed, false},
		{"answer lost", AnswerLost, zk.ErrConnectionClosed, true},
	} {
		e := New()
		_, c := connect(t, e)
		script(c, test.fate)
		if _, err := c.Create("/n", nil, zk.FlagPersistent, nil); !errors.Is(err, test.err) {
			t.Errorf("%s: %v", test.name, err)
		}
		if found, _, err := c.Exists("/n"); err != nil || found != test.made {
			t.Errorf("%s: node exists: %v, %v", test.name, found, err)
		}
	}
}

// TestEventsComeBeforeAnswers: an event is delivered before a response that reflects the change.
func TestEventsComeBeforeAnswers(t *testing.T) {
	e := New()
	watcher, c := connect(t, e)
	_, other := connect(t, e)
	var changes []zkcoord.Change
	watcher.OnChange(func(change zkcoord.Change) { changes = append(changes, change) })
	if id, err := watcher.WatchController(context.Background()); err != nil || id != zkcoord.NoController {
		t.Fatal(id, err)
	}
	if _, err := other.Create("/controller", []byte(`{"brokerid":1}`), zk.FlagEphemeral, nil); err != nil {
		t.Fatal(err)
	}
	if len(changes) != 0 || c.Due() != 1 {
		t.Fatalf("changes %v, due %d", changes, c.Due())
	}
	if _, err := watcher.ControllerID(context.Background()); err != nil || len(changes) != 1 {
		t.Errorf("changes %v, %v", changes, err)
	}
}

// TestExpiry: ephemeral nodes are removed with their session; the client learns of the expiry when it reconnects, and
// gets another session.
func TestExpiry(t *testing.T) {
	e := New()
	client, c := connect(t, e)
	_, other := connect(t, e)
	var events []zkcoord.SessionEvent
	client.OnSession(func(event zkcoord.SessionEvent) { events = append(events, event) })
	if _, err := c.Create("/n", nil, zk.FlagEphemeral, nil); err != nil {
		t.Fatal(err)
	}
	before := c.SessionID()
	c.Expire()
	if found, _, err := other.Exists("/n"); err != nil || found {
		t.Errorf("the node outlived its session: %v, %v", found, err)
	}
	if c.Alive() || len(events) != 1 || events[0] != zkcoord.SessionSuspended {
		t.Errorf("alive %v, events %v", c.Alive(), events)
	}
	c.Restore()
	if len(events) != 3 || events[1] != zkcoord.SessionExpired || events[2] != zkcoord.SessionReestablished || c.SessionID() == before {
		t.Errorf("events %v, session %d after %d", events, c.SessionID(), before)
	}
}
