package record

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// CheckProduce checks what a Produce request of the given version may contain for a partition, before the log is
// involved (ProduceRequest.validateRecords, 3.9): from version 3 on, exactly one batch of magic 2, without zstd below
// version 7. Older versions may contain anything that can be told apart (ReplicaManager.handleProduceAppend, 3.9). Bytes at
// the end that cannot be another batch are ignored. Null is refused in every version.
func CheckProduce(data []byte, version int16) error {
	walk := Split(data)
	if !walk.Next() {
		if err := walk.Err(); err != nil {
			return err
		}
		if version < 3 && data != nil {
			return nil
		}
		return invalid("a produce request needs a record batch for each partition")
	}
	if version < 3 {
		for walk.Next() {
		}
		return walk.Err()
	}
	b := walk.Batch()
	switch {
	case b.Magic() != 2:
		return invalid(fmt.Sprintf("produce requests of version %d carry record batches of magic 2 only", version))
	case version < 7 && b.Codec() == Zstd:
		return fmt.Errorf("produce requests of version %d cannot carry zstd: %w", version, kerr.UnsupportedCompressionType)
	case walk.Next():
		return invalid(fmt.Sprintf("produce requests of version %d carry one record batch for each partition", version))
	}
	return walk.Err()
}
