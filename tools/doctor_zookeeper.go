package tools

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"barnabas/config"
	"barnabas/zkcoord"
)

// tree checks the state in ZooKeeper.
func (d *doctor) tree(ctx context.Context) error {
	z, err := d.readTree(ctx)
	if err != nil {
		return err
	}
	d.examineTree(z)
	for _, path := range slices.Sorted(slices.Values(d.hidden)) {
		d.note(path, "was not checked: only the brokers' user may read it. Log in to ZooKeeper as the brokers do, with KAFKA_OPTS=-D%s=FILE.", config.LoginFileKey)
	}
	return nil
}

// examineTree examines only the tree: it sends no requests.
func (d *doctor) examineTree(z znodes) {
	registered := z.brokerIDs()
	bad := d.unreadable(z)
	epoch := d.controllerNodes(z, registered, bad)
	families := z.families()
	missing := make(map[int32]int)
	partitions := 0
	withoutID := 0
	for _, topic := range z.children("/brokers/topics") {
		t, err := z.topic(topic)
		if bad[topicPath(topic)] || err != nil {
			continue
		}
		if t.ID == (zkcoord.ID{}) {
			withoutID++
		}
		for _, id := range absent(t, registered) {
			missing[id]++
		}
		partitions += len(t.Partitions)
		for partition, replicas := range t.Partitions {
			d.partitionState(z, partitionPath(topic, partition)+"/state", topic, replicas, registered, bad, epoch)
		}
		d.leftPartitions(topic, t, families[topicPath(topic)+"/partitions"], bad)
		if moving := reassigned(t); len(moving) > 0 {
			d.trouble(topicPath(topic), "wait until it ends, or cancel it; see kafka-doctor.sh reassignment", "a reassignment of partition %s is under way; a migration must wait for it.", joinInts(moving, ", "))
		}
	}
	for id, topics := range missing {
		d.trouble(fmt.Sprintf("broker %d", id), "start it, or move its replicas elsewhere", "has replicas of %s and is not registered.", counted(topics, "topic"))
	}
	d.leftNodes(z)
	d.migration(z, withoutID)
	slices.SortStableFunc(d.diagnosis.Findings, func(a, b finding) int { return strings.Compare(a.Subject, b.Subject) })
	if !d.diagnosis.Trouble {
		d.note("tree", "%s, %s and %s are sound.", counted(len(registered), "broker"), counted(len(z.children("/brokers/topics")), "topic"), counted(partitions, "partition"))
	}
}

// leftPartitions reports nodes, given by name, that belong to no partition of the topic.
func (d *doctor) leftPartitions(topic string, t zkcoord.TopicInfo, names []string, bad map[string]bool) {
	for _, name := range names {
		path := topicPath(topic) + "/partitions/" + name
		partition, _ := strconv.ParseInt(name, 10, 32)
		if _, assigned := t.Partitions[int32(partition)]; !assigned && !bad[path] {
			d.trouble(path, "delete it with zookeeper-shell.sh, or a later partition with that number starts with its state", "is not a partition of the topic.")
		}
	}
}

// controllerNodes checks the controller's nodes, and returns the epoch that no other may exceed.
func (d *doctor) controllerNodes(z znodes, registered map[int32]bool, bad map[string]bool) int32 {
	var c struct {
		Broker int32 `json:"brokerid"`
		KRaft  int32 `json:"kraftControllerEpoch"`
	}
	c.KRaft = -1
	switch err := z.into("/controller", &c); {
	case !z.has("/controller"):
		d.trouble("/controller", "is any broker running? The brokers elect it", "there is no controller: no leader is elected and no topic is created.")
	case err != nil || bad["/controller"]:
	case c.KRaft < 0 && !registered[c.Broker]:
		d.trouble("/controller", "if broker "+strconv.Itoa(int(c.Broker))+" is down, its session ends by itself within zookeeper.session.timeout.ms", "broker %d is the controller but is not registered.", c.Broker)
	case c.KRaft >= 0:
		d.trouble("/controller", "finish the migration, or roll it back as its documentation says", "a KRaft controller (epoch %d) is active: a migration is under way.", c.KRaft)
	default:
		d.note("/controller", "broker %d is the controller.", c.Broker)
	}
	if !z.has("/controller_epoch") {
		d.trouble("/controller_epoch", "create it with zookeeper-shell.sh: a number above every controller_epoch in the partition states", "is missing.")
	}
	epoch, err := strconv.ParseInt(string(z["/controller_epoch"].data), 10, 32)
	if err != nil {
		return math.MaxInt32
	}
	return int32(epoch)
}

