package tools

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var consumerSettings = map[string]setter{
	"isolation.level": func(v string) ([]kgo.Opt, error) {
		switch v {
		case "read_uncommitted":
			return []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadUncommitted())}, nil
		case "read_committed":
			return []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted())}, nil
		}
		return nil, errors.New("it must be one of read_committed, read_uncommitted")
	},
	"auto.offset.reset": func(v string) ([]kgo.Opt, error) {
		start, reset, err := resetOffset(v)
		return []kgo.Opt{kgo.ConsumeStartOffset(start), kgo.ConsumeResetOffset(reset)}, err
	},
	"enable.auto.commit": func(v string) ([]kgo.Opt, error) { // read by asMember: it applies only in a group
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
			return nil, errors.New("expected value to be either true or false")
		}
		return nil, nil
	},
	"partition.assignment.strategy": func(v string) ([]kgo.Opt, error) {
		b, err := balancers(v)
		return []kgo.Opt{kgo.Balancers(b...)}, err
	},
	"fetch.min.bytes":           numberSetting(func(n int32) kgo.Opt { return kgo.FetchMinBytes(n) }),
	"fetch.max.bytes":           fetchMaxBytes,
	"max.partition.fetch.bytes": numberSetting(func(n int32) kgo.Opt { return kgo.FetchMaxPartitionBytes(n) }),
	"fetch.max.wait.ms":         millisWithin(10*time.Millisecond, mostWait, kgo.FetchMaxWait),
	"auto.commit.interval.ms":   millisSetting(func(d time.Duration) kgo.Opt { return kgo.AutoCommitInterval(max(d, 100*time.Millisecond)) }),
	"session.timeout.ms":        millisWithin(leastRequestTimeout, mostWait, kgo.SessionTimeout),
	"heartbeat.interval.ms":     millisSetting(func(d time.Duration) kgo.Opt { return kgo.HeartbeatInterval(d) }),
	"max.poll.interval.ms":      millisWithin(leastRequestTimeout, mostWait, kgo.RebalanceTimeout),
	"group.instance.id":         textSetting(func(id string) kgo.Opt { return kgo.InstanceID(id) }),
	"client.rack":               textSetting(func(rack string) kgo.Opt { return kgo.Rack(rack) }),
	"group.id":                  noEffect, // read by the tools
	"max.poll.records":          noEffect,
	"check.crcs":                noEffect,
	"allow.auto.create.topics":  noEffect,
}

// fetchMaxBytes also raises the size of the largest response, which one more batch may make larger than the setting.
func fetchMaxBytes(v string) ([]kgo.Opt, error) {
	const usual, most = 100 << 20, 1 << 30 // responses, in bytes: the library's default and limit
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return nil, errors.New("it must be a number")
	}
	n = min(n, most/2)
	return []kgo.Opt{kgo.FetchMaxBytes(int32(n)), kgo.BrokerMaxReadBytes(int32(max(usual, 2*n)))}, nil
}

// resetOffset converts auto.offset.reset: where to start, and where to continue when the offset is gone.
func resetOffset(v string) (start, reset kgo.Offset, err error) {
	switch v {
	case "earliest":
		return kgo.NewOffset().AtStart(), kgo.NewOffset().AtStart(), nil
	case "latest":
		return kgo.NewOffset().AtEnd(), kgo.NewOffset().AtEnd(), nil
	case "none":
		return kgo.NewOffset().AtCommitted(), kgo.NoResetOffset(), nil
	}
	return start, reset, errors.New("it must be one of latest, earliest, none")
}

// balancers converts a list of Java's assignors, with or without their package.
func balancers(list string) ([]kgo.GroupBalancer, error) {
	var all []kgo.GroupBalancer
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch name[strings.LastIndexByte(name, '.')+1:] {
		case "RangeAssignor", "range":
			all = append(all, kgo.RangeBalancer())
		case "RoundRobinAssignor", "roundrobin":
			all = append(all, kgo.RoundRobinBalancer())
		case "StickyAssignor", "sticky":
			all = append(all, kgo.StickyBalancer())
		case "CooperativeStickyAssignor", "cooperative-sticky":
			all = append(all, kgo.CooperativeStickyBalancer())
		default:
			return nil, errors.New("it must be of the range, round robin, sticky and cooperative sticky assignors")
		}
	}
	return all, nil
}
