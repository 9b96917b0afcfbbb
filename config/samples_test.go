package config

import (
	"strings"
	"testing"
)

// TestSampleFiles checks the sample configuration files.
func TestSampleFiles(t *testing.T) {
	ports := map[int]string{}
	for _, name := range []string{"server.properties", "server-1.properties", "server-2.properties", "server-3.properties"} {
		b, err := Load(name, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if unknown := b.Unknown(); len(unknown) > 0 {
			t.Errorf("%s: unknown keys %v", name, unknown)
		}
		if without := b.NotHonoured(); len(without) > 0 {
			t.Errorf("%s: starts with a warning about %v", name, without)
		}
		if other, taken := ports[b.Listeners[0].Port]; taken {
			t.Errorf("%s has the port of %s", name, other)
		}
		ports[b.Listeners[0].Port] = name
		if b.ZookeeperEmbedded != (name == "server.properties") {
			t.Errorf("%s: zookeeper.embedded", name)
		}
		for _, dir := range b.LogDirs {
			if strings.HasPrefix(dir, "/") {
				t.Errorf("%s: %s is outside the project", name, dir)
			}
		}
	}
	props, err := ReadProperties("zookeeper.properties")
	if err != nil || props["dataDir"] == "" || props["clientPort"] != "2181" {
		t.Errorf("zookeeper.properties: %v %v", props, err)
	}
}
