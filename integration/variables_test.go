package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestVariablesAreThoseOfApacheKafka: variables in a file of settings have the values that they have there (KIP-421).
func TestVariablesAreThoseOfApacheKafka(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "partitions")
	if err := os.WriteFile(file, []byte("3"), 0o600); err != nil {
		t.Fatal(err)
	}
	rack := filepath.Join(dir, "rack.properties")
	if err := os.WriteFile(rack, []byte("rack = r\u00e4ck\\:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const classes = "org.apache.kafka.common.config.provider."
	compareAnswers(t, func(t *testing.T, addr string) map[string]string {
		t.Helper()
		cl := newClient(t, kgo.SeedBrokers(addr))
		defer cl.Close()
		described, err := kadm.NewClient(cl).DescribeBrokerConfigs(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]string)
		for _, c := range described[0].Configs {
			switch c.Key {
			case "broker.rack", "num.partitions", "group.max.size":
				seen[c.Key] = fmt.Sprintf("%s by %v", c.MaybeValue(), c.Source)
				for _, s := range c.Synonyms {
					seen[c.Key] += fmt.Sprintf(", %s %s by %v", s.Key, *s.Value, s.Source)
				}
			}
		}
		return seen
	}, "config.providers=file,dir", "config.providers.file.class="+classes+"FileConfigProvider", "config.providers.dir.class="+classes+"DirectoryConfigProvider",
		"config.providers.file.param.allowed.paths="+dir, "num.partitions=${dir:"+dir+":partitions}",
		"broker.rack=<${file:"+rack+":rack}|${vault:a:b}|${}>", "group.max.size=5")
}
