package api

import (
	"barnabas/broker/metrics"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// APIs lists the offered APIs, for metrics.
func APIs() []metrics.API {
	var all []metrics.API
	for _, r := range new(Handlers).table() {
		all = append(all, metrics.API{Key: r.key.Int16(), MaxVersion: r.max})
	}
	return all
}

// table lists the APIs of a broker in ZooKeeper mode, with the versions of Apache Kafka 3.9. What the wire library
// could encode beyond that is not offered.
func (h *Handlers) table() map[int16]*row {
	offers := []offer{
		{kmsg.Produce, 0, 11, true, h.handleProduce},
		{kmsg.Fetch, 0, 17, false, on(h.fetch)},
		{kmsg.ListOffsets, 0, 9, false, now(h.listOffsets)},
		{kmsg.Metadata, 0, 12, false, now(h.metadata)},
		{kmsg.LeaderAndISR, 0, 7, false, now(h.leaderAndISR)},
		{kmsg.StopReplica, 0, 4, false, now(h.stopReplica)},
		{kmsg.UpdateMetadata, 0, 8, false, now(h.updateMetadata)},
		{kmsg.ControlledShutdown, 0, 3, false, now(h.controlledShutdown)},
		{kmsg.OffsetCommit, 0, 9, false, on(h.offsetCommit)},
		{kmsg.OffsetFetch, 0, 9, false, now(h.offsetFetch)},
		{kmsg.FindCoordinator, 0, 6, false, now(h.findCoordinator)},
		{kmsg.JoinGroup, 0, 9, false, on(h.joinGroup)},
		{kmsg.Heartbeat, 0, 4, false, now(h.heartbeat)},
		{kmsg.LeaveGroup, 0, 5, false, now(h.leaveGroup)},
		{kmsg.SyncGroup, 0, 5, false, on(h.syncGroup)},
		{kmsg.DescribeGroups, 0, 5, false, now(h.describeGroups)},
		{kmsg.ListGroups, 0, 5, false, now(h.listGroups)},
		{kmsg.SASLHandshake, 0, 1, false, now(h.saslHandshake)},
		{kmsg.ApiVersions, 0, 4, false, h.apiVersions},
		{kmsg.CreateTopics, 0, 7, false, on(h.createTopics)},
		{kmsg.DeleteTopics, 0, 6, false, on(h.deleteTopics)},
		{kmsg.DeleteRecords, 0, 2, false, on(h.deleteRecords)},
		{kmsg.InitProducerID, 0, 5, false, on(h.initProducerID)},
		{kmsg.OffsetForLeaderEpoch, 0, 4, false, now(h.offsetForLeaderEpoch)},
		{kmsg.AddPartitionsToTxn, 0, 5, false, on(h.addPartitionsToTxn)},
		{kmsg.AddOffsetsToTxn, 0, 4, false, on(h.addOffsetsToTxn)},
		{kmsg.EndTxn, 0, 4, false, on(h.endTxn)},
		{kmsg.WriteTxnMarkers, 0, 1, false, on(h.writeTxnMarkers)},
		{kmsg.TxnOffsetCommit, 0, 4, false, on(h.txnOffsetCommit)},
		{kmsg.DescribeACLs, 0, 3, false, now(h.describeACLs)},
		{kmsg.CreateACLs, 0, 3, false, now(h.createACLs)},
		{kmsg.DeleteACLs, 0, 3, false, now(h.deleteACLs)},
		{kmsg.DescribeConfigs, 0, 4, false, now(h.describeConfigs)},
		{kmsg.AlterConfigs, 0, 2, false, now(h.alterConfigs)},
		{kmsg.AlterReplicaLogDirs, 0, 2, false, now(h.alterReplicaLogDirs)},
		{kmsg.DescribeLogDirs, 0, 4, false, now(h.describeLogDirs)},
		{kmsg.SASLAuthenticate, 0, 2, false, now(h.saslAuthenticate)},
		{kmsg.CreatePartitions, 0, 3, false, on(h.createPartitions)},
		{kmsg.CreateDelegationToken, 0, 3, false, now(h.createDelegationToken)},
		{kmsg.RenewDelegationToken, 0, 2, false, now(h.renewDelegationToken)},
		{kmsg.ExpireDelegationToken, 0, 2, false, now(h.expireDelegationToken)},
		{kmsg.DescribeDelegationToken, 0, 3, false, now(h.describeDelegationToken)},
		{kmsg.DeleteGroups, 0, 2, false, now(h.deleteGroups)},
		{kmsg.ElectLeaders, 0, 2, false, on(h.electLeaders)},
		{kmsg.IncrementalAlterConfigs, 0, 1, false, now(h.incrementalAlterConfigs)},
		{kmsg.AlterPartitionAssignments, 0, 0, false, now(h.alterPartitionReassignments)},
		{kmsg.ListPartitionReassignments, 0, 0, false, now(h.listPartitionReassignments)},
		{kmsg.OffsetDelete, 0, 0, false, now(h.offsetDelete)},
		{kmsg.DescribeClientQuotas, 0, 1, false, now(h.describeClientQuotas)},
		{kmsg.AlterClientQuotas, 0, 1, false, now(h.alterClientQuotas)},
		{kmsg.DescribeUserSCRAMCredentials, 0, 0, false, now(h.describeUserSCRAMCredentials)},
		{kmsg.AlterUserSCRAMCredentials, 0, 0, false, now(h.alterUserSCRAMCredentials)},
		{kmsg.AlterPartition, 0, 3, false, now(h.alterPartition)},
		{kmsg.UpdateFeatures, 0, 1, false, now(h.updateFeatures)},
		{kmsg.Envelope, 0, 0, false, closeConnection}, // as in Apache Kafka: forwarding is for KRaft
		{kmsg.DescribeCluster, 0, 1, false, now(h.describeCluster)},
		{kmsg.DescribeProducers, 0, 0, false, now(h.describeProducers)},
		{kmsg.DescribeTransactions, 0, 0, false, now(h.describeTransactions)},
		{kmsg.ListTransactions, 0, 1, false, now(h.listTransactions)},
		{kmsg.AllocateProducerIDs, 0, 0, false, now(h.allocateProducerIDs)},
		{kmsg.ConsumerGroupHeartbeat, 0, 0, false, now(h.consumerGroupHeartbeat)},
		{kmsg.ConsumerGroupDescribe, 0, 0, false, now(h.consumerGroupDescribe)},
	}
	byKey := make(map[int16]*row, len(offers))
	for i := range offers {
		o := &offers[i]
		byKey[o.key.Int16()] = &row{offer: *o, flexible: firstFlexible(o)}
	}
	byKey[int16(kmsg.Produce)].together = h.handleTogether(h.produceTogether)
	return byKey
}
