package zksim

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"barnabas/internal/testlog"
	"barnabas/zkcoord"

	"github.com/go-zookeeper/zk"
)

// expiring is a connection whose session expires right after the response to the first multi.
type expiring struct {
	*Conn
	done bool
}

func (c *expiring) Multi(ops ...any) ([]zk.MultiResponse, error) {
	results, err := c.Conn.Multi(ops...)
	if !c.done {
		c.done = true
		c.Expire()
		c.Restore()
	}
	return results, err
}

// TestControllerOfAnExpiredSession: a broker whose session expires when it has just been elected is not the controller
// in its next session.
func TestControllerOfAnExpiredSession(t *testing.T) {
	ctx := context.Background()
	e := New()
	observer, _ := connect(t, e)
	client, _ := e.ConnectBy(zkcoord.Config{Logger: testlog.Quiet()}, func(c *Conn) zkcoord.Conn { return &expiring{Conn: c} })
	if err := observer.EnsureTopNodes(ctx); err != nil {
		t.Fatal(err)
	}
	term, won, err := client.Elect(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if won {
		_, err := client.SetFeatures(ctx, term, zkcoord.Features{Format: 2})
		t.Errorf("elected without a node; a write as controller: %v", err)
	}
	if id, err := observer.ControllerID(ctx); err != nil || id != zkcoord.NoController {
		t.Errorf("controller %d, %v", id, err)
	}
	if _, won, err := client.Elect(ctx, 1); err != nil || !won {
		t.Errorf("elected in the next session: %v, %v", won, err)
	}
}

// TestRemovedFolders: what somebody has removed is created again by whoever needs it, so that brokers can register, and
// changes are announced.
func TestRemovedFolders(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t)
	for _, path := range []string{"/brokers/ids", "/config/changes"} {
		if err := c.direct.Delete(path, -1); err != nil {
			t.Fatal(err)
		}
	}
	changed := 0
	c.other.OnChange(func(change zkcoord.Change) {
		if change.Kind == zkcoord.BrokersChanged {
			changed++
		}
	})
	if brokers, err := c.other.WatchBrokers(ctx); err != nil || len(brokers) != 0 {
		t.Fatal(brokers, err)
	}
	if _, err := c.client.RegisterBroker(ctx, zkcoord.BrokerInfo{ID: 1}); err != nil {
		t.Fatal(err)
	}
	if c.direct.Deliver(); changed != 1 {
		t.Errorf("the registration was announced %d times", changed)
	}
	if err := c.direct.Delete("/brokers/ids/1", -1); err != nil {
		t.Fatal(err)
	}
	if err := c.direct.Delete("/brokers/ids", -1); err != nil {
		t.Fatal(err)
	}
	if registered, err := c.client.Registered(ctx, 1); err != nil || registered {
		t.Errorf("registered: %v, %v", registered, err)
	}
	if _, err := c.client.RegisterBroker(ctx, zkcoord.BrokerInfo{ID: 1}); err != nil {
		t.Errorf("without a folder for registrations: %v", err)
	}
	if registered, err := c.client.Registered(ctx, 1); err != nil || !registered {
		t.Errorf("registered: %v, %v", registered, err)
	}
	if err := c.client.UpdateEntityConfig(ctx, topic, with("k", "v")); err != nil {
		t.Errorf("without a folder for announcements: %v", err)
	}
	if n := c.notes("/config/changes"); n != 1 {
		t.Errorf("%d announcements", n)
	}
}

// TestRegistrationOfAnotherStays: a broker whose session has expired does not rewrite the registration of another process
// that has taken its id.
func TestRegistrationOfAnotherStays(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t)
	at := func(port int32) zkcoord.BrokerInfo {
		return zkcoord.BrokerInfo{ID: 1, Endpoints: []zkcoord.Endpoint{{Name: "A", Protocol: "PLAINTEXT", Host: "h", Port: port}}}
	}
	if _, err := c.client.RegisterBroker(ctx, at(1)); err != nil {
		t.Fatal(err)
	}
	c.conn.Expire()
	if _, err := c.other.RegisterBroker(ctx, at(2)); err != nil {
		t.Fatal(err)
	}
	c.conn.Restore()
	if err := c.client.UpdateBroker(ctx, at(3)); err != nil {
		t.Fatal(err)
	}
	brokers, err := c.other.Brokers(ctx)
	if err != nil || len(brokers) != 1 || brokers[0].Endpoints[0].Port != 2 {
		t.Errorf("registered: %+v, %v", brokers, err)
	}
}

// outlived is a connection to servers that have not removed the ephemeral nodes of an expired session: nodes without an
// owner seem to be of that session.
type outlived struct {
	*Conn
	session int64
}

func (c *outlived) Get(path string) ([]byte, *zk.Stat, error) {
	data, stat, err := c.Conn.Get(path)
	if err == nil && stat.EphemeralOwner == 0 && (path == "/controller" || path == "/brokers/ids/1") {
		stat.EphemeralOwner = c.session
	}
	return data, stat, err
}

// TestNodesOfAnotherSessionStay: a broker removes its nodes of an expired session, but not those that others have created
// there before it has the response.
func TestNodesOfAnotherSessionStay(t *testing.T) {
	ctx := context.Background()
	for _, test := range []struct {
		name, node string
		other      func(*zkcoord.Client) error
		do         func(*zkcoord.Client) error
	}{
		{"controller", "/controller", func(c *zkcoord.Client) error {
			_, _, err := c.Elect(ctx, 2)
			return err
		}, func(c *zkcoord.Client) error {
			_, _, err := c.Elect(ctx, 1)
			return err
		}},
		{"registration", "/brokers/ids/1", func(c *zkcoord.Client) error {
			_, err := c.RegisterBroker(ctx, zkcoord.BrokerInfo{ID: 1})
			return err
		}, func(c *zkcoord.Client) error {
			_, err := c.RegisterBroker(ctx, zkcoord.BrokerInfo{ID: 1})
			if inUse := (*zkcoord.ErrBrokerIDInUse)(nil); errors.As(err, &inUse) {
				return nil
			}
			return fmt.Errorf("the id is in use: %w", err)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			if err := c.direct.Delete("/controller", -1); err != nil {
				t.Fatal(err)
			}
			around := new(outlived)
			c.client, c.conn = c.e.ConnectBy(zkcoord.Config{Logger: testlog.Quiet()}, func(conn *Conn) zkcoord.Conn { around.Conn = conn; return around })
			around.session = c.conn.SessionID()
			if _, _, err := c.client.Elect(ctx, 1); err != nil { // so that there is an epoch
				t.Fatal(err)
			}
			c.conn.Expire()
			c.conn.Restore()
			if _, err := c.direct.Create(test.node, []byte(`{"version":5,"brokerid":1,"endpoints":[]}`), zk.FlagPersistent, nil); err != nil {
				t.Fatal(err)
			}
			removed := c.afterLoss(func() bool { return c.version(test.node) < 0 }, func() {
				if err := test.other(c.other); err != nil {
					t.Error(err)
				}
			})
			if err := test.do(c.client); err != nil || !*removed {
				t.Errorf("%v, a response was lost: %v", err, *removed)
			}
			if _, stat, err := c.direct.Exists(test.node); err != nil || stat.EphemeralOwner != c.direct.SessionID() {
				t.Errorf("the node belongs to session %d, %v", stat.EphemeralOwner, err)
			}
		})
	}
}
