package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kadm"
)

// deletion reports what prevents a topic from being gone: the request to delete it, and each replica that has not
// confirmed.
func (d *doctor) deletion(ctx context.Context, topic string) error {
	z, err := d.readTree(ctx)
	if err != nil {
		return err
	}
	meta, err := fetchMetadata(ctx, d.cl)
	if err != nil {
		return err
	}
	asked, there := z.has("/admin/delete_topics/"+topic), z.has(topicPath(topic))
	switch {
	case !there:
		d.gone(z, topic, asked)
		return d.leftReplicas(ctx, topic)
	case !asked:
		s, err := d.brokerSettings(ctx, meta.ControllerID)
		if err != nil {
			return err
		}
		if s["delete.topic.enable"] == "false" {
			d.trouble(topic, "take delete.topic.enable=false out of the brokers' files and start them again", "the topic is there, and the controller, broker %d, refuses deletions: delete.topic.enable=false.", meta.ControllerID)
			return nil
		}
		d.note(topic, "the topic is there, and nobody has asked for its deletion.")
		if s["auto.create.topics.enable"] == "true" {
			d.note(topic, "if it was deleted and came back: auto.create.topics.enable=true makes it again for every client that still asks for it.")
		}
		return nil
	}
	d.pending(z, topic)
	return nil
}

func (d *doctor) gone(z znodes, topic string, asked bool) {
	switch {
	case asked:
		d.trouble(topic, "the controller removes the request when it next looks; if it stays, is there a controller?", "the topic is gone, and the request to delete it, /admin/delete_topics/%s, is still there.", topic)
	case z.has("/config/topics/" + topic):
		d.trouble(topic, "zookeeper-shell.sh: delete /config/topics/"+topic+", or its settings come back with the next topic of that name", "the topic is gone, and its settings are still in ZooKeeper.")
	default:
		d.note(topic, "is gone from ZooKeeper.")
	}
}

// pending reports what a requested deletion waits for.
func (d *doctor) pending(z znodes, topic string) {
	t, err := z.topic(topic)
	if err != nil {
		d.trouble(topic, "mend the node with zookeeper-shell.sh", "%s %v.", topicPath(topic), err)
		return
	}
	blocked := false
	registered := z.brokerIDs()
	for _, id := range absent(t, registered) {
		blocked = true
		d.trouble(topic, fmt.Sprintf("start broker %d. If it is never to come back, move the topic's replicas off it first, or start an empty broker with that id", id),
			"broker %d has replicas of %s and is not there: the deletion waits until it has confirmed.", id, strings.Join(heldBy(t, id), ", "))
	}
	if moving := reassigned(t); len(moving) > 0 {
		blocked = true
		d.trouble(topic, "let it end, or kafka-reassign-partitions.sh --cancel; ask the doctor for reassignment", "partition %s is being moved: the deletion waits for the reassignment.", joinInts(moving, ", "))
	}
	if !z.has("/controller") {
		blocked = true
		d.trouble(topic, "is any broker up?", "there is no controller to delete it.")
	}
	if !blocked {
		d.note(topic, "is being deleted, and every broker with a replica is there: it goes when they have confirmed. If it stays, look for a failed log folder with kafka-log-dirs.sh.")
	}
}

// heldBy returns the partitions of which a broker has replicas.
func heldBy(t zkcoord.TopicInfo, id int32) []string {
	var names []string
	for p, replicas := range t.Partitions {
		if slices.Contains(replicas, id) {
			names = append(names, partitionName(t.Name, p))
		}
	}
	slices.Sort(names)
	if more := len(names) - 5; more > 0 {
		names = append(names[:5], fmt.Sprintf("%d more", more))
	}
	return names
}

// leftReplicas finds directories of a topic that no longer exists.
func (d *doctor) leftReplicas(ctx context.Context, topic string) error {
	all, err := d.adm.DescribeAllLogDirs(ctx, nil)
	if err != nil && len(all) == 0 {
		return err
	}
	for _, dirs := range all {
		dirs.Each(func(dir kadm.DescribedLogDir) {
			if left := len(dir.Topics[topic]); left > 0 {
				d.trouble(topic, "a restart of the broker, or the controller's next picture, removes them", "broker %d still has %d of its partitions in %s.", dir.Broker, left, dir.Dir)
			}
		})
	}
	return nil
}
