package broker

import "barnabas/config"

// The versions of requests between brokers follow inter.broker.protocol.version, since during an upgrade other brokers
// may not know newer ones (MetadataVersion, 3.9).

// since reports whether inter.broker.protocol.version is at least version.
func (s *Server) since(version string) bool {
	v, ok := config.ParseProtocolVersion(version)
	return ok && s.static.InterBrokerProtocolVersion >= v
}

// step is a request version and the protocol version that introduced it.
type step struct {
	since   string
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

func (s *Server) alterPartitionVersion() int16 {
	return s.newest(step{"3.5", 3}, step{"3.2", 2}, step{"2.7", 0})
}

func (s *Server) fetchVersion() int16 {
	return s.newest(step{"3.9", 17}, step{"3.7", 16}, step{"3.5", 15}, step{"3.1", 13}, step{"2.7", 12}, step{"2.3", 11}, step{"2.1", 10},
		step{"2.0", 8}, step{"1.1", 7}, step{"0.11.0", 5})
}

func (s *Server) offsetForLeaderEpochVersion() int16 {
	return s.newest(step{"2.8", 4}, step{"2.3", 3}, step{"2.1", 2}, step{"2.0", 1}, step{"0.11.0", 0})
}

func (s *Server) listOffsetsVersion() int16 {
	return s.newest(step{"3.9", 9}, step{"3.5", 8}, step{"3.0", 7}, step{"2.8", 6}, step{"2.2", 5}, step{"2.1", 4}, step{"2.0", 3}, step{"0.11.0", 2})
}
