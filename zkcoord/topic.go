package zkcoord

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"barnabas/internal/uuid"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TopicInfo is the content of a topic's node: its id and its partitions' replicas.
type TopicInfo struct {
	Name       string
	ID         ID                // zero: none (created before inter.broker.protocol.version 2.8)
	Partitions map[int32][]int32 // brokers by partition, the preferred leader first
	Adding     map[int32][]int32 // brokers that a reassignment is adding, if any
	Removing   map[int32][]int32 // brokers that a reassignment is removing
	Version    int32             // the node's version: not in the JSON, set when read
}

type topicOut struct {
	Partitions byPartition `json:"partitions"`
	ID         string      `json:"topic_id,omitempty"`
	Adding     byPartition `json:"adding_replicas"`
	Removing   byPartition `json:"removing_replicas"`
	Version    int         `json:"version"`
}

type topicIn struct {
	Partitions map[string][]int32 `json:"partitions"`
	ID         string             `json:"topic_id"`
	Adding     map[string][]int32 `json:"adding_replicas"`
	Removing   map[string][]int32 `json:"removing_replicas"`
}

func encodeTopic(t TopicInfo) []byte {
	out := topicOut{Partitions: t.Partitions, Adding: t.Adding, Removing: t.Removing, Version: 3}
	if t.ID != (ID{}) {
		out.ID = uuid.Text(t.ID)
	}
	return marshal(out)
}

// DecodeTopic decodes a topic's node.
func DecodeTopic(name string, data []byte) (TopicInfo, error) {
	var in topicIn
	if err := json.Unmarshal(data, &in); err != nil {
		return TopicInfo{}, fmt.Errorf("topic %s: %w", name, err)
	}
	t := TopicInfo{Name: name}
	var err error
	if in.ID != "" {
		if t.ID, err = uuid.Parse(in.ID); err != nil {
			return TopicInfo{}, fmt.Errorf("topic %s: %w", name, err)
		}
	}
	for _, part := range []struct {
		to   *map[int32][]int32
		from map[string][]int32
	}{{&t.Partitions, in.Partitions}, {&t.Adding, in.Adding}, {&t.Removing, in.Removing}} {
		if *part.to, err = numberKeys(part.from); err != nil {
			return TopicInfo{}, fmt.Errorf("topic %s: %w", name, err)
		}
	}
	return t, nil
}

func numberKeys(in map[string][]int32) (map[int32][]int32, error) {
	out := make(map[int32][]int32, len(in))
	for key, brokers := range in {
		p, err := strconv.ParseInt(key, 10, 32)
		if err != nil || p < 0 {
			return nil, fmt.Errorf("not a partition: %q", key)
		}
		out[int32(p)] = brokers
	}
	return out, nil
}

// Topics lists the topics' names in no particular order.
func (c *Client) Topics(ctx context.Context) ([]string, error) {
	names, err := c.children(ctx, topicsPath)
	return names, ignoreNoNode(err)
}

// WatchTopics is Topics, and watches for new and deleted ones.
func (c *Client) WatchTopics(ctx context.Context) ([]string, error) {
	return c.watchChildren(ctx, topicsPath)
}

// Topic reads a topic and its node's version. The error for a missing one is ErrNoTopic.
func (c *Client) Topic(ctx context.Context, name string) (TopicInfo, int32, error) {
	n, err := c.get(ctx, topicPath(name))
	if isNoNode(err) {
		return TopicInfo{}, 0, ErrNoTopic
	}
	if err != nil {
		return TopicInfo{}, 0, err
	}
	t, err := DecodeTopic(name, n.data)
	t.Version = n.stat.Version
	return t, n.stat.Version, err
}

// WatchTopicInfos reads topics and watches their assignments. Topics that are missing or cannot be decoded are left
// out, the latter logged.
func (c *Client) WatchTopicInfos(ctx context.Context, names []string) ([]TopicInfo, error) {
	return c.topicInfos(ctx, names, c.watchData)
}

// NewestTopics lists the topics and reads those that are wanted, all of them up to date rather than as known to a
// server that lags behind the others.
func (c *Client) NewestTopics(ctx context.Context, want func(name string) bool) (names []string, infos []TopicInfo, err error) {
	if err := c.sync(ctx, topicsPath); err != nil {
		return nil, nil, err
	}
	if names, err = c.Topics(ctx); err != nil {
		return nil, nil, err
	}
	var wanted []string
	for _, name := range names {
		if want(name) {
			wanted = append(wanted, name)
		}
	}
	infos, err = c.topicInfos(ctx, wanted, c.get)
	return names, infos, err
}

func (c *Client) topicInfos(ctx context.Context, names []string, read func(ctx context.Context, path string) (node, error)) ([]TopicInfo, error) {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = topicPath(name)
	}
	found, err := readAll(ctx, c, paths, read, func(i int, n node) (TopicInfo, error) {
		t, err := DecodeTopic(names[i], n.data)
		t.Version = n.stat.Version
		return t, err
	})
	return present(found), err
}

