package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

func TestNotDefault(t *testing.T) {
	b, err := Parse(map[string]string{
		"broker.id": "1", "zookeeper.connect": "z:2181", "log.dirs": "/d", "num.partitions": " 1", "compression.type": "producer",
		"log.retention.hours": "24", "ssl.keystore.password": "secret", "my.plugin.token": "secret",
		"listener.name.plaintext.ssl.key.password": "secret", "log.cleaner.min.cleanable.ratio": "0.50",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"broker.id=1", "listener.name.plaintext.ssl.key.password=[hidden]", "log.dirs=/d", "log.retention.hours=24",
		"my.plugin.token=[hidden]", "ssl.keystore.password=[hidden]", "zookeeper.connect=z:2181"}
	if diff := cmp.Diff(want, b.NotDefault()); diff != "" {
		t.Error(diff)
	}
}

func TestChangesAreTold(t *testing.T) {
	log, lines := test.NewNullLogger()
	d := NewDynamic(mustParse(t, "num.io.threads=4", "password.encoder.secret=s"), logrus.NewEntry(log))
	stored, err := d.EncodeBroker(map[string]string{"num.io.threads": "5", storePassword: "secret", "of.a.plugin": "secret", "log.retention.ms": "7"})
	if err != nil {
		t.Fatal(err)
	}
	setBroker(t, d, stored)
	setBroker(t, d, map[string]string{"num.io.threads": "6", "log.retention.ms": "7"})
	var told [][]string
	for _, line := range lines.AllEntries() {
		told = append(told, line.Data["settings"].([]string))
	}
	want := [][]string{
		{storePassword + "=[hidden]", "log.retention.ms=7", "num.io.threads=5", "of.a.plugin=[hidden]"},
		{"num.io.threads=6", "-" + storePassword, "-of.a.plugin"},
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}
