package zksim

import (
	"context"
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestRecreatedTopicIsNotDeleted: if the response to the request for a deletion is lost, and the topic was deleted and
// created again before the next attempt, the new topic stays.
func TestRecreatedTopicIsNotDeleted(t *testing.T) {
	ctx := context.Background()
	e := New()
	client, c := connect(t, e)
	other, direct := connect(t, e)
	if err := client.EnsureTopNodes(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Create("/controller", []byte(`{"brokerid":1}`), zk.FlagEphemeral, nil); err != nil {
		t.Fatal(err)
	}
	create := func() {
		t.Helper()
		if _, err := other.CreateTopic(ctx, "t", map[int32][]int32{0: {1}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	create()
	const request = "/admin/delete_topics/t"
	lost := false
	c.Wait = func() {
		if found, _, _ := direct.Exists(request); found && !lost {
			lost = true
			c.Break() // before the response
			for _, path := range []string{"/brokers/topics/t", request} {
				if err := direct.Delete(path, -1); err != nil { // as the controller does
					t.Error(err)
				}
			}
			create()
		}
		c.Restore()
	}
	if err := client.RequestTopicDeletion(ctx, "t"); err != nil || !lost {
		t.Errorf("%v, a response was lost: %v", err, lost)
	}
	if found, _, err := direct.Exists(request); err != nil || found {
		t.Errorf("the new topic is to be deleted: %v, %v", found, err)
	}
}

// TestAddedPartitionsAreRecognized: if the response to the addition of partitions is lost, and others have written the
// topic since, the partitions count as added rather than as those of somebody else.
func TestAddedPartitionsAreRecognized(t *testing.T) {
	ctx := context.Background()
	e := New()
	client, c := connect(t, e)
	_, direct := connect(t, e)
	if err := client.EnsureTopNodes(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Create("/controller", []byte(`{"brokerid":1}`), zk.FlagEphemeral, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateTopic(ctx, "t", map[int32][]int32{0: {1}}, nil); err != nil {
		t.Fatal(err)
	}
	const topic = "/brokers/topics/t"
	lost := false
	c.Wait = func() {
		if data, stat, err := direct.Get(topic); err == nil && stat.Version == 1 && !lost {
			lost = true
			c.Break() // before the response
			if _, err := direct.Set(topic, data, 1); err != nil {
				t.Error(err)
			}
		}
		c.Restore()
	}
	added := map[int32][]int32{1: {2}, 2: {3}}
	if err := client.AddPartitions(ctx, "t", added); err != nil || !lost {
		t.Errorf("%v, a response was lost: %v", err, lost)
	}
	if err := client.AddPartitions(ctx, "t", added); !errors.Is(err, kerr.InvalidPartitions) {
		t.Errorf("once more: %v", err)
	}
}

// TestCreatedTopicIsRecognized: if the response to the creation of a topic is lost, and others have written the topic
// since, it counts as created rather than as somebody else's.
func TestCreatedTopicIsRecognized(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t)
	lost := c.afterLoss(func() bool { return c.version("/brokers/topics/t") == 0 }, func() {
		if err := c.other.AddPartitions(ctx, "t", map[int32][]int32{1: {1}}); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.client.CreateTopic(ctx, "t", map[int32][]int32{0: {1}}, nil); err != nil || !*lost {
		t.Errorf("%v, a response was lost: %v", err, *lost)
	}
}

// TestSettingsOfTheFirstCreatorCount: of two brokers that create a topic at the same time, the one that fails leaves the
// other's settings alone, and whoever sees the topic sees its settings.
func TestSettingsOfTheFirstCreatorCount(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t)
	settings := func(value string) map[string]string { return map[string]string{"k": value} }
	requests := 0
	c.conn.Wait = func() {
		if requests++; requests != 5 { // after it has looked for the topic
			return
		}
		if _, err := c.other.CreateTopic(ctx, "t", map[int32][]int32{0: {1}}, settings("first")); err != nil {
			t.Error(err)
		}
	}
	_, err := c.client.CreateTopic(ctx, "t", map[int32][]int32{0: {2}}, settings("second"))
	if !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("created twice: %v", err)
	}
	stored, err := c.client.EntityConfig(ctx, topic)
	if err != nil || stored["k"] != "first" {
		t.Errorf("%v, %v", stored, err)
	}
}
