package api

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"barnabas/broker/acl"
	"barnabas/broker/quota"
	"barnabas/internal/errcode"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alterClientQuotas sets quotas of users, client ids and addresses (KIP-546, 612). Every broker may serve it.
func (h *Handlers) alterClientQuotas(ctx context.Context, c *Call, req *kmsg.AlterClientQuotasRequest) kmsg.Response {
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	denied := h.authorize.cluster(c, acl.AlterConfigs)
	for _, entry := range req.Entries {
		out := kmsg.NewAlterClientQuotasResponseEntry()
		for _, part := range entry.Entity {
			p := kmsg.NewAlterClientQuotasResponseEntryEntity()
			p.Type, p.Name = part.Type, part.Name
			out.Entity = append(out.Entity, p)
		}
		err := denied
		if err == nil {
			err = h.alterQuotas(ctx, entry, req.ValidateOnly)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = h.codeOf(err), message(err)
		}
		resp.Entries = append(resp.Entries, out)
	}
	return resp
}

func (h *Handlers) alterQuotas(ctx context.Context, entry kmsg.AlterClientQuotasRequestEntry, validateOnly bool) error {
	e, err := namedEntity(entry.Entity)
	if err != nil {
		return err
	}
	node, err := quotaNode(ctx, e)
	if err != nil {
		return err
	}
	changed := make(map[string]string) // empty: removed
	for _, op := range entry.Ops {
		if op.Remove {
			changed[op.Key] = ""
			continue
		}
		if changed[op.Key], err = quotaValue(op.Key, op.Value, e.IP.Given); err != nil {
			return err
		}
	}
	if validateOnly {
		return nil
	}
	return h.ZK.UpdateEntityConfig(ctx, node, func(config map[string]string) (map[string]string, error) {
		for key, value := range changed {
			if config[key] = value; value == "" {
				delete(config, key)
			}
		}
		return config, nil
	})
}

// quotaValue formats a value for storage: rates of bytes and connections are integers, the others decimal (as 3.9
// stores them).
func quotaValue(key string, value float64, address bool) (string, error) {
	kind, known := quota.KindOf(key)
	if !known || kind.OfAddress() != address {
		return "", fmt.Errorf("quota key %q: %w", key, kerr.InvalidRequest)
	}
	if value < 0 || math.IsNaN(value) || math.IsInf(value, 0) {
		return "", fmt.Errorf("%s=%v must not be negative: %w", key, value, kerr.InvalidRequest)
	}
	if kind == quota.Request || kind == quota.Mutation {
		if value == math.Trunc(value) && value < 1e7 {
			return strconv.FormatFloat(value, 'f', 1, 64), nil
		}
		return strconv.FormatFloat(value, 'f', -1, 64), nil
	}
	largest := int64(math.MaxInt64)
	if kind.OfAddress() {
		largest = math.MaxInt32
	}
	if whole := math.Round(value); math.Abs(value-whole) > 1e-6 || whole > float64(largest) { // Apache Kafka's brokers could not read it
		return "", fmt.Errorf("%s=%v must be a whole number of at most %d: %w", key, value, largest, kerr.InvalidRequest)
	} else if whole < math.MaxInt64 {
		return strconv.FormatInt(int64(whole), 10), nil
	}
	return strconv.FormatInt(largest, 10), nil
}

// The ways in which a component of DescribeClientQuotas matches a name.
const (
	matchExact = iota
	matchDefault
	matchAny
)

// describeClientQuotas lists the quotas that match all components (KIP-546). If strict, entities with parts that no
// component mentions do not match.
func (h *Handlers) describeClientQuotas(ctx context.Context, c *Call, req *kmsg.DescribeClientQuotasRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	if err := h.authorize.cluster(c, acl.DescribeConfigs); err != nil {
		resp.ErrorCode = errcode.Of(err)
		return resp
	}
	resp.ErrorMessage = noMessage()
	entries, err := h.describeQuotas(ctx, req)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = h.codeOf(err), message(err)
		return resp
	}
	resp.Entries = entries
	return resp
}

