package status

// Reading is the state of a broker's parts and of the cluster at one time.
type Reading struct {
	Broker  Broker
	Loading []Loading
	Cluster *Cluster // nil while the broker is starting
	// Topics and Groups are complete and in any order; traffic is counted from the broker's start.
	Topics        []TopicCounts
	Traffic       Traffic // of all topics
	Groups        []GroupLag
	GroupsUnread  int // groups that were not read because there are too many
	Dirs          []Dir
	Listeners     []Listener
	Reassignments []Reassignment
	DirMoves      []DirMove
	// Trouble says what could not be read, for people.
	Trouble []string
}

// Broker is this broker.
type Broker struct {
	ID      int32  `json:"id"`
	Cluster string `json:"cluster"`
	State   string `json:"state"` // starting, running, stopping
	Doing   string `json:"doing"` // what the start is doing
}

// Loading is the progress of loading one log directory.
type Loading struct {
	Dir        string `json:"dir"`
	Loaded     int    `json:"loaded"`
	Total      int    `json:"total"`
	Read       int64  `json:"read"`   // bytes of segments read
	ToRead     int64  `json:"toRead"` // bytes that have to be read
	Recovering bool   `json:"recovering"`
	Done       bool   `json:"done"`
	// RemainingMs is an estimate of the remaining time; 0: unknown.
	RemainingMs int64 `json:"remaining"`
}

// Cluster is what the controller has announced about all brokers.
type Cluster struct {
	Controller      int32    `json:"controller"` // -1: unknown
	Brokers         []Member `json:"brokers"`
	Topics          int      `json:"topics"`
	Partitions      int      `json:"partitions"`
	UnderReplicated int      `json:"underReplicated"`
	Leaderless      int      `json:"leaderless"`
	// Worst are some of the partitions with problems.
	Worst []Partition `json:"worst"`
}

// Member is a broker of the cluster, including one that is down but has partitions assigned to it.
type Member struct {
	ID       int32  `json:"id"`
	Address  string `json:"address"` // of each client listener; with its name if there are several
	Rack     string `json:"rack"`
	Alive    bool   `json:"alive"`
	Leads    int    `json:"leads"`    // partitions
	Replicas int    `json:"replicas"` // assigned to it
	InSync   int    `json:"inSync"`   // of these
}

// Partition is a partition with a problem.
type Partition struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"` // negative: none
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
}

// Traffic counts bytes and records since the broker's start.
type Traffic struct{ BytesIn, BytesOut, MessagesIn int64 }

// TopicCounts describes a topic in the cluster, and this broker's part of it.
type TopicCounts struct {
	Name                        string
	Partitions                  int
	UnderReplicated, Leaderless int
	SizeBytes                   int64 // of the replicas that this broker hosts
	Traffic                     Traffic
}

// GroupLag is a group that this broker coordinates.
type GroupLag struct {
	Name       string
	State      string
	Lag        int64 // records, over all partitions with a committed offset and a known end offset
	Partitions int   // with a committed offset
	Unknown    int   // of these, partitions whose end offset is unknown
}

// Dir is one of log.dirs.
type Dir struct {
	Path   string `json:"path"`
	Online bool   `json:"online"`
	Total  int64  `json:"total"`  // bytes of the volume
	Usable int64  `json:"usable"` // free bytes on the volume
	// Refuses: clients' records are rejected, since there is too little room.
	Refuses bool  `json:"refuses"`
	Size    int64 `json:"size"` // bytes of the logs
	Logs    int   `json:"logs"`
}

// Listener is one of this broker's listeners. It does not reveal users.
type Listener struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Address  string `json:"address"` // the advertised address
	Open     int    `json:"open"`    // connections
	// Guarded: clients log in or use TLS; the counts of successes and failures are since the broker's start.
	Guarded  bool  `json:"guarded"`
	Accepted int64 `json:"accepted"`
	Refused  int64 `json:"refused"`
	Expires  int64 `json:"expires"` // when the certificate expires; 0: there is none
}

// Reassignment is a partition whose replicas are being moved.
type Reassignment struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
	Adding    []int32 `json:"adding"`
	Removing  []int32 `json:"removing"`
	InSync    int     `json:"inSync"`   // of the added replicas
	Progress  float64 `json:"progress"` // 0 to 1; negative: unknown to this broker
}

// DirMove is a log of this broker that is being moved between two of log.dirs.
type DirMove struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	From      string  `json:"from"`
	To        string  `json:"to"`
	Left      int64   `json:"left"`     // offsets not copied yet
	Size      int64   `json:"size"`     // bytes copied
	Progress  float64 `json:"progress"` // 0 to 1
}
