package zkcoord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"barnabas/internal/uuid"

	"github.com/go-zookeeper/zk"
)

// EnsureTopNodes creates the nodes that are the ancestors of all others.
func (c *Client) EnsureTopNodes(ctx context.Context) error {
	return c.parallel(ctx, len(topNodes), func(ctx context.Context, i int) error {
		return c.ensurePath(ctx, topNodes[i])
	})
}

// clusterIDJSON is /cluster/id.
type clusterIDJSON struct {
	Version string `json:"version"`
	ID      string `json:"id"`
}

// ClusterID returns the cluster's id, which the first caller generates.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	n, found, err := c.find(ctx, clusterIDPath)
	if err != nil {
		return "", err
	}
	if !found {
		id := uuid.Text(uuid.New())
		if created, err := c.createDeep(ctx, clusterIDPath, encodeClusterID(id)); err != nil || created {
			return id, err
		}
		if n, err = c.get(ctx, clusterIDPath); err != nil { // another broker was faster
			return "", err
		}
	}
	return decodeClusterID(n.data)
}

func encodeClusterID(id string) []byte { return marshal(clusterIDJSON{Version: "1", ID: id}) }

func decodeClusterID(data []byte) (string, error) {
	var id clusterIDJSON
	if err := json.Unmarshal(data, &id); err != nil {
		return "", fmt.Errorf("%s: %w", clusterIDPath, err)
	}
	if id.ID == "" {
		return "", fmt.Errorf("%s contains no id", clusterIDPath)
	}
	return id.ID, nil
}

// GenerateBrokerID returns the next unused broker id above reservedMax (reserved.broker.max.id).
func (c *Client) GenerateBrokerID(ctx context.Context, reservedMax int32) (int32, error) {
	stat, err := c.set(ctx, brokerSeqPath, []byte{})
	if isNoNode(err) {
		if err := c.ensurePath(ctx, brokerSeqPath); err != nil {
			return 0, err
		}
		stat, err = c.set(ctx, brokerSeqPath, []byte{})
	}
	if err != nil {
		return 0, err
	}
	return reservedMax + stat.Version, nil
}

// Features is the content of /feature: the feature levels that the cluster has agreed on (KIP-584).
type Features struct {
	Format  int              // 2, or 1 with inter.broker.protocol.version before 3.3
	Enabled bool             // inter.broker.protocol.version is 2.7 or later
	Levels  map[string]int16 // finalized level by feature
	Epoch   int32            // the node's version, reported by ApiVersions
}

type featureLevelJSON struct {
	Min *int16 `json:"min_version_level,omitempty"`
	Max int16  `json:"max_version_level"`
}

type featuresJSON struct {
	Features map[string]featureLevelJSON `json:"features"`
	Version  int                         `json:"version"`
	Status   *int                        `json:"status"`
}

func encodeFeatures(f Features) []byte {
	status := 0
	if f.Enabled {
		status = 1
	}
	out := featuresJSON{Features: map[string]featureLevelJSON{}, Version: f.Format, Status: &status}
	for name, level := range f.Levels {
		entry := featureLevelJSON{Max: level}
		if f.Format == 1 {
			entry.Min = &level
		}
		out.Features[name] = entry
	}
	return marshal(out)
}

func decodeFeatures(data []byte, version int32) (Features, error) {
	var in featuresJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return Features{}, fmt.Errorf("%s: %w", featurePath, err)
	}
	if in.Version < 1 || in.Version > 2 {
		return Features{}, fmt.Errorf("%s: unknown version %d", featurePath, in.Version)
	}
	if in.Status == nil || *in.Status < 0 || *in.Status > 1 {
		return Features{}, fmt.Errorf("%s: no valid status", featurePath)
	}
	f := Features{Format: in.Version, Enabled: *in.Status == 1, Levels: map[string]int16{}, Epoch: version}
	for name, level := range in.Features {
		f.Levels[name] = level.Max
	}
	return f, nil
}

// WatchFeatures reads and watches the finalized features; found is false if there are none yet.
func (c *Client) WatchFeatures(ctx context.Context) (f Features, found bool, err error) {
	n, found, err := c.watch(ctx, featurePath)
	if err != nil || !found {
		return Features{}, false, err
	}
	f, err = decodeFeatures(n.data, n.stat.Version)
	return f, err == nil, err
}

// Features reads the finalized features; found is false if there are none yet.
func (c *Client) Features(ctx context.Context) (f Features, found bool, err error) {
	n, err := c.get(ctx, featurePath)
	if err != nil {
		return Features{}, false, ignoreNoNode(err)
	}
	f, err = decodeFeatures(n.data, n.stat.Version)
	return f, err == nil, err
}

// SetFeatures writes the finalized features, or creates them, as the controller of the term. It returns the new epoch.
func (c *Client) SetFeatures(ctx context.Context, term Term, f Features) (epoch int32, err error) {
	data := encodeFeatures(f)
	results, _, err := c.guarded(ctx, term, c.opSet(featurePath, data, anyVersion))
	if err == nil {
		return results[0].Stat.Version, nil
	}
	if !isNoNode(err) {
		return 0, err
	}
	_, lost, err := c.guarded(ctx, term, c.opCreate(featurePath, data, zk.FlagPersistent))
	if isNodeExists(err) && lost {
		err = nil
	}
	return 0, err
}

// ProducerIDBlock is a range of producer ids that one broker may assign.
type ProducerIDBlock struct {
	Broker int32
	Start  int64 // the first id
	End    int64 // the last id, inclusive
}

// producerIDBlockSize is the number of ids in a block.
const producerIDBlockSize = 1000

type producerIDBlockJSON struct {
	Version int        `json:"version"`
	Broker  int32      `json:"broker"`
	Start   numberText `json:"block_start"`
	End     numberText `json:"block_end"`
}

func encodeProducerIDBlock(b ProducerIDBlock) []byte {
	return marshal(producerIDBlockJSON{Version: 1, Broker: b.Broker, Start: numberText(b.Start), End: numberText(b.End)})
}

// DecodeProducerIDBlock decodes the last allocated block.
func DecodeProducerIDBlock(data []byte) (ProducerIDBlock, error) {
	var in producerIDBlockJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return ProducerIDBlock{}, fmt.Errorf("%s: %w", producerIDPath, err)
	}
	b := ProducerIDBlock{Broker: in.Broker, Start: int64(in.Start), End: int64(in.End)}
	if b.Start < 0 || b.End < b.Start {
		return ProducerIDBlock{}, fmt.Errorf("%s: ids from %d to %d", producerIDPath, b.Start, b.End)
	}
	return b, nil
}

var errProducerIDsExhausted = errors.New("zkcoord: all producer ids are used up")

// NextProducerIDs allocates the next block of 1,000 producer ids to a broker.
func (c *Client) NextProducerIDs(ctx context.Context, broker int32) (ProducerIDBlock, error) {
	for {
		n, err := c.get(ctx, producerIDPath)
		if err != nil {
			return ProducerIDBlock{}, err
		}
		block := ProducerIDBlock{Broker: broker, End: producerIDBlockSize - 1}
		if len(n.data) > 0 {
			last, err := DecodeProducerIDBlock(n.data)
			if err != nil {
				return ProducerIDBlock{}, err
			}
			block.Start, block.End = last.End+1, last.End+producerIDBlockSize
			if block.End < last.End {
				return ProducerIDBlock{}, errProducerIDsExhausted
			}
		}
		_, ok, err := c.setIf(ctx, producerIDPath, encodeProducerIDBlock(block), n.stat.Version)
		if err != nil || ok {
			return block, err
		}
	}
}