func (h *Handlers) describeQuotas(ctx context.Context, req *kmsg.DescribeClientQuotasRequest) ([]kmsg.DescribeClientQuotasResponseEntry, error) {
	wanted, err := newQuotaFilter(req)
	if err != nil {
		return nil, err
	}
	entries := []kmsg.DescribeClientQuotasResponseEntry{}
	all, err := StoredQuotas(ctx, h.ZK)
	if err != nil {
		return nil, err
	}
	for e, stored := range all {
		if !wanted.matches(e) {
			continue
		}
		if entry := quotaEntry(e, stored); len(entry.Values) > 0 {
			entries = append(entries, entry)
		}
	}
	slices.SortFunc(entries, func(a, b kmsg.DescribeClientQuotasResponseEntry) int {
		return slices.CompareFunc(a.Entity, b.Entity, func(x, y kmsg.DescribeClientQuotasResponseEntryEntity) int {
			return cmp.Or(cmp.Compare(x.Type, y.Type), cmp.Compare(deref(x.Name), deref(y.Name)))
		})
	})
	return entries, nil
}

// quotaEntry returns an entity with its quotas for the response.
func quotaEntry(e quota.Entity, stored map[string]string) kmsg.DescribeClientQuotasResponseEntry {
	out := kmsg.NewDescribeClientQuotasResponseEntry()
	for _, kind := range []string{userType, clientIDType, ipType} {
		if n := entityPart(&e, kind); n.Given {
			p := kmsg.NewDescribeClientQuotasResponseEntryEntity()
			if p.Type = kind; !n.Default {
				p.Name = &n.Value
			}
			out.Entity = append(out.Entity, p)
		}
	}
	limits, _ := quota.ParseLimits(stored) // invalid ones are not in force, and not reported
	for kind, bound := range limits {
		v := kmsg.NewDescribeClientQuotasResponseEntryValue()
		v.Key, v.Value = kind.Key(), bound
		out.Values = append(out.Values, v)
	}
	slices.SortFunc(out.Values, func(a, b kmsg.DescribeClientQuotasResponseEntryValue) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// quotaFilter selects entities: those whose parts meet the conditions. If strict, they have no other parts.
type quotaFilter struct {
	conditions map[string]func(quota.Name) bool // by type
	strict     bool
}

func newQuotaFilter(req *kmsg.DescribeClientQuotasRequest) (quotaFilter, error) {
	f := quotaFilter{make(map[string]func(quota.Name) bool), req.Strict}
	for _, c := range req.Components {
		condition, err := quotaCondition(c)
		if err != nil {
			return f, err
		}
		if f.conditions[c.EntityType] != nil {
			return f, fmt.Errorf("two components for entity type %s: %w", c.EntityType, kerr.InvalidRequest)
		}
		f.conditions[c.EntityType] = condition
	}
	if f.conditions[ipType] != nil && len(f.conditions) > 1 {
		return f, fmt.Errorf("a component for ip together with others: %w", kerr.InvalidRequest)
	}
	return f, nil
}

func (f quotaFilter) matches(e quota.Entity) bool {
	clients := f.conditions[userType] != nil || f.conditions[clientIDType] != nil
	if e.IP.Given && clients || !e.IP.Given && f.conditions[ipType] != nil {
		return false
	}
	for _, kind := range []string{userType, clientIDType, ipType} {
		n, condition := *entityPart(&e, kind), f.conditions[kind]
		if condition != nil && !condition(n) || condition == nil && n.Given && f.strict {
			return false
		}
	}
	return true
}

func quotaCondition(c kmsg.DescribeClientQuotasRequestComponent) (func(quota.Name) bool, error) {
	switch {
	case c.EntityType == "":
		return nil, fmt.Errorf("a component without an entity type: %w", kerr.InvalidRequest)
	case entityPart(new(quota.Entity), c.EntityType) == nil:
		return nil, fmt.Errorf("entity type %q: %w", c.EntityType, kerr.UnsupportedVersion)
	}
	switch c.MatchType {
	case matchExact:
		if c.Match == nil {
			return nil, fmt.Errorf("an exact match for %s without a name: %w", c.EntityType, kerr.UnknownServerError)
		}
		want := quota.Named(*c.Match)
		return func(n quota.Name) bool { return n == want }, nil
	case matchDefault:
		if c.Match != nil {
			return nil, fmt.Errorf("a match of the default %s with a name: %w", c.EntityType, kerr.InvalidRequest)
		}
		return func(n quota.Name) bool { return n == quota.DefaultName }, nil
	case matchAny:
		return func(n quota.Name) bool { return n.Given }, nil
	}
	return nil, fmt.Errorf("match type %d: %w", c.MatchType, kerr.UnknownServerError)
}
