// Package controller is the elected broker's part in the cluster: it decides who leads each
// partition and tells the brokers.
//
// One goroutine, Controller.Run's, owns all state and takes events from one queue: what
// ZooKeeper's watches bring, requests, answers of brokers, timers. For the time in office
// there is an office, which holds the picture of the cluster (model). The decisions are
// plain functions on the model (election.go, reassign.go, deletion.go); the office writes
// what they decide to ZooKeeper, enters what was written into the model, and gathers the
// requests that tell the brokers (batch). A link per broker sends those in order.
//
// All that happens outside happens through a World: the store, the links and the clock. Package
// sim puts a simulated one in their place, calls Step instead of Run, and lets anything happen
// between two requests to ZooKeeper.
//
// The package knows partitions and brokers, not paths or JSON: that is zkcoord's. It knows
// no sockets either: that is the Sender's.
package controller
