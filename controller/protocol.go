package controller

// Protocol is what inter.broker.protocol.version means for the controller.
type Protocol struct {
	LeaderAndISR   int16 // version of the request
	UpdateMetadata int16
	StopReplica    int16
	TopicIDs       bool // topics without an id are given one (2.8)
	AlterPartition bool // leaders change the ISR through the controller (2.7)
	Features       bool // feature versioning is on (2.7)
	FeatureFormat  int  // of the features node: 2 from 3.3 on
	LeaderRecovery bool // an uncleanly elected leader is marked (3.2)
}

// NewestProtocol returns that of 3.9, the newest one with ZooKeeper.
func NewestProtocol() Protocol {
	return Protocol{
		LeaderAndISR: 7, UpdateMetadata: 8, StopReplica: 4, TopicIDs: true, AlterPartition: true, Features: true, FeatureFormat: 2, LeaderRecovery: true,
	}
}
