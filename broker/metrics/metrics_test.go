package metrics

import (
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// TestLabelThatIsNotUTF8: names of directories and hosts may not be valid UTF-8, but labels must be.
func TestLabelThatIsNotUTF8(t *testing.T) {
	var out dto.Metric
	if err := Gauge("kafka_log_logmanager_logdirectoryoffline", 1, "logDirectory", "/data/caf\xe9").Write(&out); err != nil {
		t.Fatal(err)
	}
	if got := out.Label[0].GetValue(); got != "/data/caf\uFFFD" {
		t.Errorf("the label is %q", got)
	}
}
