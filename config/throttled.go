package config

import (
	"strconv"
	"strings"
)

// ThrottledReplicas are the replicas of a topic whose replication is throttled (leader. and
// follower.replication.throttled.replicas, KIP-73). The zero value is empty.
type ThrottledReplicas struct {
	all bool
	of  map[throttledReplica]bool
}

type throttledReplica struct{ partition, broker int32 }

// newThrottledReplicas parses a list that throttledReplicas has accepted.
func newThrottledReplicas(list []string) ThrottledReplicas {
	var t ThrottledReplicas
	for _, item := range list {
		if item == "*" {
			return ThrottledReplicas{all: true}
		}
		partition, broker, _ := strings.Cut(item, ":")
		p, errP := strconv.ParseInt(partition, 10, 32)
		b, errB := strconv.ParseInt(broker, 10, 32)
		if errP != nil || errB != nil {
			continue // no partition or broker has such a number
		}
		if t.of == nil {
			t.of = make(map[throttledReplica]bool)
		}
		t.of[throttledReplica{int32(p), int32(b)}] = true
	}
	return t
}

// Has reports whether a broker's replica of a partition is throttled.
func (t ThrottledReplicas) Has(partition, broker int32) bool {
	return t.all || t.of[throttledReplica{partition, broker}]
}