// CreateTopic creates a topic with its configuration, in one request so that whoever sees the topic sees its settings;
// the controller, which is watching, creates the partitions. It returns the topic's new id (zero with
// Config.NoTopicIDs). The error for a topic that exists, even if it is to be deleted, is TOPIC_ALREADY_EXISTS.
func (c *Client) CreateTopic(ctx context.Context, name string, assignment map[int32][]int32, configs map[string]string) (ID, error) {
	t := TopicInfo{Name: name, Partitions: assignment}
	if !c.cfg.NoTopicIDs {
		t.ID = uuid.New()
	}
	for range rewriteAttempts {
		ops, err := c.creationOf(ctx, t, configs)
		if err != nil {
			return ID{}, err
		}
		done, unsure, err := c.try(ctx, ops...)
		if err == nil && unsure {
			done, err = c.hasCreated(ctx, t)
		} else if err == nil && !done {
			err = c.letOthersProceed(ctx)
		}
		if err != nil || done {
			return t.ID, wrapPath("create", topicPath(name), err)
		}
	}
	return ID{}, fmt.Errorf("topic '%s': others keep changing what its creation depends on: %w", name, ErrConflict)
}

// creationOf returns the operations that create a topic that does not exist.
func (c *Client) creationOf(ctx context.Context, t TopicInfo, configs map[string]string) (ops []any, err error) {
	for _, path := range []string{deletePath(t.Name), topicPath(t.Name)} {
		found, err := c.exists(ctx, path)
		if err != nil {
			return nil, err
		}
		if found {
			return nil, fmt.Errorf("topic '%s' already exists: %w", t.Name, kerr.TopicAlreadyExists)
		}
	}
	settings := Entity{Topics, t.Name}.Path() // may be left over from a former topic
	n, found, err := c.find(ctx, settings)
	if err != nil {
		return nil, err
	}
	check, err := c.sameController(ctx, true)
	return append(check, c.opPut(settings, encodeConfig(configs), n, found), c.opCreate(topicPath(t.Name), encodeTopic(t), zk.FlagPersistent)), err
}

// hasCreated reports whether there is the topic that we may have created, by its id or else by its whole content: others
// may have written it since.
func (c *Client) hasCreated(ctx context.Context, t TopicInfo) (bool, error) {
	n, found, err := c.findNewest(ctx, topicPath(t.Name))
	if err != nil || !found {
		return false, err
	}
	if now, err := DecodeTopic(t.Name, n.data); err == nil && t.ID != (ID{}) {
		return now.ID == t.ID, nil
	}
	return bytes.Equal(n.data, encodeTopic(t)), nil
}

// AddPartitions adds partitions to a topic. Errors: REASSIGNMENT_IN_PROGRESS while its replicas are being moved;
// INVALID_PARTITIONS if one exists already.
func (c *Client) AddPartitions(ctx context.Context, name string, added map[int32][]int32) error {
	unsure := false // whether they may have been added by an attempt whose response was lost
	for {
		t, version, err := c.Topic(ctx, name)
		if err != nil {
			return err
		}
		if unsure && includes(t.Partitions, added) {
			return nil
		}
		if len(t.Adding)+len(t.Removing) > 0 {
			return fmt.Errorf("topic %s: %w", name, kerr.ReassignmentInProgress)
		}
		for p := range added {
			if _, ok := t.Partitions[p]; ok {
				return fmt.Errorf("topic %s has a partition %d: %w", name, p, kerr.InvalidPartitions)
			}
		}
		maps.Copy(t.Partitions, added)
		_, ok, maybe, err := c.trySet(ctx, topicPath(name), encodeTopic(t), version)
		if err != nil || ok {
			return err
		}
		unsure = unsure || maybe
	}
}

// includes reports whether all has the partitions with the same replicas.
func includes(all, some map[int32][]int32) bool {
	for p, replicas := range some {
		if has, ok := all[p]; !ok || !slices.Equal(has, replicas) {
			return false
		}
	}
	return true
}

// SetTopic writes a topic's assignment as the controller of the term over the one with its version, and returns the new
// version. After a concurrent change the error is ErrConflict; for a missing topic, ErrNoTopic. Apache Kafka overwrites
// whatever is there, including partitions that were added since it last read the node.
func (c *Client) SetTopic(ctx context.Context, term Term, t TopicInfo) (version int32, err error) {
	data := encodeTopic(t)
	results, lost, err := c.guarded(ctx, term, c.opSet(topicPath(t.Name), data, t.Version))
	switch {
	case err == nil:
		return results[0].Stat.Version, nil
	case isNoNode(err):
		return 0, ErrNoTopic
	case !isBadVersion(err):
		return 0, err
	}
	if lost {
		if version, ok, err := c.written(ctx, topicPath(t.Name), data, t.Version); err != nil || ok {
			return version, err
		}
	}
	return 0, fmt.Errorf("topic %s: %w", t.Name, ErrConflict)
}

