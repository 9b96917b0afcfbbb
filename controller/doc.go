// Package controller is the elected controller of the cluster: it decides who leads each partition and tells the
// brokers.
//
// One goroutine, that of Controller.Run, owns all state and takes events from one queue: changes seen by ZooKeeper
// watches, requests, responses from brokers, timers. While the broker is the controller there is an activeController,
// which has a model of the cluster. The decisions are plain functions on the model (election.go, reassign.go,
// deletion.go); the activeController writes what they decide to ZooKeeper, applies what was written to the model, and
// collects the requests that tell the brokers (batch). A channel to each broker sends those in order.
//
// All interaction with the outside goes through an Environment: the store, the channels to brokers and the clock.
// Package sim substitutes a simulated one, calls Step instead of Run, and lets anything happen between two requests to
// ZooKeeper.
//
// The package knows partitions and brokers, but not paths or JSON, which belong to zkcoord, nor sockets, which belong
// to the Sender.
package controller
