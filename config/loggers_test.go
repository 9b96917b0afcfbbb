package config

import (
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestLoggerErrors(t *testing.T) {
	root, _ := test.NewNullLogger()
	l := NewLoggers(root)
	for _, c := range []struct {
		name string
		op   Op
		code *kerr.Error
	}{
		{"set", op("kafka.server.KafkaApis", OpSet, "INFO"), nil},
		{"set, lower case", op("kafka.server.KafkaApis", OpSet, "debug"), kerr.InvalidConfig},
		{"a class of Apache Kafka without lines here", op("kafka.utils.CoreUtils$", OpSet, "DEBUG"), nil},
		{"remove", Op{Key: "kafka.server.KafkaApis", Kind: OpDelete}, nil},
		{"unknown logger", op("nope.Nope", OpSet, "DEBUG"), kerr.InvalidConfig},
		{"bad level", op("kafka.server.KafkaApis", OpSet, "LOUD"), kerr.InvalidConfig},
		{"append", op("kafka.server.KafkaApis", OpAppend, "DEBUG"), kerr.InvalidRequest},
		{"remove root", Op{Key: rootLogger, Kind: OpDelete}, kerr.InvalidRequest},
		{"null", Op{Key: rootLogger}, kerr.InvalidRequest},
	} {
		if err := l.Alter([]Op{c.op}, true); code(err) != c.code || (err == nil) != (c.code == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestLoggersAreListed: every logger that writes lines can be set, and those that the names of families refer to exist.
func TestLoggersAreListed(t *testing.T) {
	l := NewLoggers(logrus.New())
	described := make(map[string]bool)
	for _, e := range l.Describe(nil) {
		if described[e.Name] {
			t.Errorf("%s appears twice", e.Name)
		}
		described[e.Name] = true
	}
	for name := range l.own {
		if !described[name] {
			t.Errorf("%s cannot be set", name)
		}
	}
	used := make(map[string]bool)
	for _, name := range loggerNames {
		for _, f := range loggerFamilies {
			if strings.HasPrefix(name, f.prefix) {
				used[f.prefix] = true
				break
			}
		}
	}
	for _, f := range loggerFamilies {
		if !used[f.prefix] {
			t.Errorf("nothing begins with %s", f.prefix)
		}
	}
}

func TestLoggerLevels(t *testing.T) {
	root, lines := test.NewNullLogger()
	l := NewLoggers(root)
	apis, controller := l.Entry(APILogger), l.Entry(ControllerLogger)
	alter := func(o Op) {
		t.Helper()
		if err := l.Alter([]Op{o}, false); err != nil {
			t.Fatal(err)
		}
	}
	logged := func(entry *logrus.Entry) bool {
		lines.Reset()
		entry.Debug("x")
		return len(lines.AllEntries()) == 1
	}
	if logged(apis) {
		t.Error("the root logger's level must apply at first")
	}
	alter(op("kafka.server", OpSet, "DEBUG"))
	if !logged(apis) || logged(controller) {
		t.Error("a level must apply to the names below it")
	}
	alter(op("kafka.server.KafkaApis", OpSet, "WARN"))
	if logged(apis) {
		t.Error("the nearest level must apply")
	}
	alter(Op{Key: "kafka.server.KafkaApis", Kind: OpDelete})
	if !logged(apis) {
		t.Error("a logger without a level must use that of the next one above")
	}
	alter(op("kafka.controller.TopicDeletionManager", OpSet, "DEBUG"))
	if !logged(controller) {
		t.Error("a level must apply to the logger that writes the lines")
	}
	alter(op("kafka.controller.TopicDeletionManager", OpSet, "ERROR"))
	if logged(controller) || !controller.Logger.IsLevelEnabled(logrus.InfoLevel) {
		t.Error("a logger with a higher level must not silence others")
	}
	alter(op("kafka.controller.KafkaController", OpSet, "ERROR"))
	if controller.Logger.IsLevelEnabled(logrus.InfoLevel) {
		t.Error("a logger's own level must silence it")
	}
	alter(Op{Key: "kafka.controller.KafkaController", Kind: OpDelete})
	alter(op(rootLogger, OpSet, "TRACE"))
	if !logged(controller) {
		t.Error("the root logger's level must apply to all")
	}
	entries := l.Describe([]string{rootLogger})
	if len(entries) != 1 || line(entries[0]) != "'TRACE', source 6, type 0" {
		t.Errorf("described as %v", entries)
	}
}
