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
			d.trouble(topic, "remove delete.topic.enable=false from the brokers' files and restart them", "the topic exists, and the controller, broker %d, refuses deletions: delete.topic.enable=false.", meta.ControllerID)
			return nil
		}
		d.note(topic, "the topic exists, and its deletion has not been requested.")
		if s["auto.create.topics.enable"] == "true" {
			d.note(topic, "if it was deleted and came back: with auto.create.topics.enable=true, any client that still asks for it creates it again.")
		}
		return nil
	}
	d.pending(z, topic)
	return nil
}

// leftSettingsMend is the remedy for settings of a topic that does not exist.
const leftSettingsMend = "delete the topic's node below /config/topics with zookeeper-shell.sh, or leave it: the next topic of that name replaces it"

func (d *doctor) gone(z znodes, topic string, asked bool) {
	switch {
	case asked:
		d.trouble(topic, "the controller removes the request soon; if it stays, is there a controller?", "the topic no longer exists, but the request to delete it, /admin/delete_topics/%s, does.", topic)
	case z.has("/config/topics/" + topic):
		d.warn(topic, leftSettingsMend, "the topic no longer exists, but its settings are still in ZooKeeper.")
	default:
		d.note(topic, "no longer exists in ZooKeeper.")
	}
}

// pending reports what a requested deletion waits for.
func (d *doctor) pending(z znodes, topic string) {
	t, err := z.topic(topic)
	if err != nil {
		d.trouble(topic, "repair the node with zookeeper-shell.sh", "%s %v.", topicPath(topic), err)
		return
	}
	blocked := false
	registered := z.brokerIDs()
	for _, id := range absent(t, registered) {
		blocked = true
		d.trouble(topic, fmt.Sprintf("start broker %d. If it will never come back, first move the topic's replicas to other brokers, or start an empty broker with that id", id),
			"broker %d has replicas of %s and is not running: the deletion waits for its confirmation.", id, strings.Join(heldBy(t, id), ", "))
	}
	if moving := reassigned(t); len(moving) > 0 {
		blocked = true
		d.trouble(topic, "wait until it ends, or cancel it with kafka-reassign-partitions.sh --cancel; see kafka-doctor.sh reassignment", "partition %s is being moved: the deletion waits for the reassignment.", joinInts(moving, ", "))
	}
	if !z.has("/controller") {
		blocked = true
		d.trouble(topic, "is any broker running?", "there is no controller to delete it.")
	}
	if !blocked {
		d.note(topic, "is being deleted, and every broker with a replica is running: it is removed once they have confirmed. If it stays, look for a failed log directory with kafka-log-dirs.sh.")
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
				d.trouble(topic, "restart the broker, or wait for the controller's next update", "broker %d still has %d of its partitions in %s.", dir.Broker, left, dir.Dir)
			}
		})
	}
	return nil
}
