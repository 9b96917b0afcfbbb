package api

import (
	"fmt"
	"regexp"
	"strings"

	"barnabas/broker/group"
	"barnabas/broker/metadata"
	"barnabas/broker/txn"

	"github.com/twmb/franz-go/pkg/kerr"
)

// The internal topics.
const (
	offsetsTopic      = group.Topic
	transactionsTopic = txn.Topic
	clusterTopic      = "__cluster_metadata" // KRaft's; cannot be created
)

func isInternal(topic string) bool { return topic == offsetsTopic || topic == transactionsTopic }

// maxTopicName leaves room for the suffixes of a partition's directory within the length of a file name.
const maxTopicName = 249

var topicNameChars = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// checkTopicName returns INVALID_TOPIC_EXCEPTION if a name is not allowed for a topic.
func checkTopicName(name string) error {
	reason := ""
	switch {
	case name == "":
		reason = "is empty"
	case name == "." || name == "..":
		reason = "is a directory's"
	case len(name) > maxTopicName:
		reason = fmt.Sprintf("has %d characters, at most %d may be", len(name), maxTopicName)
	case !topicNameChars.MatchString(name):
		reason = "has other characters than letters, digits, '.', '_' and '-'"
	default:
		return nil
	}
	return fmt.Errorf("topic name %q %s: %w", name, reason, kerr.InvalidTopicException)
}

// checkCollision refuses a name that differs from an existing one only in dots and underscores, which metrics cannot
// distinguish.
func checkCollision(p *metadata.Snapshot, name string) error {
	if !strings.ContainsAny(name, "._") {
		return nil
	}
	flat := strings.ReplaceAll(name, ".", "_")
	for other := range p.Topics {
		if other != name && strings.ReplaceAll(other, ".", "_") == flat {
			return fmt.Errorf("topic name %q collides with %q: %w", name, other, kerr.InvalidTopicException)
		}
	}
	return nil
}
