package config

import (
	_ "embed" // the list of loggers
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// rootLogger is the name of the logger from which all others inherit their level.
const rootLogger = "root"

//go:embed loggers.txt
var loggerList string

// loggerNames are the loggers whose levels can be changed, by the names known to operators of Apache Kafka.
var loggerNames = slices.DeleteFunc(strings.Split(strings.TrimSpace(loggerList), "\n"), func(line string) bool { return strings.HasPrefix(line, "#") })

// The loggers under which this broker logs. Each covers several of Apache Kafka's, see loggerFamilies.
const (
	ServerLogger      = "kafka.server.KafkaServer"
	APILogger         = "kafka.server.KafkaApis"
	AuthorizerLogger  = "kafka.authorizer.logger" // a line for each denial, and at DEBUG for each allowed operation
	RequestLogger     = "kafka.request.logger"    // at DEBUG, a line for each request
	ReplicaLogger     = "kafka.server.ReplicaManager"
	FetcherLogger     = "kafka.server.ReplicaFetcherThread"
	GroupLogger       = "kafka.coordinator.group.GroupCoordinator"
	TransactionLogger = "kafka.coordinator.transaction.TransactionCoordinator"
	ControllerLogger  = "kafka.controller.KafkaController"
	LogLogger         = "kafka.log.LogManager"
	CleanerLogger     = "kafka.log.LogCleaner"
	NetworkLogger     = "kafka.network.SocketServer"
	ZooKeeperLogger   = "kafka.zookeeper.ZooKeeperClient"
	EmbeddedLogger    = "org.apache.zookeeper.server.ZooKeeperThread"
)

// loggerFamilies maps Apache Kafka's loggers, by the first matching prefix of their names, to the logger here that
// writes the corresponding lines. Loggers without a match have no lines here.
var loggerFamilies = []struct{ prefix, own string }{
	{"org.apache.kafka.coordinator.group.", GroupLogger},
	{"kafka.coordinator.group.", GroupLogger},
	{"kafka.coordinator.transaction.", TransactionLogger},
	{"kafka.server.AddPartitionsToTxnManager", TransactionLogger},
	{"kafka.controller.", ControllerLogger},
	{"org.apache.kafka.controller", ControllerLogger},
	{"state.change.logger", ControllerLogger},
	{"kafka.log.LogCleaner", CleanerLogger},
	{"kafka.log.", LogLogger},
	{"org.apache.kafka.storage.", LogLogger},
	{"kafka.network.RequestChannel$", RequestLogger},
	{"kafka.request.logger", RequestLogger},
	{"kafka.network.", NetworkLogger},
	{"org.apache.kafka.common.network.", NetworkLogger},
	{"kafka.server.ReplicaFetcher", FetcherLogger},
	{"kafka.server.RemoteLeaderEndPoint", FetcherLogger},
	{"kafka.server.TierStateMachine", FetcherLogger},
	{"kafka.server.Replica", ReplicaLogger},
	{"kafka.server.LocalLeaderEndPoint", ReplicaLogger},
	{"kafka.cluster.", ReplicaLogger},
	{"kafka.server.KafkaApis", APILogger},
	{"kafka.server.ZkAdminManager", APILogger},
	{"kafka.server.ConfigAdminManager", APILogger},
	{"kafka.server.Delayed", APILogger},
	{"kafka.server.Fetch", APILogger},
	{"kafka.server.FullFetch", APILogger},
	{"kafka.server.IncrementalFetch", APILogger},
	{"kafka.server.SessionlessFetch", APILogger},
	{"kafka.server.", ServerLogger},
	{"kafka.zk.", ZooKeeperLogger},
	{"kafka.zookeeper.", ZooKeeperLogger},
	{"org.apache.zookeeper.server.", EmbeddedLogger},
	{"org.apache.zookeeper.", ZooKeeperLogger},
}

// ownLogger returns the logger that writes the lines of the named one, "" if there are none.
func ownLogger(name string) string {
	for _, f := range loggerFamilies {
		if strings.HasPrefix(name, f.prefix) {
			return f.own
		}
	}
	return ""
}

// Loggers are a broker's loggers, whose levels can be changed at run time (KIP-412). A level lasts until the broker
// stops. All write to the same output. Safe for concurrent use.
type Loggers struct {
	own map[string]*logrus.Logger // the root logger, and those under which lines are logged

	mu struct {
		sync.Mutex // leaf
		set        map[string]logrus.Level
	}
}

// NewLoggers derives the named loggers from root, whose output, format, hooks and level they inherit. root itself is
// not modified.
func NewLoggers(root *logrus.Logger) *Loggers {
	l := &Loggers{own: map[string]*logrus.Logger{}}
	l.mu.set = map[string]logrus.Level{rootLogger: root.GetLevel()}
	out := new(sharedWriter)
	out.mu.out = root.Out
	add := func(name string) {
		if l.own[name] == nil {
			l.own[name] = &logrus.Logger{Out: out, Formatter: root.Formatter, Hooks: root.Hooks, Level: root.GetLevel(),
				ExitFunc: root.ExitFunc, ReportCaller: root.ReportCaller}
		}
	}
	add(rootLogger)
	for _, f := range loggerFamilies {
		add(f.own)
	}
	return l
}

// sharedWriter serializes the output of several loggers.
type sharedWriter struct {
	mu struct {
		sync.Mutex // held while writing; only out is called with it held
		out        io.Writer
	}
}

func (w *sharedWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.out.Write(line)
}

// Entry returns one of the loggers under which lines are logged, or the root logger if there is none with that name.
func (l *Loggers) Entry(name string) *logrus.Entry {
	if logger := l.own[name]; logger != nil {
		return logrus.NewEntry(logger)
	}
	return logrus.NewEntry(l.own[rootLogger])
}

// Describe returns the loggers and their levels: those named or, without names, all.
func (l *Loggers) Describe(names []string) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var entries []Entry
	for _, name := range append([]string{rootLogger}, loggerNames...) {
		if wanted(name, names) {
			level := levelName(l.nearestLocked(name))
			entries = append(entries, Entry{Name: name, Value: &level, Source: SourceLogger})
		}
	}
	return entries
}

