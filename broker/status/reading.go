package status

// Reading is how a broker finds its parts and the cluster at a moment.
type Reading struct {
	Broker  Broker
	Loading []Loading
	Cluster *Cluster // nil while the broker starts
	// Topics and Groups are all, in any order; traffic is counted from the broker's start.
	Topics        []TopicCounts
	Traffic       Traffic // of all topics
	Groups        []GroupLag
	GroupsUnread  int // groups that were not read, for there are too many
	Dirs          []Dir
	Listeners     []Listener
	Reassignments []Reassignment
	FolderMoves   []FolderMove
	// Trouble says what could not be read, for a person.
	Trouble []string
}

// Broker is the one that is asked.
type Broker struct {
	ID      int32  `json:"id"`
	Cluster string `json:"cluster"`
	State   string `json:"state"` // starting, running, stopping
	Doing   string `json:"doing"` // while it starts
}

// Loading is how far one log directory is read.
type Loading struct {
	Dir        string `json:"dir"`
	Loaded     int    `json:"loaded"`
	Total      int    `json:"total"`
	Read       int64  `json:"read"`   // bytes of records
	ToRead     int64  `json:"toRead"` // bytes that have to be read at all
	Recovering bool   `json:"recovering"`
	Done       bool   `json:"done"`
	// RemainingMs is an estimate of how long the rest takes; 0: there is none.
	RemainingMs int64 `json:"remaining"`
}

// Cluster is what the controller has told of all brokers.
type Cluster struct {
	Controller      int32    `json:"controller"` // -1: not known
	Brokers         []Member `json:"brokers"`
	Topics          int      `json:"topics"`
	Partitions      int      `json:"partitions"`
	UnderReplicated int      `json:"underReplicated"`
	Leaderless      int      `json:"leaderless"`
	// Worst are some of the partitions that are not as they should be.
	Worst []Partition `json:"worst"`
}

// Member is a broker of the cluster, be it one that partitions are assigned to and that is not there.
type Member struct {
	ID       int32  `json:"id"`
	Address  string `json:"address"` // of each listener for clients; with its name if there are several
	Rack     string `json:"rack"`
	Alive    bool   `json:"alive"`
	Leads    int    `json:"leads"`    // partitions
	Replicas int    `json:"replicas"` // assigned to it
	InSync   int    `json:"inSync"`   // of these
}

// Partition is one with what is wrong with it.
type Partition struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"` // negative: none
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
}

// Traffic is bytes and records since the start of the broker.
type Traffic struct{ BytesIn, BytesOut, MessagesIn int64 }

// TopicCounts is a topic: in the cluster, and what this broker has of it.
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
	Lag        int64 // records, over all partitions with an offset whose end is known
	Partitions int   // with an offset
	Unknown    int   // of these, partitions whose end could not be learned
}

// Dir is one of log.dirs.
type Dir struct {
	Path   string `json:"path"`
	Online bool   `json:"online"`
	Total  int64  `json:"total"`  // bytes of the volume
	Usable int64  `json:"usable"` // bytes that are free on it
	// Refuses: records of clients are refused, for there is too little room.
	Refuses bool  `json:"refuses"`
	Size    int64 `json:"size"` // bytes of the logs
	Logs    int   `json:"logs"`
}

// Listener is one of this broker's. It tells of no user.
type Listener struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Address  string `json:"address"` // that is told to clients
	Open     int    `json:"open"`    // connections
	// Guarded: clients log in or set up TLS, which so many did, and so many failed to, since the broker's start.
	Guarded  bool  `json:"guarded"`
	Accepted int64 `json:"accepted"`
	Refused  int64 `json:"refused"`
	Expires  int64 `json:"expires"` // when the certificate ends; 0: there is none
}

// Reassignment is a partition whose replicas are being moved.
type Reassignment struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
	Adding    []int32 `json:"adding"`
	Removing  []int32 `json:"removing"`
	InSync    int     `json:"inSync"`   // of those that are added
	Progress  float64 `json:"progress"` // 0 to 1; negative: not known on this broker
}

// FolderMove is a log of this broker on its way from one of log.dirs to another.
type FolderMove struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	From      string  `json:"from"`
	To        string  `json:"to"`
	Left      int64   `json:"left"`     // records that are not copied yet
	Size      int64   `json:"size"`     // bytes that are copied
	Progress  float64 `json:"progress"` // 0 to 1
}
