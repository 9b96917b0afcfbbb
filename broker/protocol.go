package broker

import (
	"barnabas/config"
	"barnabas/controller"
)

// The versions of requests between brokers follow inter.broker.protocol.version, since during an upgrade other brokers
// may not know newer ones (MetadataVersion, ControllerChannelManager and KafkaServer.doControlledShutdown, 3.9).

// since reports whether inter.broker.protocol.version is at least v.
func (s *Server) since(v config.ProtocolVersion) bool {
	return s.static.InterBrokerProtocolVersion >= v
}

// step is a request version and the protocol version that introduced it.
type step struct {
	since   config.ProtocolVersion
	version int16
}

// newest returns the version of the first step that has been reached; the last step applies always.
func (s *Server) newest(steps ...step) int16 {
	for _, at := range steps {
		if s.since(at.since) {
			return at.version
		}
	}
	return steps[len(steps)-1].version
}

func (s *Server) controllerProtocol() controller.Protocol {
	p := controller.Protocol{
		LeaderAndISR: s.newest(step{config.IBP34IV0, 7}, step{config.IBP32IV0, 6}, step{config.IBP28IV1, 5}, step{config.IBP24IV1, 4},
			step{config.IBP24IV0, 3}, step{config.IBP22IV0, 2}, step{config.IBP10IV0, 1}, step{config.IBP0110IV0, 0}),
		UpdateMetadata: s.newest(step{config.IBP34IV0, 8}, step{config.IBP28IV1, 7}, step{config.IBP24IV1, 6}, step{config.IBP22IV0, 5},
			step{config.IBP10IV0, 4}, step{config.IBP0110IV0, 3}),
		StopReplica: s.newest(step{config.IBP34IV0, 4}, step{config.IBP26IV0, 3}, step{config.IBP24IV1, 2}, step{config.IBP22IV0, 1},
			step{config.IBP0110IV0, 0}),
		TopicIDs:       s.since(config.IBP28IV0),
		AlterPartition: s.since(config.IBP27IV2),
		Features:       s.since(config.IBP27IV0),
		FeatureFormat:  1,
		LeaderRecovery: s.since(config.IBP32IV0),
	}
	if s.since(config.IBP33IV0) {
		p.FeatureFormat = 2
	}
	return p
}

func (s *Server) alterPartitionVersion() int16 {
	return s.newest(step{config.IBP35IV1, 3}, step{config.IBP32IV0, 2}, step{config.IBP27IV2, 0})
}

func (s *Server) fetchVersion() int16 {
	return s.newest(step{config.IBP39IV0, 17}, step{config.IBP37IV4, 16}, step{config.IBP35IV1, 15}, step{config.IBP35IV0, 14},
		step{config.IBP31IV0, 13}, step{config.IBP27IV1, 12}, step{config.IBP23IV1, 11}, step{config.IBP21IV2, 10}, step{config.IBP20IV1, 8}, step{config.IBP11IV0, 7},
		step{config.IBP0110IV1, 5})
}

func (s *Server) offsetForLeaderEpochVersion() int16 {
	return s.newest(step{config.IBP28IV0, 4}, step{config.IBP23IV1, 3}, step{config.IBP21IV1, 2}, step{config.IBP20IV0, 1}, step{config.IBP0110IV0, 0})
}

func (s *Server) listOffsetsVersion() int16 {
	return s.newest(step{config.IBP39IV0, 9}, step{config.IBP35IV0, 8}, step{config.IBP30IV1, 7}, step{config.IBP28IV0, 6}, step{config.IBP22IV1, 5},
		step{config.IBP21IV1, 4}, step{config.IBP20IV1, 3}, step{config.IBP0110IV0, 2})
}

func (s *Server) controlledShutdownVersion() int16 {
	return s.newest(step{config.IBP24IV1, 3}, step{config.IBP22IV0, 2}, step{config.IBP0110IV0, 1})
}

func (s *Server) writeTxnMarkersVersion() int16 {
	return s.newest(step{config.IBP28IV0, 1}, step{config.IBP0110IV0, 0})
}

// verifyVersion returns the version of AddPartitionsToTxn in which coordinators are asked to verify partitions of
// transactions, or -1 if they are not: before 3.6 not every broker of a cluster can be asked (KIP-890).
func (s *Server) verifyVersion() int16 {
	return s.newest(step{config.IBP38IV0, 5}, step{config.IBP36IV0, 4}, step{config.IBP0110IV0, -1})
}
