package metrics

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// TopicTraffic counts the traffic of a topic, or of all topics.
type TopicTraffic struct {
	MessagesIn, BytesIn, BytesOut, BytesRejected atomic.Int64
	ProduceRequests, FetchRequests               atomic.Int64
	FailedProduce, FailedFetch                   atomic.Int64
	ProduceConversions, FetchConversions         atomic.Int64
	ReplicationBytesIn, ReplicationBytesOut      atomic.Int64
	ReassignmentBytesIn, ReassignmentBytesOut    atomic.Int64 // of these, to replicas that a reassignment adds (KIP-352)
}

// topicCounter is a counter with its metric name.
type topicCounter struct {
	name  string
	value *atomic.Int64
}

// ofClients returns the counters that exist for each topic and for all together.
func (t *TopicTraffic) ofClients() []topicCounter {
	return []topicCounter{
		{"messagesin", &t.MessagesIn}, {"bytesin", &t.BytesIn}, {"bytesout", &t.BytesOut}, {"bytesrejected", &t.BytesRejected},
		{"totalproducerequests", &t.ProduceRequests}, {"totalfetchrequests", &t.FetchRequests},
		{"failedproducerequests", &t.FailedProduce}, {"failedfetchrequests", &t.FailedFetch},
		{"producemessageconversions", &t.ProduceConversions}, {"fetchmessageconversions", &t.FetchConversions},
	}
}

// ofReplication returns the counters that exist only for all topics together (BrokerTopicMetrics, 3.9): a sum over
// topics would count them twice.
func (t *TopicTraffic) ofReplication() []topicCounter {
	return []topicCounter{
		{"replicationbytesin", &t.ReplicationBytesIn}, {"replicationbytesout", &t.ReplicationBytesOut},
		{"reassignmentbytesin", &t.ReassignmentBytesIn}, {"reassignmentbytesout", &t.ReassignmentBytesOut},
	}
}

// topics holds the traffic of every topic and of all together.
type topics struct {
	all   TopicTraffic
	hosts func(topic string) bool

	mu struct {
		sync.RWMutex
		of map[string]*TopicTraffic
	}
}

// get returns the traffic of a topic of which the broker has partitions. For others it returns nil, since topics that
// clients request by mistake, or while they are being deleted, would be kept forever.
func (t *topics) get(name string) *TopicTraffic {
	t.mu.RLock()
	traffic := t.mu.of[name]
	t.mu.RUnlock()
	if traffic != nil {
		return traffic
	}
	t.mu.Lock() // so that it is not forgotten between the check and the insertion
	defer t.mu.Unlock()
	if t.mu.of[name] == nil && t.hosts(name) {
		t.mu.of[name] = new(TopicTraffic)
	}
	return t.mu.of[name]
}

func (t *topics) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.of, name)
}

// Describe says nothing: the same names occur with a topic and, for all topics, without.
func (t *topics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (t *topics) Collect(out chan<- prometheus.Metric) {
	tell := func(counters []topicCounter, labels ...string) {
		for _, c := range counters {
			out <- Counter("kafka_server_brokertopicmetrics_"+c.name+"_total", float64(c.value.Load()), labels...)
		}
	}
	tell(t.all.ofClients())
	tell(t.all.ofReplication())
	t.mu.RLock()
	defer t.mu.RUnlock()
	for topic, traffic := range t.mu.of {
		tell(traffic.ofClients(), "topic", topic)
	}
}