// partitionState checks the state of one of a topic's partitions.
func (d *doctor) partitionState(z znodes, path, topic string, replicas []int32, registered map[int32]bool, bad map[string]bool, epoch int32) {
	if !z.has(path) {
		if !z.has("/admin/delete_topics/" + topic) {
			d.trouble(path, "is there a controller? It creates the states of new partitions", "is missing: the partition has no leader.")
		}
		return
	}
	s, err := readState(z[path].data)
	if bad[path] || err != nil {
		return
	}
	stray := slices.DeleteFunc(slices.Clone(s.ISR), func(id int32) bool { return slices.Contains(replicas, id) })
	switch {
	case s.ControllerEpoch > epoch:
		d.trouble(path, "/controller_epoch was reset or belongs to another cluster: set it to a higher number", "was written in controller epoch %d, above /controller_epoch %d: brokers reject this controller.", s.ControllerEpoch, epoch)
	case len(stray) > 0:
		d.trouble(path, "restart the controller's broker: a new controller checks the states", "has %s in the ISR, which has no replica of the partition.", joinInts(stray, ","))
	case s.Leader < 0:
		d.trouble(path, "start one of the brokers in the ISR; any other replica would lose records", "has no leader; the ISR is %s.", joinInts(s.ISR, ","))
	case !registered[s.Leader]:
		d.trouble(path, "is there a controller? It elects another", "its leader %d is not registered.", s.Leader)
	case !slices.Contains(s.ISR, s.Leader):
		d.trouble(path, "restart the controller's broker: a new controller elects again", "its leader %d is not in the ISR %s.", s.Leader, joinInts(s.ISR, ","))
	}
}

// staleAfter is the maximum age of a notification.
const staleAfter = 5 * time.Minute

// leftNodes finds nodes that should have been removed.
func (d *doctor) leftNodes(z znodes) {
	for _, topic := range z.children("/config/topics") {
		if !z.has(topicPath(topic)) {
			d.warn("/config/topics/"+topic, leftSettingsMend, "holds settings of a topic that does not exist.")
		}
	}
	for _, topic := range z.children("/admin/delete_topics") {
		subject := "/admin/delete_topics/" + topic
		if z.has(topicPath(topic)) {
			d.trouble(subject, "see kafka-doctor.sh deletion "+topic, "the topic is to be deleted but still exists.")
			continue
		}
		d.trouble(subject, "delete it with zookeeper-shell.sh if it stays", "is left over: the topic does not exist.")
	}
	for path, what := range map[string]string{"/admin/reassign_partitions": "reassignment", "/admin/preferred_replica_election": "election of preferred leaders"} {
		if z.has(path) {
			d.trouble(path, "the controller removes it when it is done; if it stays while no controller is running, delete it", "is a legacy request for a %s: %.200s", what, z[path].data)
		}
	}
	for _, parent := range []string{"/isr_change_notification", "/log_dir_event_notification"} {
		for _, name := range z.children(parent) {
			node := z[parent+"/"+name]
			if node.stat != nil && d.now.Sub(time.UnixMilli(node.stat.Ctime)) > staleAfter {
				d.trouble(parent+"/"+name, "is there a controller? It handles and removes them", "has not been handled since %s.", at(node.stat.Ctime))
			}
		}
	}
}

// migration reports whether the cluster could be migrated, as far as the tree shows.
func (d *doctor) migration(z znodes, withoutID int) {
	if withoutID > 0 {
		d.trouble("migration", "raise inter.broker.protocol.version to 2.8 or newer: the controller then assigns ids", "%s without a topic_id: the cluster cannot be migrated.", counted(withoutID, "topic"))
	}
	if z.has("/migration") {
		d.trouble("/migration", "finish the migration, or roll it back as its documentation says", "a migration has begun: %.200s", z["/migration"].data)
	}
	for id := range z.brokerIDs() {
		subject := "/brokers/ids/" + number(id)
		switch b, err := zkcoord.DecodeBroker(id, z[subject].data); {
		case err != nil: // reported already
		case b.Format < 5:
			d.trouble(subject, "raise inter.broker.protocol.version on that broker", "is registered in format %d, of a release before 2.7: the cluster cannot be migrated.", b.Format)
		case len(b.Endpoints) == 0:
			d.trouble(subject, "set listeners and advertised.listeners", "advertises no endpoint.")
		}
	}
}
