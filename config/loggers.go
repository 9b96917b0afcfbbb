package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// RootLogger is the name of the logger that all others take their level from.
const RootLogger = "root"

// loggerNames are the loggers whose levels can be changed, by the names that operators of
// Apache Kafka know.
var loggerNames = []string{
	"kafka",
	"kafka.authorizer.logger",
	"kafka.controller",
	"kafka.coordinator.group",
	"kafka.coordinator.transaction",
	"kafka.log",
	"kafka.log.LogCleaner",
	"kafka.network",
	"kafka.request.logger",
	"kafka.server",
	"kafka.server.KafkaApis",
	"kafka.server.ReplicaManager",
	"kafka.zookeeper",
	"org.apache.kafka",
	"org.apache.zookeeper",
	"state.change.logger",
}

// Loggers are a broker's loggers, whose levels can be changed while it runs (KIP-412). A level
// holds until the broker stops. All write to one place. Safe for concurrent use.
type Loggers struct {
	loggers map[string]*logrus.Logger

	mu struct {
		sync.Mutex // leaf
		set        map[string]logrus.Level
	}
}

// NewLoggers derives the named loggers from root, whose output, format, hooks and level they
// take over. Root itself is left alone.
func NewLoggers(root *logrus.Logger) *Loggers {
	l := &Loggers{loggers: map[string]*logrus.Logger{}}
	l.mu.set = map[string]logrus.Level{RootLogger: root.GetLevel()}
	out := &sharedWriter{out: root.Out}
	for _, name := range append([]string{RootLogger}, loggerNames...) {
		l.loggers[name] = &logrus.Logger{Out: out, Formatter: root.Formatter, Hooks: root.Hooks, Level: root.GetLevel(),
			ExitFunc: root.ExitFunc, ReportCaller: root.ReportCaller}
	}
	return l
}

// sharedWriter keeps the lines of several loggers apart.
type sharedWriter struct {
	mu  sync.Mutex // held while writing; nothing is called under it but out
	out io.Writer
}

func (w *sharedWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(line)
}

// Entry returns the logger of that name, or the root one when there is none.
func (l *Loggers) Entry(name string) *logrus.Entry {
	if logger := l.loggers[name]; logger != nil {
		return logrus.NewEntry(logger)
	}
	return logrus.NewEntry(l.loggers[RootLogger])
}

// Describe shows the loggers and their levels, those named or, without names, all.
func (l *Loggers) Describe(names []string) []Entry {
	var entries []Entry
	for _, name := range append([]string{RootLogger}, loggerNames...) {
		if wanted(name, names) {
			level := levelName(l.loggers[name].GetLevel())
			entries = append(entries, Entry{Name: name, Value: &level, Source: SourceLogger})
		}
	}
	return entries
}

// Alter changes levels; with validateOnly it only looks whether it could. The errors carry the
// protocol's code.
func (l *Loggers) Alter(ops []Op, validateOnly bool) error {
	if err := checkOps(ops); err != nil {
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
	for name, logger := range l.loggers {
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
	case l.loggers[op.Key] == nil:
		return refuse(kerr.InvalidConfig, "no logger has this name")
	case op.Kind == OpDelete && op.Key == RootLogger:
		return refuse(kerr.InvalidRequest, "the root logger must keep a level")
	case op.Kind == OpSet:
		if _, ok := parseLevel(*op.Value); !ok {
			return refuse(kerr.InvalidConfig, "%q is not one of %s", *op.Value, strings.Join(levelNames, ", "))
		}
	}
	return nil
}

// levelLocked is the level set for the name, or for the nearest name above it.
func (l *Loggers) levelLocked(name string) logrus.Level {
	for {
		if level, ok := l.mu.set[name]; ok {
			return level
		}
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return l.mu.set[RootLogger]
		}
		name = name[:i]
	}
}

// levelNames are the levels of Apache Kafka, the gravest first; logrus counts from panic, which
// has no counterpart.
var levelNames = []string{"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"}

func parseLevel(text string) (logrus.Level, bool) {
	i := slices.Index(levelNames, strings.ToUpper(text))
	return logrus.FatalLevel + logrus.Level(max(i, 0)), i >= 0
}

func levelName(level logrus.Level) string {
	return levelNames[max(level, logrus.FatalLevel)-logrus.FatalLevel]
}
