package main

import (
	"slices"
	"testing"
)

func TestCommandOfClass(t *testing.T) {
	for class, want := range map[string]string{
		"kafka.tools.DumpLogSegments": "dump-log", "org.apache.kafka.tools.GetOffsetShell": "get-offsets", "kafka.tools.GetOffsetShell": "get-offsets",
		"kafka.Kafka": "server-start", "org.apache.zookeeper.ZooKeeperMain": "zookeeper-shell", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand": "reassign-partitions",
		"org.apache.kafka.connect.cli.ConnectStandalone": "", "Kafka": "", "org.example.Kafka": "", "": "",
	} {
		if got, ok := commandOfClass(class); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", class, got, want)
		}
	}
	for class, name := range classes {
		if !slices.ContainsFunc(commands(), func(c command) bool { return c.name == name }) {
			t.Errorf("%s refers to %s, which is not a command", class, name)
		}
	}
}
