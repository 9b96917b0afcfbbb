package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"barnabas/config"
	"barnabas/internal/vfs"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// broker checks whether a broker can run with a server.properties, in place of the one that uses the file now.
func (d *doctor) broker(ctx context.Context, file string) error {
	overrides := *d.overrides
	if *d.fromEnvironment {
		overrides = slices.Concat(d.env.Settings, overrides) // later ones take precedence
	}
	b, err := config.Load(file, d.env.Properties, overrides)
	var wrong *config.Error
	if errors.As(err, &wrong) {
		d.trouble(file, "correct it; nothing else was checked", "%s", strings.TrimPrefix(wrong.Error(), "config: "))
		return nil
	}
	if err != nil {
		return err
	}
	d.settings = b
	d.brokerFile(b)
	marked, id := d.logDirs(b)
	if b = d.brokerCluster(ctx, b, id, marked); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.keystores(b)
	d.keytabs(b)
	d.providers(ctx, b)
	d.ports(ctx, b)
	return nil
}

// brokerFile checks the settings alone.
func (d *doctor) brokerFile(b *config.Broker) {
	unsupported := b.Unsupported()
	for _, err := range unsupported {
		d.trouble("settings", "correct it, or remove it if the cluster can do without it; the broker does not start with it", "%s", strings.TrimPrefix(err.Error(), "config: "))
	}
	if len(unsupported) == 0 {
		d.note("settings", "a broker can start with them.")
	}
	if without := b.NotHonoured(); len(without) > 0 {
		d.note("settings", "without effect here: %s.", strings.Join(without, ", "))
	}
	if unknown := b.Unknown(); len(unknown) > 0 {
		d.note("settings", "not known, and so without effect: %s.", strings.Join(unknown, ", "))
	}
	if !b.Set("inter.broker.protocol.version") {
		d.note("inter.broker.protocol.version", "is not set, so it is %s. While the cluster has older brokers, set it to their release.", b.InterBrokerProtocolVersion)
	}
}

// logDirs checks each log directory, and returns the meta.properties of those that have one, and the broker's id.
func (d *doctor) logDirs(b *config.Broker) (marked map[string]logstore.Meta, id int32) {
	marked = make(map[string]logstore.Meta)
	for i, dir := range b.LogDirs {
		if twin := sameDir(dir, b.LogDirs[:i]); twin != "" {
			d.trouble(dir, "name it once in log.dirs", "is the same directory as %s: no broker can lock it twice.", twin)
			continue
		}
		r, err := logstore.InspectDir(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			d.newDir(dir)
			continue
		case err != nil:
			d.trouble(dir, "run this as the user that will run the broker, on a directory that was written in ZooKeeper mode", "%v", err)
			continue
		}
		if r.Marked {
			marked[dir] = r.Meta
		}
		d.logDir(b, dir, r)
	}
	return marked, d.brokerID(b, marked)
}

// brokerID returns the id that is set, or that the log directories store, as at a start; -1 if there is none.
func (d *doctor) brokerID(b *config.Broker, marked map[string]logstore.Meta) int32 {
	if b.BrokerID >= 0 {
		return int32(b.BrokerID)
	}
	id, err := logstore.StoredBrokerID(vfs.OS{}, slices.Sorted(maps.Keys(marked)))
	switch {
	case err != nil:
		d.trouble("log.dirs", "the broker takes its id from them, since broker.id is not set", "%v.", err)
	case id < 0:
		d.note("broker.id", "is neither set nor stored in the log directories: the broker will get a new one.")
	}
	return id
}

// sameDir returns the one of others that is the same directory, by another name or through a link.
func sameDir(dir string, others []string) string {
	for _, other := range others {
		a, errA := os.Stat(dir)
		b, errB := os.Stat(other)
		if errA == nil && errB == nil && os.SameFile(a, b) || filepath.Clean(dir) == filepath.Clean(other) {
			return other
		}
	}
	return ""
}

// newDir checks whether the broker can create a directory that does not exist.
func (d *doctor) newDir(dir string) {
	parent := filepath.Dir(dir)
	for {
		if _, err := os.Stat(parent); !errors.Is(err, fs.ErrNotExist) || parent == filepath.Dir(parent) {
			break
		}
		parent = filepath.Dir(parent)
	}
	err := mayUse(parent)
	if at, statErr := os.Stat(parent); statErr == nil && !at.IsDir() {
		err = unix.ENOTDIR
	}
	if err != nil {
		d.trouble(dir, "create it, for the user that will run the broker", "does not exist, and user %d cannot create it in %s: %v.", os.Getuid(), parent, err)
		return
	}
	d.note(dir, "does not exist: the broker will create it.")
}

