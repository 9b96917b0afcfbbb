package javahash

import "testing"

func TestPartitionFor(t *testing.T) {
	// Hashes of Java's String.hashCode; the partitions are those that Apache Kafka uses with 50.
	for key, want := range map[string]int32{"grp": 29, "": 0, "polygenelubricants": 0} {
		if got := PartitionFor(key, 50); got != want {
			t.Errorf("partition of %q is %d, want %d", key, got, want)
		}
	}
}