// Alter changes levels; with validateOnly it only checks whether it could. The errors have the protocol's code.
func (l *Loggers) Alter(ops []Op, validateOnly bool) error {
	if err := CheckOps(ops); err != nil {
		return err
	}
	for _, op := range ops {
		if err := l.check(op); err != nil {
			return err
		}
	}
	if validateOnly {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range ops {
		if op.Kind == OpDelete {
			delete(l.mu.set, op.Key)
			continue
		}
		l.mu.set[op.Key], _ = parseLevel(*op.Value) // checked above
	}
	for name, logger := range l.own {
		logger.SetLevel(l.levelLocked(name))
	}
	return nil
}

func (l *Loggers) check(op Op) error {
	refuse := func(code *kerr.Error, reason string, args ...any) error {
		return &Error{Key: op.Key, Reason: fmt.Sprintf(reason, args...), Code: code}
	}
	switch {
	case op.Kind != OpSet && op.Kind != OpDelete:
		return refuse(kerr.InvalidRequest, "a level can only be set and deleted")
	case op.Key != rootLogger && !slices.Contains(loggerNames, op.Key):
		return refuse(kerr.InvalidConfig, "no logger has this name")
	case op.Kind == OpDelete && op.Key == rootLogger:
		return refuse(kerr.InvalidRequest, "the root logger must keep a level")
	case op.Kind == OpSet:
		if _, ok := parseLevel(*op.Value); !ok {
			return refuse(kerr.InvalidConfig, "%q is not one of %s", *op.Value, strings.Join(levelNames, ", "))
		}
	}
	return nil
}

// levelLocked returns the level of one of our loggers: its own level, or a more verbose one if that is set for one of
// those that it covers. A less verbose level of one of these does not silence the others.
func (l *Loggers) levelLocked(own string) logrus.Level {
	level := l.nearestLocked(own)
	for name := range l.mu.set {
		if name != rootLogger && ownLogger(name) == own {
			level = max(level, l.mu.set[name])
		}
	}
	return level
}

// nearestLocked returns the level set for the name, or for its nearest ancestor.
func (l *Loggers) nearestLocked(name string) logrus.Level {
	for {
		if level, ok := l.mu.set[name]; ok {
			return level
		}
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return l.mu.set[rootLogger]
		}
		name = name[:i]
	}
}

// levelNames are Apache Kafka's levels, the most severe first; logrus begins with panic, which has no counterpart.
var levelNames = []string{"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"}

func parseLevel(text string) (logrus.Level, bool) {
	i := slices.Index(levelNames, text)
	return logrus.FatalLevel + logrus.Level(max(i, 0)), i >= 0
}

func levelName(level logrus.Level) string {
	return levelNames[max(level, logrus.FatalLevel)-logrus.FatalLevel]
}