func (d *doctor) logDir(b *config.Broker, dir string, r logstore.DirReport) {
	stopped := "was stopped cleanly"
	switch {
	case r.InUse:
		d.running = true
		stopped = "is running and must be stopped first"
	case !r.Clean && r.Partitions > 0:
		stopped = "was not stopped cleanly, so a start has to recover its logs"
	case !r.Clean:
		stopped = "left no mark of a clean stop"
	}
	d.note(dir, "%s, %s free; its broker %s.", counted(r.Partitions, "partition"), roundBytes(r.FreeBytes), stopped)
	if b.BrokerID >= 0 && r.Marked && r.BrokerID >= 0 && int(r.BrokerID) != b.BrokerID {
		d.trouble(dir, fmt.Sprintf("set broker.id=%d, or set log.dirs to the directories of this broker", r.BrokerID), "belongs to broker %d, but broker.id is %d.", r.BrokerID, b.BrokerID)
	}
	for _, path := range r.Foreign {
		d.trouble(path, "move it out of the log directory", "is not a partition's directory: no broker starts with it.")
	}
	if r.FreeBytes < b.LogDirMinFreeBytes {
		d.trouble(dir, "free some space, or lower log.dir.min.free.bytes", "has less free space than log.dir.min.free.bytes=%d: the broker would accept no records.", b.LogDirMinFreeBytes)
	}
	if path, err := unwritable(dir, 2); err != nil {
		d.trouble(path, "run the broker, and this command, as the owner of the files, or chown them", "user %d may not read and write it: %v.", os.Getuid(), err)
	}
}

// unwritable returns a file or directory that this user may not read and write, if there is one: the path, or what is
// up to so many levels below it.
func unwritable(path string, levels int) (string, error) {
	err := mayUse(path)
	if errors.Is(err, fs.ErrNotExist) { // deleted in the meantime
		return "", nil
	}
	if err != nil {
		return path, err
	}
	if info, err := os.Stat(path); levels == 0 || err != nil || !info.IsDir() {
		return "", nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return path, err
	}
	for _, e := range entries {
		if below, err := unwritable(filepath.Join(path, e.Name()), levels-1); err != nil {
			return below, err
		}
	}
	return "", nil
}

// mayUse returns an error if this user may not read and write a file, or create files in a directory.
func mayUse(path string) error {
	mode := uint32(unix.R_OK | unix.W_OK)
	if at, err := os.Stat(path); err == nil && at.IsDir() {
		mode |= unix.X_OK
	}
	return unix.Access(path, mode)
}

func roundBytes(n int64) string {
	if n < 10<<30 {
		return strconv.FormatInt(n>>20, 10) + " MiB"
	}
	return strconv.FormatInt(n>>30, 10) + " GiB"
}

// brokerCluster checks what ZooKeeper stores about this broker, and returns the settings including those stored there.
func (d *doctor) brokerCluster(ctx context.Context, b *config.Broker, id int32, marked map[string]logstore.Meta) *config.Broker {
	if a, err := brokerZooKeeperAccess(b); err == nil && b.ZookeeperSetACL && !a.known() {
		d.trouble("zookeeper.set.acl", "set "+config.LoginFileKey+", or zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location: the broker does not start without", "ZooKeeper would not know for whom to keep nodes.")
	}
	if b.ZookeeperEmbedded {
		d.note("zookeeper.connect", "is not queried: the broker runs an embedded ZooKeeper.")
		return b
	}
	if *d.zookeeper == "" {
		*d.zookeeper = b.ZookeeperConnect
	}
	z, err := d.readTree(ctx)
	if err != nil {
		d.trouble("zookeeper.connect", "check the address and chroot; for a login, set KAFKA_OPTS as for the broker", "%v", err)
		return b
	}
	d.sameCluster(z, marked)
	d.place(z, id, b)
	if id < 0 {
		return b
	}
	d.replicasOf(z, id)
	for _, path := range d.hidden {
		if strings.HasPrefix(path, "/config/brokers") {
			d.note(path, "was not checked: only the brokers' user may read it. Set KAFKA_OPTS as for the broker.")
		}
	}
	if len(b.Unsupported()) > 0 { // they are reported, and would be again
		return b
	}
	return d.withStored(z, b, id)
}

// sameCluster compares the cluster's id with that of the log directories.
func (d *doctor) sameCluster(z znodes, marked map[string]logstore.Meta) {
	var cluster struct {
		ID string `json:"id"`
	}
	if err := z.into("/cluster/id", &cluster); err != nil {
		d.trouble("/cluster/id", "write the cluster.id of the brokers' meta.properties into it: {\"version\":\"1\",\"id\":\"...\"}", "%v", err)
		return
	}
	d.note("zookeeper.connect", "%s belongs to cluster %s.", *d.zookeeper, cluster.ID)
	for dir, m := range marked {
		if m.ClusterID != "" && m.ClusterID != cluster.ID {
			d.trouble(dir, "set zookeeper.connect, with its chroot, to the cluster that this data belongs to", "belongs to cluster %s.", m.ClusterID)
		}
	}
}

