package metrics

import (
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// Names of folders and hosts need not be UTF-8, which labels have to be.
func TestLabelThatIsNotUTF8(t *testing.T) {
	var out dto.Metric
	if err := Gauge("kafka_log_logmanager_logdirectoryoffline", 1, "logDirectory", "/data/caf\xe9").Write(&out); err != nil {
		t.Fatal(err)
	}
	if got := out.Label[0].GetValue(); got != "/data/caf\uFFFD" {
		t.Errorf("the label is %q", got)
	}
}
