package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"barnabas/internal/javaprops"
	"barnabas/internal/uuid"
	"barnabas/internal/vfs"
)

const (
	partitionMetadataFile = "partition.metadata"
	metaFile              = "meta.properties"
	cleanFile             = ".kafka_cleanshutdown"
	cleanContent          = `{"version":0,"brokerEpoch":-1}`
	lockFile              = ".lock"
)

// readPartitionMetadata returns the topic id stored in a partition's directory, zero without the file. If the file
// cannot be parsed the error is ErrDamaged: without the id, a log might be mistaken for that of another topic with the
// same name.
func readPartitionMetadata(fsys vfs.FS, dir string) (id [16]byte, err error) {
	name := filepath.Join(dir, partitionMetadataFile)
	data, err := fsys.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return id, nil
	}
	if err != nil {
		return id, err
	}
	version, rest, _ := strings.Cut(string(data), "\n")
	topicID, ok := strings.CutPrefix(strings.TrimSpace(rest), "topic_id: ")
	if version != "version: 0" || !ok {
		return id, malformedMetadata(name, errors.New("no topic id"))
	}
	if id, err = uuid.Parse(topicID); err != nil {
		return id, malformedMetadata(name, err)
	}
	return id, nil
}

func malformedMetadata(name string, err error) error {
	return fmt.Errorf("%w: %s is malformed (%v): remove it if this log is the one of the topic with its name", ErrDamaged, name, err)
}

func writePartitionMetadata(fsys vfs.FS, dir string, id [16]byte) error {
	return vfs.WriteFile(fsys, filepath.Join(dir, partitionMetadataFile),
		[]byte("version: 0\ntopic_id: "+uuid.Text(id)))
}

// Meta is the content of meta.properties in a log directory.
type Meta struct {
	BrokerID  int32 // -1 if the file has none
	ClusterID string
}

// ReadMeta reads meta.properties of a log directory. ok is false if there is no such file.
func ReadMeta(fsys vfs.FS, dir string) (m Meta, ok bool, err error) {
	name := filepath.Join(dir, metaFile)
	data, err := fsys.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Meta{}, false, nil
	}
	if err != nil {
		return Meta{}, false, err
	}
	p, err := javaprops.Parse(data)
	if err != nil {
		return Meta{}, false, fmt.Errorf("%s: %w", name, err)
	}
	if version := p["version"]; version != "0" {
		return Meta{}, false, fmt.Errorf("%s: version is %q, but a broker in ZooKeeper mode has version 0", name, version)
	}
	m = Meta{BrokerID: -1, ClusterID: p["cluster.id"]}
	if id, ok := p["broker.id"]; ok {
		n, err := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
		if err != nil {
			return Meta{}, false, fmt.Errorf("%s: malformed broker.id %q", name, id)
		}
		m.BrokerID = int32(n)
	}
	return m, true, nil
}

// writeMeta writes meta.properties into a log directory.
func writeMeta(fsys vfs.FS, dir string, m Meta, now time.Time) error {
	text := fmt.Sprintf("#\n#%s\nbroker.id=%d\nversion=0\ncluster.id=%s\n",
		now.Format("Mon Jan 02 15:04:05 MST 2006"), m.BrokerID, m.ClusterID)
	return vfs.WriteFile(fsys, filepath.Join(dir, metaFile), []byte(text))
}

// StoredBrokerID returns the broker id that the directories were written with, or -1 if none has one. It is an error if
// they disagree. Missing directories are skipped.
func StoredBrokerID(fsys vfs.FS, dirs []string) (int32, error) {
	id, from := int32(-1), ""
	for _, dir := range dirs {
		m, ok, err := ReadMeta(fsys, dir)
		if err != nil {
			return -1, err
		}
		if !ok || m.BrokerID < 0 {
			continue
		}
		if id >= 0 && m.BrokerID != id {
			return -1, fmt.Errorf("log directories disagree: %s belongs to broker %d and %s to broker %d; "+
				"take the one that doesn't belong here out of log.dirs", from, id, dir, m.BrokerID)
		}
		id, from = m.BrokerID, dir
	}
	return id, nil
}

// checkMeta compares a directory's meta.properties with this broker's. A directory without one gets it; a directory
// with another one is refused and left as it is.
func checkMeta(fsys vfs.FS, dir string, want Meta, now time.Time) error {
	have, ok, err := ReadMeta(fsys, dir)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, metaFile)
	switch {
	case ok && have.ClusterID != "" && have.ClusterID != want.ClusterID:
		return fmt.Errorf("%w: %s has cluster.id %s, but ZooKeeper's /cluster/id is %s; set zookeeper.connect to the cluster "+
			"that this data belongs to, or use an empty directory for log.dirs", ErrWrongMeta, name, have.ClusterID, want.ClusterID)
	case ok && have.BrokerID >= 0 && have.BrokerID != want.BrokerID:
		return fmt.Errorf("%w: %s has broker.id %d, but the configured broker.id is %d; set broker.id to %d, "+
			"or use an empty directory for log.dirs", ErrWrongMeta, name, have.BrokerID, want.BrokerID, have.BrokerID)
	case ok && have == want:
		return nil
	}
	return writeMeta(fsys, dir, want, now)
}

// ErrWrongMeta reports that a log directory belongs to another broker or cluster.
var ErrWrongMeta = errors.New("log directory belongs elsewhere")
