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

// describeConfigs returns the settings of topics, brokers and loggers. v0: no setting is marked as a default, as in
// 3.9. v1: sources and synonyms (KIP-226). v3: types and documentation.
func (h *Handlers) describeConfigs(ctx context.Context, c *Call, req *kmsg.DescribeConfigsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Resources = make([]kmsg.DescribeConfigsResponseResource, len(req.Resources))
	for i := range req.Resources {
		r, out := &req.Resources[i], &resp.Resources[i]
		out.ResourceType, out.ResourceName, out.ErrorMessage = r.ResourceType, r.ResourceName, noMessage()
		var entries []config.Entry
		err := h.mayTouch(c, acl.DescribeConfigs, resource{r.ResourceType, r.ResourceName})
		if err == nil {
			entries, err = h.describeResource(ctx, r)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = h.codeOf(err), messageOrEmpty(err)
			continue
		}
		for _, e := range entries {
			out.Configs = append(out.Configs, describedEntry(req, e))
		}
	}
	return resp
}

func (h *Handlers) describeResource(ctx context.Context, r *kmsg.DescribeConfigsRequestResource) ([]config.Entry, error) {
	switch r.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := checkTopicName(r.ResourceName); err != nil {
			return nil, err
		}
		if h.Metadata.Current().Topics[r.ResourceName] == nil {
			return nil, kerr.UnknownTopicOrPartition
		}
		overrides, err := h.topicOverrides(ctx, r.ResourceName)
		if err != nil {
			return nil, err
		}
		return h.Config.DescribeTopic(overrides, r.ConfigNames)
	case kmsg.ConfigResourceTypeBroker:
		all, err := h.Config.Current().BrokerResource(r.ResourceName)
		switch {
		case err != nil:
			return nil, err
		case all:
			return h.Config.DescribeCluster(r.ConfigNames), nil
		}
		return h.Config.DescribeBroker(r.ConfigNames), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		if err := h.loggerResource(r.ResourceName); err != nil {
			return nil, err
		}
		return h.Loggers.Describe(r.ConfigNames), nil
	}
	return nil, fmt.Errorf("resource type %d cannot be described here: %w", r.ResourceType, kerr.InvalidRequest)
}

// topicOverrides reads a topic's own settings.
func (h *Handlers) topicOverrides(ctx context.Context, topic string) (map[string]string, error) {
	return h.ZK.EntityConfig(ctx, zkcoord.Entity{Kind: zkcoord.Topics, Name: topic})
}

// loggerResource checks that the name is this broker's id.
func (h *Handlers) loggerResource(name string) error {
	if id, err := strconv.Atoi(name); err != nil || int32(id) != h.BrokerID {
		return fmt.Errorf("loggers of broker %q: this is broker %d: %w", name, h.BrokerID, kerr.InvalidRequest)
	}
	return nil
}

func describedEntry(req *kmsg.DescribeConfigsRequest, e config.Entry) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly, out.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
	out.Source, out.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Type)
	if req.IncludeDocumentation {
		out.Documentation = &e.Documentation
	}
	if !req.IncludeSynonyms {
		return out
	}
	for _, s := range e.Synonyms {
		synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		synonym.Name, synonym.Value, synonym.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
		out.ConfigSynonyms = append(out.ConfigSynonyms, synonym)
	}
	return out
}