// place reports whether a broker with this id is running, and whether Barnabas may join the cluster.
func (d *doctor) place(z znodes, id int32, settings *config.Broker) {
	var c struct {
		Broker int32  `json:"brokerid"`
		KRaft  *int32 `json:"kraftControllerEpoch"`
	}
	if err := z.into("/controller", &c); err == nil {
		switch {
		case c.KRaft != nil && *c.KRaft >= 0 || z.has("/migration"):
			d.trouble("/controller", "finish the migration with Apache Kafka's brokers, or roll it back", "the cluster is being migrated to KRaft, in which this broker cannot take part.")
		case c.Broker == id:
			d.note("/controller", "broker %d is the controller: if you replace all brokers, replace it last.", id)
		}
	}
	for other := range z.brokerIDs() {
		b, err := zkcoord.DecodeBroker(other, z["/brokers/ids/"+number(other)].data)
		switch {
		case err != nil:
			d.trouble("/brokers/ids/"+number(other), "restart that broker: it registers again", "cannot be read: %v.", err)
		case other == id && d.running:
			d.note("/brokers/ids/"+number(id), "the broker is registered, so it is running. Stop it before its replacement starts.")
		case other == id:
			d.note("/brokers/ids/"+number(id), "a broker is registered, but none uses the log directories: it was killed, and a start waits for its session to end; or another broker has this id, and no start succeeds before that one is stopped.")
		case b.Format < 5 && settings.InterBrokerProtocolVersion >= config.IBP27IV0:
			d.trouble("/brokers/ids/"+number(other), "set inter.broker.protocol.version as on that broker", "is registered in format %d, of a release before 2.7.", b.Format)
		}
		if taken := sharedAddress(settings, b.Endpoints); err == nil && other != id && taken != "" {
			d.trouble("advertised.listeners", "give each broker an address of its own", "%s is advertised by broker %d already.", taken, other)
		}
	}
}

// sharedAddress returns an address of another broker that a broker with these settings would advertise too, if there is
// one.
func sharedAddress(settings *config.Broker, others []zkcoord.Endpoint) string {
	for _, l := range settings.AdvertisedListeners {
		for _, e := range others {
			if l.Host == "" {
				l.Host, _ = os.Hostname()
			}
			if l.Port != 0 && l.Host == e.Host && int32(l.Port) == e.Port {
				return net.JoinHostPort(l.Host, strconv.Itoa(l.Port))
			}
		}
	}
	return ""
}

// replicasOf reports which partitions depend on the broker.
func (d *doctor) replicasOf(z znodes, id int32) {
	var hosted, single, alone, late int
	for _, name := range z.children("/brokers/topics") {
		t, err := z.topic(name)
		if err != nil {
			continue // reported by the question zookeeper
		}
		for partition, replicas := range t.Partitions {
			s, err := readState(z[partitionPath(name, partition)+"/state"].data)
			if err != nil || !slices.Contains(replicas, id) {
				continue
			}
			hosted++
			switch {
			case len(replicas) == 1:
				single++
			case slices.Equal(s.ISR, []int32{id}):
				alone++
			case !slices.Contains(s.ISR, id):
				late++
			}
		}
	}
	subject := "broker " + number(id)
	d.note(subject, "has %s.", counted(hosted, "replica"))
	if single > 0 {
		d.note(subject, "has the only replica of %s, unavailable while it is down.", counted(single, "partition"))
	}
	if alone > 0 {
		d.trouble(subject, "wait until other replicas are in sync: kafka-topics.sh --describe --under-replicated-partitions", "has the only replica in sync of %s with others, unavailable while it is down.", counted(alone, "partition"))
	}
	if late > 0 {
		d.note(subject, "is out of sync for %s: it will copy what it lacks from the leaders.", counted(late, "partition"))
	}
}

// withStored returns the settings including those that ZooKeeper stores for all brokers and for this one.
func (d *doctor) withStored(z znodes, b *config.Broker, id int32) *config.Broker {
	log := logrus.New()
	log.SetOutput(io.Discard)
	all := config.NewDynamic(b, logrus.NewEntry(log))
	for _, layer := range []struct {
		name string
		set  func(stored map[string]string, znode string) error
	}{{zkcoord.DefaultEntity, all.SetCluster}, {number(id), all.SetBroker}} {
		path := "/config/brokers/" + layer.name
		stored, err := zkcoord.DecodeConfig(z[path].data)
		if err == nil {
			err = layer.set(stored, path)
		}
		if err != nil {
			d.trouble(path, "correct it with kafka-configs.sh --zookeeper", "%s", strings.TrimPrefix(err.Error(), "config: "))
		}
	}
	return all.Current()
}
