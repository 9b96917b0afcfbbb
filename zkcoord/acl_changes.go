package zkcoord

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"barnabas/internal/logx"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type aclChangeJSON struct {
	Version int    `json:"version"`
	Type    string `json:"resourceType"`
	Name    string `json:"name"`
	Pattern string `json:"patternType"`
}

// encodeACLChange returns the notification that a resource's ACLs have changed: TYPE:NAME for a literal pattern, as
// understood by releases without prefixes, otherwise JSON.
func encodeACLChange(r ACLResource) []byte {
	if r.Pattern == kmsg.ACLResourcePatternTypeLiteral {
		return []byte(r.Type.String() + ":" + r.Name)
	}
	return marshal(aclChangeJSON{1, r.Type.String(), r.Name, r.Pattern.String()})
}

// DecodeACLChange decodes a node below /kafka-acl-changes: the resource whose ACLs have changed.
func DecodeACLChange(data []byte) (ACLResource, error) {
	kind, name, ok := strings.Cut(string(data), ":")
	if !ok {
		return ACLResource{}, fmt.Errorf("change of ACLs: %.100q is not TYPE:NAME", data)
	}
	return changedACLs(kind, name, kmsg.ACLResourcePatternTypeLiteral)
}

// DecodeExtendedACLChange decodes a node below /kafka-acl-extended-changes.
func DecodeExtendedACLChange(data []byte) (ACLResource, error) {
	var in aclChangeJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return ACLResource{}, fmt.Errorf("change of ACLs: %w", err)
	}
	if in.Version != 1 {
		return ACLResource{}, fmt.Errorf("change of ACLs: version %d is not known", in.Version)
	}
	if !strings.EqualFold(in.Pattern, kmsg.ACLResourcePatternTypePrefixed.String()) {
		return ACLResource{}, fmt.Errorf("change of ACLs: pattern type %q is not known", in.Pattern)
	}
	return changedACLs(in.Type, in.Name, kmsg.ACLResourcePatternTypePrefixed)
}

func changedACLs(kind, name string, pattern kmsg.ACLResourcePatternType) (ACLResource, error) {
	i := slices.IndexFunc(aclTypes, func(t kmsg.ACLResourceType) bool { return strings.EqualFold(t.String(), kind) })
	if i < 0 {
		return ACLResource{}, fmt.Errorf("change of ACLs: resource type %q is not known", kind)
	}
	r := ACLResource{aclTypes[i], pattern, name}
	if err := r.Check(); err != nil {
		return ACLResource{}, fmt.Errorf("change of ACLs: %w", err)
	}
	return r, nil
}

// notifications returns the place for notifications about a resource's ACLs.
func (r ACLResource) notifications() notifications {
	if r.Pattern == kmsg.ACLResourcePatternTypeLiteral {
		return notifications{aclChangesPath, aclChangePrefix}
	}
	return notifications{extendedACLChangesPath, aclChangePrefix}
}

// aclNotes are the two places for notifications about ACLs.
var aclNotes = []struct {
	notifications
	decode func([]byte) (ACLResource, error)
}{
	{notifications{aclChangesPath, aclChangePrefix}, DecodeACLChange},
	{notifications{extendedACLChangesPath, aclChangePrefix}, DecodeExtendedACLChange},
}

// WatchACLChanges calls changed for the resources whose ACLs were written, until ctx is done; the callee then reads
// them. If all is true, any may have changed: the session was lost, or a notification could not be decoded. ready, if
// not nil, is called when the watches are in place, so that no change after a read is missed.
func (c *Client) WatchACLChanges(ctx context.Context, ready func(), changed func(resources []ACLResource, all bool)) error {
	last := make([]int64, len(aclNotes))
	for i := range last {
		last[i] = -1
	}
	return c.followNotifications(ctx, ACLNotificationsAdded, ready, func(all bool) error {
		var resources []ACLResource
		for i, kind := range aclNotes {
			notes, err := c.newNotifications(ctx, kind.notifications, &last[i])
			if err != nil {
				return err
			}
			for _, n := range notes {
				r, err := kind.decode(n.data)
				if err != nil {
					c.log.WithError(err).WithField(logx.Znode, n.path).Error("cannot decode a notification, reading all ACLs again")
					all = true
					continue
				}
				resources = append(resources, r)
			}
		}
		if len(resources) > 0 || all {
			changed(resources, all)
		}
		return nil
	})
}
