package integration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSourcesOfSettings describes settings from every source in every version: the reported sources are those of Apache
// Kafka.
func TestSourcesOfSettings(t *testing.T) {
	static := []string{"num.partitions=3", "log.segment.bytes=10000000", "log.cleaner.threads=1"}
	theirs, _, _ := startPeer(t, 0, zookeeper(t), static...)
	p := newProcess(t, 0, zookeeper(t), static...)
	p.start()
	if diff := cmp.Diff(sourcesOf(t, theirs), sourcesOf(t, p.addr())); diff != "" {
		t.Errorf("Apache Kafka's (-) and ours (+)\n%s", diff)
	}
}

func sourcesOf(t *testing.T, addr string) (lines []string) {
	t.Helper()
	adm := adminAt(t, addr)
	if _, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"retention.ms": new("7000000")}, "t"); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct{ broker, name, value string }{{"0", "log.cleaner.threads", "2"}, {"", "log.retention.ms", "8000000"}, {"", "log.cleaner.backoff.ms", "1000"}} {
		alter, ids := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: change.name, Value: &change.value}}, []int32{}
		if change.broker != "" {
			ids = append(ids, 0)
		}
		if _, err := adm.AlterBrokerConfigs(t.Context(), alter, ids...); err != nil {
			t.Fatal(err)
		}
	}
	untilBrokersHave(t, adm, "log.cleaner.backoff.ms", "1000", 0)
	w := dialWire(t, addr)
	for version := range int16(5) {
		for _, r := range []kmsg.DescribeConfigsRequestResource{
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t", ConfigNames: []string{"retention.ms", "segment.bytes", "segment.ms", "cleanup.policy"}},
			{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "0", ConfigNames: []string{"log.cleaner.threads", "log.retention.ms", "num.partitions",
				"log.cleaner.backoff.ms", "background.threads", "compression.type", "listeners"}},
			{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "", ConfigNames: nil},
		} {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.Version, req.IncludeSynonyms, req.Resources = version, version > 0, []kmsg.DescribeConfigsRequestResource{r}
			got := w.call(req).(*kmsg.DescribeConfigsResponse).Resources[0]
			var about []string
			for _, c := range got.Configs {
				if c.Name == "listeners" {
					c.Value, c.ConfigSynonyms = nil, nil
				}
				about = append(about, fmt.Sprint("v", version, " ", r.ResourceType, " ", r.ResourceName, " default ", c.IsDefault, " documented ", c.Documentation != nil, " ", configLine(c)))
			}
			slices.Sort(about)
			lines = append(lines, fmt.Sprint("v", version, " ", r.ResourceType, " ", r.ResourceName, " error ", got.ErrorCode, " ", orNull(got.ErrorMessage)))
			lines = append(lines, about...)
		}
	}
	return lines
}
