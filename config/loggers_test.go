package config

import (
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
		{"set, lower case", op("kafka.server.KafkaApis", OpSet, "debug"), nil},
		{"remove", Op{Key: "kafka.server.KafkaApis", Kind: OpDelete}, nil},
		{"unknown logger", op("nope.Nope", OpSet, "DEBUG"), kerr.InvalidConfig},
		{"bad level", op("kafka.server.KafkaApis", OpSet, "LOUD"), kerr.InvalidConfig},
		{"append", op("kafka.server.KafkaApis", OpAppend, "DEBUG"), kerr.InvalidRequest},
		{"remove root", Op{Key: RootLogger, Kind: OpDelete}, kerr.InvalidRequest},
		{"null", Op{Key: RootLogger}, kerr.InvalidRequest},
	} {
		if err := l.Alter([]Op{c.op}, true); code(err) != c.code || (err == nil) != (c.code == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLoggerLevels(t *testing.T) {
	root, lines := test.NewNullLogger()
	l := NewLoggers(root)
	apis, controller := l.Entry("kafka.server.KafkaApis"), l.Entry("kafka.controller")
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
		t.Error("the root's level counts at first")
	}
	alter(op("kafka.server", OpSet, "DEBUG"))
	if !logged(apis) || logged(controller) {
		t.Error("a level counts for the names below")
	}
	alter(op("kafka.server.KafkaApis", OpSet, "WARN"))
	if logged(apis) {
		t.Error("the nearest level counts")
	}
	alter(Op{Key: "kafka.server.KafkaApis", Kind: OpDelete})
	if !logged(apis) {
		t.Error("without a level of its own a logger takes the one above")
	}
	alter(op(RootLogger, OpSet, "TRACE"))
	if !logged(controller) {
		t.Error("the root's level counts for all")
	}
	entries := l.Describe([]string{RootLogger})
	if len(entries) != 1 || line(entries[0]) != "'TRACE', source 6, type 0" {
		t.Errorf("described as %v", entries)
	}
}
