package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestVariablesAreThoseOfApacheKafka: variables in a file of settings have the values that they have there (KIP-421), and so do
// those in settings that are changed at run time.
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
		adm := kadm.NewClient(cl)
		seen := make(map[string]string)
		for key, value := range map[string]string{"sasl.enabled.mechanisms": "${dir:" + dir + ":partitions}", "log.cleaner.backoff.ms": "${dir:" + dir + ":partitions}"} {
			altered, err := adm.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, 0)
			if err != nil {
				t.Fatal(err)
			}
			seen["change of "+key] = fmt.Sprint(errors.Unwrap(altered[0].Err), altered[0].Err != nil)
		}
		var described kadm.ResourceConfigs
		until(t, "the change", func(ctx context.Context) bool {
			var err error
			if described, err = adm.DescribeBrokerConfigs(ctx, 0); err != nil {
				return false
			}
			return slices.ContainsFunc(described[0].Configs, func(c kadm.Config) bool {
				return c.Key == "sasl.enabled.mechanisms" && c.Source != kmsg.ConfigSourceDefaultConfig && c.MaybeValue() != "GSSAPI"
			})
		})
		for _, c := range described[0].Configs {
			switch c.Key {
			case "broker.rack", "num.partitions", "group.max.size", "sasl.enabled.mechanisms", "log.cleaner.backoff.ms":
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
