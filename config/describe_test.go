package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// described is the broker whose responses were recorded in testdata/describe.tsv.
func described(t *testing.T, pairs ...string) *Dynamic {
	t.Helper()
	return dynamicOver(t, append([]string{"broker.id=0", "broker.rack=r0", "group.initial.rebalance.delay.ms=3000",
		"offsets.topic.num.partitions=5", "transaction.state.log.num.partitions=5",
		"replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"}, pairs...)...)
}

var ofThisRun = []string{"listeners", "log.dirs", "zookeeper.connect", "advertised.listeners"}

// line formats an entry like the recording.
func line(e Entry) string {
	show := func(v *string) string {
		switch {
		case v == nil:
			return "None"
		case slices.Contains(ofThisRun, e.Name):
			return "of this run"
		}
		return "'" + *v + "'"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, source %d, type %d", show(e.Value), e.Source, e.Type)
	if e.ReadOnly {
		b.WriteString(", read-only")
	}
	if e.Sensitive {
		b.WriteString(", sensitive")
	}
	separator := ", synonyms "
	for _, s := range e.Synonyms {
		fmt.Fprintf(&b, "%s%s=%s (%d)", separator, s.Name, show(s.Value), s.Source)
		separator = " > "
	}
	return b.String()
}

// TestDescribe compares every setting of a broker and of a topic with Apache Kafka's response.
func TestDescribe(t *testing.T) {
	d := described(t)
	topic, err := d.DescribeTopic(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, e := range topic {
		got["topic: "+e.Name] = line(e)
	}
	for _, e := range d.DescribeBroker([]string{}) {
		got["broker: "+e.Name] = line(e)
	}
	for _, row := range golden(t, "describe.tsv") {
		want[row[0]] = row[1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDescribeLayers(t *testing.T) {
	one := func(entries []Entry) string {
		if len(entries) != 1 {
			return fmt.Sprintf("%d entries", len(entries))
		}
		return line(entries[0])
	}
	d := described(t, "listener.name.plaintext.ssl.keystore.type=PEM", "listener.name.plaintext.ssl.key.password=s3cret", "super.users=User:a")
	setCluster(t, d, map[string]string{"log.retention.ms": "1111111"})
	both := described(t)
	setCluster(t, both, map[string]string{"log.retention.ms": "1111111"})
	setBroker(t, both, map[string]string{"log.retention.ms": "2222222", "leader.replication.throttled.rate": "1000000", "foo": "1"})
	topic := func(d *Dynamic, overrides map[string]string, name string) string {
		entries, err := d.DescribeTopic(overrides, []string{name, "nosuch"})
		if err != nil {
			t.Fatal(err)
		}
		return one(entries)
	}
	for _, c := range []struct{ name, got, want string }{
		{"topic key, this broker", topic(both, nil, "retention.ms"),
			"'2222222', source 2, type 5, synonyms log.retention.ms='2222222' (2) > log.retention.ms='1111111' (3) > log.retention.hours='168' (5)"},
		{"topic key, all brokers", topic(d, nil, "retention.ms"),
			"'1111111', source 3, type 5, synonyms log.retention.ms='1111111' (3) > log.retention.hours='168' (5)"},
		{"topic key, topic", topic(both, map[string]string{"retention.ms": "3333333"}, "retention.ms"),
			"'3333333', source 1, type 5, synonyms retention.ms='3333333' (1) > log.retention.ms='2222222' (2) > log.retention.ms='1111111' (3) > log.retention.hours='168' (5)"},
		{"topic key of another release", topic(d, map[string]string{"new.key": "x"}, "new.key"),
			"None, source 1, type 0, sensitive, synonyms new.key=None (1)"},
		{"broker key", one(both.DescribeBroker([]string{"log.retention.ms"})),
			"'2222222', source 2, type 5, synonyms log.retention.ms='2222222' (2) > log.retention.ms='1111111' (3) > log.retention.hours='168' (5)"},
		{"broker key in hours", one(both.DescribeBroker([]string{"log.retention.hours"})),
			"'168', source 5, type 3, read-only, synonyms log.retention.hours='168' (5)"},
		{"dynamic only", one(both.DescribeBroker([]string{"leader.replication.throttled.rate"})),
			"'1000000', source 2, type 5, read-only, synonyms leader.replication.throttled.rate='1000000' (2)"},
		{"unknown", one(both.DescribeBroker([]string{"foo"})),
			"None, source 2, type 0, read-only, sensitive, synonyms foo=None (2)"},
		{"all brokers", one(both.DescribeCluster(nil)),
			"'1111111', source 3, type 5, synonyms log.retention.ms='1111111' (3)"},
		{"listener", one(d.DescribeBroker([]string{"listener.name.plaintext.ssl.keystore.type"})),
			"'PEM', source 4, type 2, read-only, synonyms listener.name.plaintext.ssl.keystore.type='PEM' (4) > ssl.keystore.type='JKS' (5)"},
		{"password", one(d.DescribeBroker([]string{"listener.name.plaintext.ssl.key.password"})),
			"None, source 4, type 9, read-only, sensitive, synonyms listener.name.plaintext.ssl.key.password=None (4)"},
		{"hidden, set", one(described(t, "log.initial.task.delay.ms=5").DescribeBroker([]string{"log.initial.task.delay.ms"})),
			"'5', source 4, type 5, read-only, synonyms log.initial.task.delay.ms='5' (4) > log.initial.task.delay.ms='30000' (5)"},
		{"hidden, not set", one(d.DescribeBroker([]string{"log.initial.task.delay.ms"})), "0 entries"},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, c.got, c.want)
		}
	}
}

func TestDescribeBadOverride(t *testing.T) {
	if _, err := described(t).DescribeTopic(map[string]string{"retention.ms": "x"}, nil); err == nil {
		t.Error("a stored value that is not a number was described")
	}
}

func TestFormatDouble(t *testing.T) {
	for _, c := range []struct {
		text, want string
	}{
		{"0.5", "0.5"}, {"1", "1.0"}, {"1.7976931348623157E308", "1.7976931348623157E308"}, {"1e7", "1.0E7"},
		{"9999999", "9999999.0"}, {"0.001", "0.001"}, {"0.0001", "1.0E-4"}, {"-2.5d", "-2.5"}, {"0", "0.0"},
		{"NaN", "NaN"}, {"-Infinity", "-Infinity"}, {"1e400", "Infinity"},
	} {
		value, reason := parseValue(Double, c.text)
		if reason != "" {
			t.Errorf("%s: %s", c.text, reason)
			continue
		}
		if got := format(value); got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
	for _, text := range []string{"", "0x1p3", "1_0", "inf", "1e", "."} {
		if _, reason := parseValue(Double, text); reason == "" {
			t.Errorf("%q is not a number in Java", text)
		}
	}
}
