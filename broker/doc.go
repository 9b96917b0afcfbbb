// Package broker puts a broker together: what starts in which order, and stops in reverse.
//
//	zookeeper session -> cluster id, broker id -> logs loaded (after a crash: being recovered) -> listeners bound -> registered
//	-> race for the controller's office -> requests served
//
// The parts are in the packages below: api answers requests, replica holds the partitions,
// metadata the picture of the cluster, txn gives out producer ids.
package broker
