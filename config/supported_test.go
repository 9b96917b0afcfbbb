package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestUnsupported: settings with which Apache Kafka's broker starts and ours does not are all named in the error.
func TestUnsupported(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings []string
		want     []string
	}{
		{"nothing", nil, nil},
		{"off", []string{"remote.log.storage.system.enable=false", "create.topic.policy.class.name="}, nil},
		{"racks", []string{"replica.selector.class=" + RackAwareSelector}, nil},
		{"policies", []string{"alter.config.policy.class.name=a.B", "create.topic.policy.class.name=a.C"},
			[]string{"create.topic.policy.class.name=a.C: no class", "alter.config.policy.class.name=a.B: no class"}},
		{"quotas", []string{"client.quota.callback.class=a.B"}, []string{"client.quota.callback.class=a.B: no class"}},
		{"tiers", []string{"remote.log.storage.system.enable=true"}, []string{"remote.log.storage.system.enable=true: there is no tiered storage"}},
		{"an old protocol", []string{"inter.broker.protocol.version=0.10.2", "log.message.format.version=0.10.2"}, []string{"inter.broker.protocol.version=0.10.2: must be at least 0.11.0"}},
		{"another selector", []string{"replica.selector.class=a.B"}, []string{"replica.selector.class=a.B: no class"}},
		{"a folder twice", []string{"log.dirs=/a,/b,/a"}, []string{"log.dirs=/a,/b,/a: names /a twice"}},
		{"another engine", []string{"listeners=SSL://:1", "inter.broker.listener.name=SSL", "ssl.engine.factory.class=a.B"},
			[]string{"ssl.engine.factory.class=a.B: no class"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := mustParse(t, append([]string{"zookeeper.connect=localhost:2181"}, test.settings...)...).Unsupported()
			if len(got) != len(test.want) {
				t.Fatalf("%q", got)
			}
			for i, err := range got {
				if text := fmt.Sprint(err); !strings.Contains(text, test.want[i]) {
					t.Errorf("%q does not contain %q", text, test.want[i])
				}
			}
		})
	}
}
