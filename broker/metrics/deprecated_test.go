package metrics

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDeprecatedRequestsAreCounted(t *testing.T) {
	m := New([]API{{Key: int16(kmsg.Produce), MaxVersion: 11}, {Key: int16(kmsg.Heartbeat), MaxVersion: 4}, {Key: int16(kmsg.Fetch), MaxVersion: 17}}, nil, nil)
	old := Software{"librdkafka", "0.9"}
	for _, r := range []Request{
		{Key: int16(kmsg.Produce), Version: 6}, {Key: int16(kmsg.Produce), Version: 7}, {Key: int16(kmsg.Heartbeat)},
		{Key: int16(kmsg.Fetch), Version: 3},
	} {
		m.Received(r, func() Software { return old })
	}
	m.Received(Request{Key: int16(kmsg.Produce)}, func() Software { return Software{} })
	for i := range 2 * maxSoftware {
		m.Received(Request{Key: int16(kmsg.Produce), Version: 1}, func() Software { return Software{"made up", strconv.Itoa(i)} })
	}
	const name = "kafka_network_requestmetrics_deprecatedrequests_total"
	var lines []string
	for _, line := range served(m) {
		if strings.HasPrefix(line, name) && !strings.Contains(line, "made up") {
			lines = append(lines, strings.TrimPrefix(line, name))
		}
	}
	want := []string{
		`{clientSoftwareName="librdkafka",clientSoftwareVersion="0.9",request="FetchConsumer",version="3"} 1`,
		`{clientSoftwareName="librdkafka",clientSoftwareVersion="0.9",request="Produce",version="6"} 1`,
		`{clientSoftwareName="unknown",clientSoftwareVersion="unknown",request="Produce",version="0"} 1`,
		`{clientSoftwareName="unknown",clientSoftwareVersion="unknown",request="Produce",version="1"} 201`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
