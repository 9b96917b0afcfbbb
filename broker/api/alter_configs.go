package api

import (
	"context"
	"fmt"
	"strconv"

	"barnabas/broker/acl"
	"barnabas/config"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// resource identifies what settings belong to.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// mayTouch checks the authorization for settings: those of a topic need an operation on the topic, all others on the
// cluster.
func (h *Handlers) mayTouch(c *Call, op acl.Operation, r resource) error {
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		return h.authorize.topic(c, op, r.name)
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics:
		return h.authorize.cluster(c, op)
	}
	return nil // unknown resource type: the handler reports it
}

// mayAlter checks the authorization for valid operations.
func (h *Handlers) mayAlter(c *Call, r resource, ops []config.Op) error {
	if err := config.CheckOps(ops); err != nil {
		return err
	}
	return codeOnly(h.mayTouch(c, acl.AlterConfigs, r))
}

// alterConfigs replaces all settings of topics and brokers (KIP-133).
func (h *Handlers) alterConfigs(ctx context.Context, c *Call, req *kmsg.AlterConfigsRequest) kmsg.Response {
	resp := kmsg.NewPtrAlterConfigsResponse()
	for _, r := range req.Resources {
		ops := make([]config.Op, 0, len(r.Configs))
		for _, s := range r.Configs {
			ops = append(ops, config.Op{Key: s.Name, Kind: config.OpSet, Value: s.Value})
		}
		err := h.replaceResource(ctx, c, resource{r.ResourceType, r.ResourceName}, ops, req.ValidateOnly)
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.ErrorCode, out.ErrorMessage = h.codeOf(err), message(err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

func (h *Handlers) replaceResource(ctx context.Context, c *Call, r resource, ops []config.Op, validateOnly bool) error {
	if r.kind == kmsg.ConfigResourceTypeBrokerLogger {
		return fmt.Errorf("log levels are changed one by one, with IncrementalAlterConfigs: %w", kerr.InvalidRequest)
	}
	if err := h.mayAlter(c, r, ops); err != nil {
		return err
	}
	return h.alterResource(ctx, r, ops, validateOnly, true)
}

// incrementalAlterConfigs changes single settings (KIP-339).
func (h *Handlers) incrementalAlterConfigs(ctx context.Context, c *Call, req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	seen := make(map[resource]int)
	for _, r := range req.Resources {
		seen[resource{r.ResourceType, r.ResourceName}]++
	}
	for _, r := range req.Resources {
		key := resource{r.ResourceType, r.ResourceName}
		ops, err := opsOf(&r)
		switch {
		case seen[key] > 1:
			err = fmt.Errorf("resource %q appears twice in one request: %w", r.ResourceName, kerr.InvalidRequest)
		case err == nil:
			if err = h.mayAlter(c, key, ops); err == nil {
				err = h.alterResource(ctx, key, ops, req.ValidateOnly, false)
			}
		}
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.ErrorCode, out.ErrorMessage = h.codeOf(err), message(err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// opsOf parses a resource's operations. An operation that does not exist in the protocol fails without a code in Apache
// Kafka.
func opsOf(r *kmsg.IncrementalAlterConfigsRequestResource) ([]config.Op, error) {
	ops := make([]config.Op, 0, len(r.Configs))
	for _, c := range r.Configs {
		if c.Op < 0 || c.Op > kmsg.IncrementalAlterConfigOpSubtract {
			return nil, kerr.UnknownServerError
		}
		ops = append(ops, config.Op{Key: c.Name, Kind: config.OpKind(c.Op), Value: c.Value})
	}
	return ops, nil
}

// alterResource applies operations to the current settings, or to none if all are to be replaced.
func (h *Handlers) alterResource(ctx context.Context, r resource, ops []config.Op, validateOnly, replace bool) error {
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		if err := h.topicToAlter(r.name, ops, replace); err != nil {
			return err
		}
		entity := zkcoord.Entity{Kind: zkcoord.Topics, Name: r.name}
		return h.store(ctx, entity, ops, validateOnly, replace, alteration{alter: h.Config.Current().AlterTopic})
	case kmsg.ConfigResourceTypeBroker:
		return h.alterBroker(ctx, r.name, ops, validateOnly, replace)
	case kmsg.ConfigResourceTypeBrokerLogger:
		if err := h.loggerResource(r.name); err != nil {
			return err
		}
		return h.Loggers.Alter(ops, validateOnly)
	}
	return fmt.Errorf("resource type %d cannot be altered here: %w", r.kind, kerr.InvalidRequest)
}

// topicToAlter checks that there is such a topic. An operation that no topic allows is told first, unless all settings
// are replaced (ZkAdminManager.incrementalAlterConfigs, 3.9).
func (h *Handlers) topicToAlter(name string, ops []config.Op, replace bool) error {
	if err := config.CheckOps(ops); err != nil {
		return err
	}
	if name == "" {
		return fmt.Errorf("topics have no default settings here: %w", kerr.InvalidRequest)
	}
	if h.Metadata.Current().Topics[name] != nil {
		return nil
	}
	if !replace {
		if err := config.CheckTopicOps(ops); err != nil {
			return err
		}
	}
	return fmt.Errorf("topic %q: %w", name, kerr.UnknownTopicOrPartition)
}

func (h *Handlers) alterBroker(ctx context.Context, name string, ops []config.Op, validateOnly, replace bool) error {
	all, err := h.Config.Current().BrokerResource(name)
	if err != nil {
		return err
	}
	entity := zkcoord.Entity{Kind: zkcoord.Brokers, Name: strconv.Itoa(int(h.BrokerID))}
	change := alteration{alter: h.Config.AlterBroker, accepted: h.reloadStores, encode: h.Config.EncodeBroker}
	if all {
		entity.Name, change = zkcoord.DefaultEntity, alteration{alter: h.Config.AlterCluster, encode: h.Config.EncodeCluster}
	}
	return h.store(ctx, entity, ops, validateOnly, replace, change)
}

// alteration is how to alter a kind of resource.
type alteration struct {
	alter  func(current map[string]string, ops []config.Op) (map[string]string, error)
	encode func(map[string]string) (map[string]string, error) // encodes settings for ZooKeeper; nil if they are stored as they are
	// accepted is called with valid settings before they are stored, and may still refuse them; may be nil.
	accepted func(map[string]string) error
}

// reloadStores reloads changed keystores when their settings are written again with the same values
// (DynamicBrokerConfig.reloadUpdatedFilesWithoutConfigChange, 3.9).
func (h *Handlers) reloadStores(settings map[string]string) error {
	next, err := h.Config.WithBroker(settings)
	if err != nil {
		return err
	}
	return h.ReloadStores(next)
}

func (h *Handlers) store(ctx context.Context, entity zkcoord.Entity, ops []config.Op, validateOnly, replace bool, change alteration) error {
	altered := func(current map[string]string) (map[string]string, error) {
		if replace {
			current = nil
		}
		return change.alter(current, ops)
	}
	if validateOnly {
		current, err := h.ZK.EntityConfig(ctx, entity)
		if err == nil {
			_, err = altered(current)
		}
		return err
	}
	update := func(current map[string]string) (map[string]string, error) {
		next, err := altered(current)
		if err == nil && change.accepted != nil {
			err = change.accepted(next)
		}
		if err == nil && change.encode != nil {
			next, err = change.encode(next)
		}
		return next, err
	}
	if entity.Kind == zkcoord.Topics {
		return h.ZK.UpdateTopicConfig(ctx, entity.Name, update)
	}
	return h.ZK.UpdateEntityConfig(ctx, entity, update)
}