// RequestTopicDeletion requests the deletion of a topic from the controller; it may be called twice. After a lost
// response it requests it again only if the topic is still the same: its deletion may be over, and a new topic may have
// its name.
func (c *Client) RequestTopicDeletion(ctx context.Context, name string) error {
	wanted, _, err := request(ctx, c, func(conn Conn) (int64, error) { return c.topicCreation(conn, name) })
	if err != nil {
		return wrapPath("look up", topicPath(name), err)
	}
	again := false
	_, _, err = request(ctx, c, func(conn Conn) (string, error) {
		if again {
			if now, err := c.topicCreation(conn, name); err != nil || now != wanted {
				return "", err
			}
		}
		again = true
		return conn.Create(c.chroot+deletePath(name), nil, zk.FlagPersistent, c.aclOf(deletePath(name)))
	})
	switch {
	case isNodeExists(err):
		return nil
	case isNoNode(err): // the parent is missing
		if err := c.ensurePath(ctx, deleteTopicsPath); err != nil {
			return err
		}
		return c.RequestTopicDeletion(ctx, name)
	}
	return wrapPath("create", deletePath(name), err)
}

// topicCreation returns the zxid with which a topic was created; 0 if there is none.
func (c *Client) topicCreation(conn Conn, name string) (czxid int64, err error) {
	found, stat, err := conn.Exists(c.chroot + topicPath(name))
	if err != nil || !found {
		return 0, err
	}
	return stat.Czxid, nil
}

// WatchTopicDeletions lists and watches the topics that are to be deleted.
func (c *Client) WatchTopicDeletions(ctx context.Context) ([]string, error) {
	return c.watchChildren(ctx, deleteTopicsPath)
}

// WithdrawTopicDeletion removes the request to delete a topic.
func (c *Client) WithdrawTopicDeletion(ctx context.Context, term Term, name string) error {
	_, _, err := c.guarded(ctx, term, c.opDelete(deletePath(name)))
	return ignoreNoNode(err)
}

// DeleteTopic removes everything about a topic: the nodes of its partitions, children first, its configuration, and at
// last the request to delete it.
func (c *Client) DeleteTopic(ctx context.Context, term Term, name string) error {
	if err := c.deleteTreeAs(ctx, term, topicPath(name)); err != nil {
		return err
	}
	for _, path := range []string{entityPath(string(Topics), name), deletePath(name)} {
		if _, _, err := c.guarded(ctx, term, c.opDelete(path)); ignoreNoNode(err) != nil {
			return fmt.Errorf("delete %s: %w", path, err)
		}
	}
	return nil
}

// deleteBatch is how many nodes one multi removes or creates.
const deleteBatch = 200

// deleteTreeAs removes a tree, children first, in few requests, each of which is all or nothing.
func (c *Client) deleteTreeAs(ctx context.Context, term Term, path string) error {
	paths, err := c.tree(ctx, path)
	if err != nil {
		return err
	}
	for len(paths) > 0 {
		n := min(deleteBatch, len(paths))
		ops := make([]any, n)
		for i, p := range paths[:n] {
			ops[i] = c.opDelete(p)
		}
		if _, _, err := c.guarded(ctx, term, ops...); err != nil {
			if isNoNode(err) || isNotEmpty(err) { // a concurrent deletion, or our own with a lost response
				return c.deleteTreeAs(ctx, term, path)
			}
			return fmt.Errorf("delete %s: %w", path, err)
		}
		paths = paths[n:]
	}
	return nil
}

// tree lists a node and everything below it, children before their parents.
func (c *Client) tree(ctx context.Context, path string) ([]string, error) {
	var paths []string
	for level := []string{path}; len(level) > 0; {
		names := make([][]string, len(level))
		err := c.parallel(ctx, len(level), func(ctx context.Context, i int) error {
			children, err := c.children(ctx, level[i])
			for _, name := range children {
				names[i] = append(names[i], level[i]+"/"+name)
			}
			if isNoNode(err) {
				level[i] = ""
				return nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, p := range level {
			if p != "" {
				paths = append(paths, p)
			}
		}
		level = slices.Concat(names...)
	}
	slices.Reverse(paths)
	return paths, nil
}

// SetTopicID assigns an id to a topic that has none, as the controller of the term. The topic's other fields must be as
// they were read, with that version; after a concurrent change the error is ErrConflict.
func (c *Client) SetTopicID(ctx context.Context, term Term, t TopicInfo, version int32) error {
	data := encodeTopic(t)
	_, lost, err := c.guarded(ctx, term, c.opSet(topicPath(t.Name), data, version))
	if isBadVersion(err) && lost {
		if _, ok, err := c.written(ctx, topicPath(t.Name), data, version); err != nil || ok {
			return err
		}
	}
	if isRefusal(err) {
		return ErrConflict
	}
	return err
}
