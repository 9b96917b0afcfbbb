package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// deletedOffset is the outcome for a partition, or for a topic whose partitions are unknown (-1).
type deletedOffset struct {
	topic     string
	partition int32
	err       error
}

func (g *groupsTool) deleteOffsets(ctx context.Context) error {
	names, err := g.names(ctx)
	if err != nil {
		return err
	}
	if len(names) != 1 {
		return usagef("offsets are deleted of one group at a time")
	}
	var rows []deletedOffset
	wanted := make(kadm.TopicsSet)
	for _, text := range *g.o.topics {
		set, err := g.partitionsOf(ctx, text)
		switch {
		case errors.As(err, new(usageError)):
			return err
		case err != nil:
			rows = append(rows, deletedOffset{text, -1, err})
		default:
			wanted.Merge(set)
		}
	}
	results, failed := g.adm.DeleteOffsets(ctx, names[0], wanted)
	if failed != nil && !isRefusal(failed) {
		return failed
	}
	wanted.Each(func(topic string, partition int32) {
		err := failed
		if err == nil {
			err = results[topic][partition]
		}
		rows = append(rows, deletedOffset{topic, partition, err})
	})
	if failed == nil {
		failed = results.Error()
	}
	g.printDeleted(names[0], rows, failed)
	return nil
}

func (g *groupsTool) printDeleted(group string, rows []deletedOffset, failed error) {
	if failed == nil {
		g.env.printf("Request succeed for deleting offsets with topic %s group %s\n", strings.Join(*g.o.topics, ", "), group)
	} else {
		g.env.failf("%s", whyNotDeleted(group, failed))
	}
	slices.SortFunc(rows, func(a, b deletedOffset) int {
		return strings.Compare(fmt.Sprint(a.topic, a.partition), fmt.Sprint(b.topic, b.partition))
	})
	const row = "%-30s %-15s %-15s\n"
	g.env.printf("\n"+row, "TOPIC", "PARTITION", "STATUS")
	for _, r := range rows {
		partition, status := strconv.Itoa(int(r.partition)), "Successful"
		if r.partition < 0 {
			partition = "Not Provided"
		}
		if r.err != nil {
			status = "Error: :" + describe(r.err)
		}
		g.env.printf(row, r.topic, partition, status)
	}
}

// whyNotDeleted summarizes the outcome of which rows then tell the details.
func whyNotDeleted(group string, err error) string {
	switch {
	case errors.Is(err, kerr.InvalidGroupID):
		return fmt.Sprintf("'%s' is not valid.", group)
	case errors.Is(err, kerr.GroupIDNotFound):
		return fmt.Sprintf("'%s' does not exist.", group)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Sprintf("Access to '%s' is not authorized.", group)
	case errors.Is(err, kerr.NonEmptyGroup):
		return fmt.Sprintf("Deleting offsets of a consumer group '%s' is forbidden if the group is not empty.", group)
	case errors.Is(err, kerr.GroupSubscribedToTopic), errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.UnknownTopicOrPartition):
		return "Encounter some partition level error, see the follow-up details:"
	}
	return "Encounter some unknown error: " + describe(err)
}
