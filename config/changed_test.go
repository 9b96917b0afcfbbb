package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
