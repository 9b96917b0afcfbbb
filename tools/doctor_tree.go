package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"barnabas/zkcoord"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"
)

// znodes is a cluster's state in ZooKeeper, by path without the chroot. The doctor reads it raw, since it is asked for
// what brokers would not understand.
type znodes map[string]znode

type znode struct {
	data []byte
	stat *zk.Stat
}

// treeRoots are the subtrees that the doctor reads. Others are ignored.
var treeRoots = []string{"/brokers", "/admin", "/cluster", "/config", "/controller", "/controller_epoch", "/feature", "/latest_producer_id_block",
	"/migration", "/isr_change_notification", "/log_dir_event_notification", "/kafka-acl", "/kafka-acl-extended", "/kafka-acl-changes",
	"/kafka-acl-extended-changes", "/delegation_token"}

// readsAtOnce is the number of concurrent requests to ZooKeeper.
const readsAtOnce = 32

// readTree reads the cluster's nodes.
func (d *doctor) readTree(ctx context.Context) (znodes, error) {
	connect, err := d.zookeeperOf(ctx)
	if err != nil {
		return nil, err
	}
	access, err := d.zooKeeperAccess()
	if err != nil {
		return nil, err
	}
	s, err := dialZooKeeper(ctx, &Env{Stdout: io.Discard, Stderr: d.env.Stderr}, connect, access)
	if err != nil {
		return nil, err
	}
	defer s.conn.Close()
	w := walker{conn: s.conn, chroot: s.chroot}
	w.mu.found = make(znodes)
	for _, root := range treeRoots {
		if err := walkDown(ctx, root, w.read); err != nil {
			return nil, fmt.Errorf("ZooKeeper at %s: %w", connect, err)
		}
	}
	if _, ok := w.mu.found["/brokers"]; !ok {
		return nil, fmt.Errorf("ZooKeeper at %s holds no cluster: there is no %s/brokers", connect, s.chroot)
	}
	d.hidden = w.mu.hidden
	return w.mu.found, nil
}

// zooKeeperAccess returns how to connect to ZooKeeper: as the broker that is asked about, or according to
// zookeeper.ssl.* among the settings of --command-config.
func (d *doctor) zooKeeperAccess() (zkAccess, error) {
	if d.settings != nil && *d.o.config == "" {
		return brokerZooKeeperAccess(d.settings)
	}
	p, err := readProperties(*d.o.config)
	if err != nil {
		return zkAccess{}, err
	}
	var file string
	if strings.EqualFold(p["zookeeper.ssl.client.enable"], "true") {
		file = *d.o.config
	}
	return zooKeeperAccess(d.env, file)
}

// zookeeperOf returns the given address, or the one that the brokers use.
func (d *doctor) zookeeperOf(ctx context.Context) (string, error) {
	if *d.zookeeper != "" {
		return *d.zookeeper, nil
	}
	meta, err := fetchMetadata(ctx, d.cl)
	if err != nil {
		return "", err
	}
	for _, b := range meta.Brokers {
		s, err := d.brokerSettings(ctx, b.NodeID)
		if err == nil && s["zookeeper.connect"] != "" {
			return s["zookeeper.connect"], nil
		}
	}
	return "", errors.New("the brokers do not tell their zookeeper.connect; name it with --zookeeper")
}

// walker reads nodes and their descendants.
type walker struct {
	conn   *zk.Conn
	chroot string

	mu struct {
		sync.Mutex
		found  znodes
		hidden []string // nodes that this client may not read
	}
}

// walkDown visits a node, then all of its children concurrently, then theirs. visit returns the paths of a node's
// children. After an error no more nodes are visited.
func walkDown(ctx context.Context, path string, visit func(path string) ([]string, error)) error {
	for level := []string{path}; len(level) > 0; {
		below := make([][]string, len(level))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(readsAtOnce)
		for i, p := range level {
			group.Go(func() (err error) {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				below[i], err = visit(p)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		level = slices.Concat(below...)
	}
	return nil
}

// read reads a node and returns the paths of its children. It is not an error if the node has been deleted.
func (w *walker) read(path string) ([]string, error) {
	data, stat, err := w.conn.Get(w.chroot + path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if errors.Is(err, zk.ErrNoAuth) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mu.hidden = append(w.mu.hidden, path)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	w.mu.Lock()
	w.mu.found[path] = znode{data, stat}
	w.mu.Unlock()
	if stat.NumChildren == 0 {
		return nil, nil
	}
	names, _, err := w.conn.Children(w.chroot + path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range names {
		names[i] = path + "/" + names[i]
	}
	return names, nil
}

// children returns the names of a node's children, sorted.
func (z znodes) children(path string) []string {
	var names []string
	for p := range z {
		if name, ok := strings.CutPrefix(p, path+"/"); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// families returns the names of all nodes' children, by their parent's path. It is for many parents: children examines
// the whole tree each time.
func (z znodes) families() map[string][]string {
	all := make(map[string][]string)
	for p := range z {
		parent, name := path.Split(p)
		parent = strings.TrimSuffix(parent, "/")
		all[parent] = append(all[parent], name)
	}
	for _, names := range all {
		slices.Sort(names)
	}
	return all
}

func (z znodes) has(path string) bool { _, ok := z[path]; return ok }

// into decodes a node's JSON.
func (z znodes) into(path string, v any) error {
	if err := json.Unmarshal(z[path].data, v); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	return nil
}

// brokerIDs returns the registered brokers.
func (z znodes) brokerIDs() map[int32]bool {
	ids := make(map[int32]bool)
	for _, name := range z.children("/brokers/ids") {
		if id, err := strconv.ParseInt(name, 10, 32); err == nil {
			ids[int32(id)] = true
		}
	}
	return ids
}

// topic decodes a topic's node.
func (z znodes) topic(name string) (zkcoord.TopicInfo, error) {
	t, err := zkcoord.DecodeTopic(name, z[topicPath(name)].data)
	if err != nil {
		return t, fmt.Errorf("cannot be read: %w", err)
	}
	return t, nil
}

// reassigned returns the partitions in a reassignment.
func reassigned(t zkcoord.TopicInfo) []int32 {
	all := make(map[int32]bool)
	for _, m := range []map[int32][]int32{t.Adding, t.Removing} {
		for p, replicas := range m {
			if len(replicas) > 0 {
				all[p] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// absent returns the brokers that have replicas of a topic but are not registered.
func absent(t zkcoord.TopicInfo, registered map[int32]bool) []int32 {
	missing := make(map[int32]bool)
	for _, replicas := range t.Partitions {
		for _, id := range replicas {
			if !registered[id] {
				missing[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

func topicPath(name string) string { return "/brokers/topics/" + name }

func partitionPath(topic string, partition int32) string {
	return topicPath(topic) + "/partitions/" + number(partition)
}
