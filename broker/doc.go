// Package broker assembles a broker: it starts the parts in order and stops them in reverse order.
//
//	zookeeper session -> cluster id, broker id -> logs loaded (after a crash: being recovered) -> listeners bound -> registered
//	-> race for the controllership -> requests served
//
// The parts are in the packages below: api answers requests, replica holds the partitions, group and txn are the two
// coordinators, metadata is the metadata of the cluster, acl, token and quota decide what users may do, metrics and
// status report how the broker is doing.
package broker
