package zkcoord

import (
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
)

// ChangeKind is what a watch has seen changing.
type ChangeKind int

// What can change. The method that sets the watch is in brackets.
const (
	ControllerChanged        ChangeKind = iota + 1 // a broker became controller or ceased to be (WatchController)
	BrokersChanged                                 // a broker came or went (WatchBrokers)
	BrokerChanged                                  // Change.Broker's registration (WatchBrokers)
	TopicsChanged                                  // a topic came or went (WatchTopics)
	TopicChanged                                   // Change.Topic's assignment (WatchTopicInfos)
	TopicDeletionsChanged                          // a topic is to be deleted (WatchTopicDeletions)
	ReassignmentsChanged                           // the legacy node of requested reassignments (WatchReassignments)
	PreferredElectionChanged                       // the legacy node of requested elections (WatchPreferredElection)
	ISRNotificationsChanged                        // leaders changed ISRs themselves (WatchISRNotifications)
	LogDirEventsChanged                            // a broker lost a log directory (WatchLogDirEvents)
	FeaturesChanged                                // the finalized features (WatchFeatures)
	ConfigNotificationsAdded                       // a configuration changed (WatchConfigChanges)
	ACLNotificationsAdded                          // ACLs changed (WatchACLChanges)
	TokenNotificationsAdded                        // delegation tokens changed (WatchTokenChanges)
	PartitionStateChanged                          // Change.Topic's partition Change.Partition has another leader or ISR (WatchPartitionState)
)

// Change is what a watch reports; the details have to be read.
type Change struct {
	Kind      ChangeKind
	Topic     string // of a TopicChanged or PartitionStateChanged
	Partition int32  // of a PartitionStateChanged
	Broker    int32  // of a BrokerChanged
}

var changeKinds = map[string]ChangeKind{
	controllerPath:         ControllerChanged,
	brokerIDsPath:          BrokersChanged,
	topicsPath:             TopicsChanged,
	deleteTopicsPath:       TopicDeletionsChanged,
	reassignPath:           ReassignmentsChanged,
	preferredElectionPath:  PreferredElectionChanged,
	isrChangePath:          ISRNotificationsChanged,
	logDirEventPath:        LogDirEventsChanged,
	featurePath:            FeaturesChanged,
	configChangesPath:      ConfigNotificationsAdded,
	aclChangesPath:         ACLNotificationsAdded,
	extendedACLChangesPath: ACLNotificationsAdded,
	tokenChangesPath:       TokenNotificationsAdded,
}

// changeOf converts the path of a watch event. Events of nodes that are not watched on purpose are dropped.
func changeOf(path string) (Change, bool) {
	if kind, ok := changeKinds[path]; ok {
		return Change{Kind: kind}, true
	}
	if name, ok := strings.CutPrefix(path, brokerIDsPath+"/"); ok {
		id, err := strconv.ParseInt(name, 10, 32)
		return Change{Kind: BrokerChanged, Broker: int32(id)}, err == nil
	}
	if name, ok := strings.CutPrefix(path, topicsPath+"/"); ok {
		return changeOfTopic(strings.Split(name, "/"))
	}
	return Change{}, false
}

// changeOfTopic takes the path relative to the parent of topics: NAME, or NAME/partitions/NUMBER/state.
func changeOfTopic(path []string) (Change, bool) {
	switch {
	case len(path) == 1:
		return Change{Kind: TopicChanged, Topic: path[0]}, true
	case len(path) == 4 && path[3] == "state":
		n, err := strconv.ParseInt(path[2], 10, 32)
		return Change{Kind: PartitionStateChanged, Topic: path[0], Partition: int32(n)}, err == nil
	}
	return Change{}, false
}

type watchKey struct {
	path     string
	children bool // otherwise data and existence
}

// watchSet tracks which watches exist on the server, so that reading twice before a change does not set two. A path is
// watched by one goroutine at a time.
type watchSet struct {
	mu struct {
		sync.Mutex
		armed map[watchKey]struct{}
	}
}

// arm records a watch and reports whether it is a new one.
func (s *watchSet) arm(key watchKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.armed == nil {
		s.mu.armed = make(map[watchKey]struct{})
	}
	if _, ok := s.mu.armed[key]; ok {
		return false
	}
	s.mu.armed[key] = struct{}{}
	return true
}

func (s *watchSet) disarm(key watchKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.armed, key)
}

// fired removes the watches that an event has used up.
func (s *watchSet) fired(path string, event zk.EventType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if event != zk.EventNodeChildrenChanged {
		delete(s.mu.armed, watchKey{path, false})
	}
	if event == zk.EventNodeChildrenChanged || event == zk.EventNodeDeleted || event == zk.EventNotWatching {
		delete(s.mu.armed, watchKey{path, true})
	}
}
