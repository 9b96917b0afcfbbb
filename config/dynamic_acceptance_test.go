package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestDynamicSettingsAreAcceptedAsByApacheKafka tries every dynamic key, and some that are not dynamic, with valid and
// invalid values.
func TestDynamicSettingsAreAcceptedAsByApacheKafka(t *testing.T) {
	data, err := os.ReadFile("testdata/dynamic.tsv")
	if err != nil {
		t.Fatal(err)
	}
	d := dynamicOver(t, "broker.id=0", "listeners=PLAINTEXT://127.0.0.1:29701")
	codes := map[string]*kerr.Error{"0": nil, "40": kerr.InvalidConfig, "42": kerr.InvalidRequest}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		level, key, value, want := f[0], f[1], strings.TrimPrefix(f[2], "--"), codes[f[3]]
		alter := d.AlterCluster
		if level == "broker" {
			alter = d.AlterBroker
		}
		_, err := alter(nil, []Op{{Key: key, Value: &value}})
		var got *kerr.Error
		errors.As(err, &got)
		if (err == nil) != (want == nil) || got != want {
			t.Errorf("%s: %s=%q: %v, Apache Kafka returns error code %s", level, key, value, err, f[3])
		}
	}
}
