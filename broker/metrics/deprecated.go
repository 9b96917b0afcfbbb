package metrics

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newestDeprecated is the newest version of each API that Apache Kafka 4.0 no longer supports (KIP-896).
var newestDeprecated = map[kmsg.Key]int16{
	kmsg.Produce: 6, kmsg.Fetch: 3, kmsg.ListOffsets: 0, kmsg.Metadata: 3, kmsg.OffsetCommit: 1, kmsg.OffsetFetch: 0, kmsg.FindCoordinator: 0,
	kmsg.JoinGroup: 1, kmsg.SASLHandshake: 0, kmsg.CreateTopics: 1, kmsg.DeleteTopics: 0, kmsg.OffsetForLeaderEpoch: 1, kmsg.DescribeACLs: 0,
	kmsg.CreateACLs: 0, kmsg.DeleteACLs: 0, kmsg.DescribeConfigs: 0, kmsg.AlterReplicaLogDirs: 0, kmsg.DescribeLogDirs: 0,
	kmsg.CreateDelegationToken: 0, kmsg.RenewDelegationToken: 0, kmsg.ExpireDelegationToken: 0, kmsg.DescribeDelegationToken: 0,
	kmsg.DeleteGroups: 0,
}

// Software is the client software as announced (KIP-511); empty: not announced.
type Software struct{ Name, Version string }

// deprecatedRequests counts requests in deprecated versions by client software.
type deprecatedRequests struct {
	counts *prometheus.CounterVec

	mu struct {
		sync.Mutex
		seen map[Software]bool
	}
}

// maxSoftware bounds how many kinds of client software are distinguished: clients can announce anything.
const maxSoftware = 200

func newDeprecatedRequests(r *prometheus.Registry) *deprecatedRequests {
	d := &deprecatedRequests{counts: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kafka_network_requestmetrics_deprecatedrequests_total", Help: "Requests of versions that Apache Kafka 4.0 refuses (KIP-896).",
	}, []string{"request", "version", "clientSoftwareName", "clientSoftwareVersion"})}
	d.mu.seen = make(map[Software]bool)
	r.MustRegister(d.counts)
	return d
}

func (d *deprecatedRequests) count(name string, version int16, by Software) {
	if by == (Software{}) || !d.known(by) {
		by = Software{"unknown", "unknown"} // as in Apache Kafka (ClientInformation, 3.9)
	}
	d.counts.WithLabelValues(name, strconv.Itoa(int(version)), by.Name, by.Version).Inc()
}

// known reports whether a client's software is among those that are distinguished.
func (d *deprecatedRequests) known(s Software) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.mu.seen[s] && len(d.mu.seen) < maxSoftware {
		d.mu.seen[s] = true
	}
	return d.mu.seen[s]
}
