package config

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testlog"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/twmb/franz-go/pkg/kerr"
)

func dynamicOver(t *testing.T, pairs ...string) *Dynamic {
	t.Helper()
	return NewDynamic(mustParse(t, pairs...), testlog.Quiet())
}

// warnings returns the lines of level warning and above.
func warnings(lines *test.Hook) []*logrus.Entry {
	return slices.DeleteFunc(lines.AllEntries(), func(e *logrus.Entry) bool { return e.Level > logrus.WarnLevel })
}

func setCluster(t *testing.T, d *Dynamic, stored map[string]string) {
	t.Helper()
	if err := d.SetCluster(stored, "/config/brokers/<default>"); err != nil {
		t.Fatal(err)
	}
}

func setBroker(t *testing.T, d *Dynamic, stored map[string]string) {
	t.Helper()
	if err := d.SetBroker(stored, "/config/brokers/1"); err != nil {
		t.Fatal(err)
	}
}

func TestDynamicOrder(t *testing.T) {
	type change struct{ from, to int }
	var told []change
	d := NewDynamic(mustParse(t, "num.io.threads=4"), testlog.Quiet(),
		func(old, new *Broker) {
			told = append(told, change{old.Int("num.io.threads"), new.Int("num.io.threads")})
		})
	setCluster(t, d, map[string]string{"num.io.threads": "5"})
	setBroker(t, d, map[string]string{"num.io.threads": "6"})
	setCluster(t, d, map[string]string{"num.io.threads": "7"}) // hidden by the broker's own value: nothing changes
	setBroker(t, d, nil)
	setCluster(t, d, nil)
	setCluster(t, d, nil)
	if diff := cmp.Diff([]change{{4, 5}, {5, 6}, {6, 7}, {7, 4}}, told, cmp.AllowUnexported(change{})); diff != "" {
		t.Error(diff)
	}
}

func TestDynamicUnits(t *testing.T) {
	d := dynamicOver(t, "log.retention.minutes=3", "log.roll.ms=5000")
	setCluster(t, d, map[string]string{"log.retention.ms": "7"})
	if got := d.Current().LogRetention; got != 7*time.Millisecond {
		t.Errorf("retention %v", got)
	}
	setCluster(t, d, nil)
	if got := d.Current().LogRetention; got != 3*time.Minute {
		t.Errorf("retention %v after removal", got)
	}
}

func TestDynamicIgnoresWhatIsNotValid(t *testing.T) {
	log, lines := test.NewNullLogger()
	d := NewDynamic(mustParse(t), logrus.NewEntry(log))
	setCluster(t, d, map[string]string{
		"num.partitions":                        "9",              // not dynamic
		"listeners":                             "PLAINTEXT://:1", // per broker
		"ssl.keystore.type":                     "PEM",            // per listener
		"log.retention.ms":                      "x",              // not a number
		"num.io.threads":                        "9",              // valid
		"plugin.setting":                        "kept",           // unknown
		"listener.name.a.ssl.key":               "",               // per broker, though unknown
		"listener.name.a.num.io":                "",               // as above
		"max.connections.per.ip":                "10",             // valid
		"listener.name.a.ssl.keystore.password": "s",              // per broker
	})
	if got := d.Current(); got.NumPartitions != 1 || got.Int("num.io.threads") != 9 || got.MaxConnectionsPerIP != 10 || got.String("plugin.setting") != "kept" {
		t.Error("valid settings must apply, and no others")
	}
	if got := len(warnings(lines)); got != 7 {
		t.Errorf("%d warnings, want one for each of the 7 that are not valid", got)
	}
}

func TestDynamicSettingsNameTheirNode(t *testing.T) {
	log, lines := test.NewNullLogger()
	d := NewDynamic(mustParse(t, "num.io.threads=4"), logrus.NewEntry(log))
	setCluster(t, d, map[string]string{"num.io.threads": "5", "log.retention.ms": "7", "num.partitions": "3"})
	setBroker(t, d, map[string]string{"num.io.threads": "6"})
	for name, want := range map[string]string{"num.io.threads": "/config/brokers/1", "log.retention.ms": "/config/brokers/<default>", "listeners": "", "broker.id": ""} {
		if got := d.Origin(name); got != want {
			t.Errorf("%s comes from %q, want %q", name, got, want)
		}
	}
	if got := warnings(lines)[0].Data["znode"]; got != "/config/brokers/<default>" {
		t.Errorf("the ignored setting is reported with source %v", got)
	}
}

// TestDynamicListenersWithoutTheirProtection: listeners whose required logins would be lost are not accepted.
func TestDynamicListenersWithoutTheirProtection(t *testing.T) {
	d := dynamicOver(t)
	err := d.SetBroker(map[string]string{"listeners": "PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093"}, "/config/brokers/1")
	if err == nil || !strings.Contains(err.Error(), "/config/brokers/1") || len(d.Current().Listeners) != 1 {
		t.Errorf("got %v, listeners %v", err, d.Current().Listeners)
	}
	setCluster(t, d, map[string]string{"num.io.threads": "9"})
	if d.Current().Int("num.io.threads") != 9 {
		t.Error("other settings must still apply")
	}
}

// TestDynamicWithoutTheLoginFile: when the file of login configurations cannot be read any more, settings still change.
func TestDynamicWithoutTheLoginFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jaas.conf")
	if err := os.WriteFile(file, []byte("KafkaServer { "+plainLogin+" };"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := dynamicOver(t, "listeners=EXTERNAL://:9093", "listener.security.protocol.map=EXTERNAL:SASL_PLAINTEXT", "inter.broker.listener.name=EXTERNAL",
		"sasl.mechanism.inter.broker.protocol=PLAIN", "sasl.enabled.mechanisms=PLAIN", "java.security.auth.login.config="+file)
	if asked := d.Current().Unsupported(); len(asked) > 0 { // as at a start
		t.Fatal(asked)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	setBroker(t, d, map[string]string{"num.io.threads": "9"})
	if d.Current().Int("num.io.threads") != 9 {
		t.Error("the change is held up")
	}
	value := "10"
	if _, err := d.AlterBroker(nil, []Op{{Key: "num.io.threads", Value: &value}}); err != nil {
		t.Errorf("a request for a change: %v", err)
	}
	if _, err := d.Current().BrokersSASL(d.Current().Listeners[0]); err != nil {
		t.Errorf("a login at another broker: %v", err)
	}
}

func TestRefuseWhen(t *testing.T) {
	d := dynamicOver(t)
	d.RefuseWhen(func(now, next *Broker) error {
		if next.Int("num.io.threads") != now.Int("num.io.threads") {
			return &Error{Key: "num.io.threads", Reason: "not now"}
		}
		return nil
	})
	if _, err := d.AlterBroker(nil, []Op{op("num.io.threads", OpSet, "9")}); code(err) != kerr.InvalidRequest {
		t.Errorf("got %v", err)
	}
	if _, err := d.AlterBroker(nil, []Op{op("log.retention.ms", OpSet, "9")}); err != nil {
		t.Error(err)
	}
}

func TestDynamicKeepsAWholeThatHolds(t *testing.T) {
	log, lines := test.NewNullLogger()
	d := NewDynamic(mustParse(t), logrus.NewEntry(log))
	setBroker(t, d, map[string]string{"log.cleaner.dedupe.buffer.size": "5", "num.io.threads": "9"})
	if d.Current().Int("num.io.threads") != 8 || len(warnings(lines)) != 1 {
		t.Error("settings that contradict each other must change nothing")
	}
}

func op(key string, kind OpKind, value string) Op { return Op{Key: key, Kind: kind, Value: &value} }

func code(err error) *kerr.Error {
	var k *kerr.Error
	errors.As(err, &k)
	return k
}

func TestAlterBroker(t *testing.T) {
	const rate = "leader.replication.throttled.rate"
	for _, c := range []struct {
		name    string
		all     bool
		current map[string]string
		ops     []Op
		want    map[string]string
		code    *kerr.Error
	}{
		{name: "read-only", ops: []Op{op("num.partitions", OpSet, "3")}, code: kerr.InvalidRequest},
		{name: "one broker's for all", all: true, ops: []Op{op("listeners", OpSet, "PLAINTEXT://127.0.0.1:1")}, code: kerr.InvalidRequest},
		{name: "one listener's for all", all: true, ops: []Op{op("listener.name.plaintext.ssl.keystore.type", OpSet, "PEM")}, code: kerr.InvalidRequest},
		{name: "bad value", ops: []Op{op("log.retention.ms", OpSet, "x")}, code: kerr.InvalidRequest},
		{name: "more than double", ops: []Op{op("num.io.threads", OpSet, "17")}, code: kerr.InvalidRequest},
		{name: "double", ops: []Op{op("num.io.threads", OpSet, "16")}, want: map[string]string{"num.io.threads": "16"}},
		{name: "less than half", ops: []Op{op("num.io.threads", OpSet, "3")}, code: kerr.InvalidRequest},
		{name: "half", ops: []Op{op("num.io.threads", OpSet, "4")}, want: map[string]string{"num.io.threads": "4"}},
		{name: "password", ops: []Op{op("listener.name.plaintext.ssl.keystore.password", OpSet, "x")},
			want: map[string]string{"listener.name.plaintext.ssl.keystore.password": "x"}},
		{name: "password without its listener", ops: []Op{op("ssl.keystore.password", OpSet, "x")}, code: kerr.InvalidRequest},
		{name: "dynamic only, all", all: true, ops: []Op{op(rate, OpSet, "1000")}, want: map[string]string{rate: "1000"}},
		{name: "dynamic only, removed", current: map[string]string{rate: "1"}, ops: []Op{{Key: rate, Kind: OpDelete}}, want: map[string]string{}},
		{name: "unknown", ops: []Op{op("foo", OpSet, "1")}, want: map[string]string{"foo": "1"}},
		{name: "the rest stays", current: map[string]string{"foo": "1", "num.partitions": "9"}, ops: []Op{op("bar", OpSet, "2")},
			want: map[string]string{"foo": "1", "bar": "2"}},
		{name: "twice", ops: []Op{op("foo", OpSet, "1"), op("foo", OpSet, "2")}, code: kerr.InvalidRequest},
		{name: "null", ops: []Op{{Key: "log.retention.ms"}}, code: kerr.InvalidRequest},
		{name: "does not fit the rest", ops: []Op{op("log.cleaner.dedupe.buffer.size", OpSet, "5")}, code: kerr.InvalidRequest},
		{name: "local retention over retention", ops: []Op{op("log.local.retention.ms", OpSet, "604800001")}, code: kerr.InvalidRequest},
		{name: "bad value of a listener", ops: []Op{op("listener.name.plaintext.max.connections", OpSet, "x")}, code: kerr.InvalidRequest},
		{name: "bad value of a listener's fixed key", ops: []Op{op("listener.name.plaintext.connections.max.reauth.ms", OpSet, "x")}, code: kerr.InvalidRequest},
		{name: "does not pass the checks of the start", ops: []Op{op("log.retention.ms", OpSet, "0")}, code: kerr.InvalidRequest},
		{name: "advertised", ops: []Op{op("advertised.listeners", OpSet, "PLAINTEXT://h:1")}, want: map[string]string{"advertised.listeners": "PLAINTEXT://h:1"}},
		{name: "protocol of a listener", ops: []Op{op("listener.security.protocol.map", OpSet, "PLAINTEXT:SSL")}, code: kerr.InvalidRequest},
		{name: "list", ops: []Op{op("log.cleanup.policy", OpAppend, "compact")}, want: map[string]string{"log.cleanup.policy": "delete,compact"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			alter := dynamicOver(t).AlterBroker
			if c.all {
				alter = dynamicOver(t).AlterCluster
			}
			got, err := alter(c.current, c.ops)
			if code(err) != c.code || (err == nil) != (c.code == nil) {
				t.Fatalf("got %v, want %v", err, c.code)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAlterTopic(t *testing.T) {
	current := map[string]string{"cleanup.policy": "compact", "retention.ms": "3333333"}
	with := func(key, value string) map[string]string {
		next := map[string]string{"cleanup.policy": "compact", "retention.ms": "3333333"}
		next[key] = value
		return next
	}
	for _, c := range []struct {
		name string
		ops  []Op
		want map[string]string
		code *kerr.Error
	}{
		{name: "nothing", want: current},
		{name: "unknown key", ops: []Op{op("foo", OpSet, "1")}, code: kerr.InvalidConfig},
		{name: "bad value", ops: []Op{op("retention.ms", OpSet, "x")}, code: kerr.InvalidConfig},
		{name: "illegal literal", ops: []Op{op("compression.type", OpSet, "foo")}, code: kerr.InvalidConfig},
		{name: "null", ops: []Op{{Key: "retention.ms"}}, code: kerr.InvalidRequest},
		{name: "delete what is not set", ops: []Op{{Key: "segment.ms", Kind: OpDelete}}, want: current},
		{name: "delete", ops: []Op{{Key: "retention.ms", Kind: OpDelete}}, want: map[string]string{"cleanup.policy": "compact"}},
		{name: "append", ops: []Op{op("cleanup.policy", OpAppend, "delete")}, want: with("cleanup.policy", "compact,delete")},
		{name: "append what is there", ops: []Op{op("cleanup.policy", OpAppend, "compact")}, want: current},
		{name: "append a bad value", ops: []Op{op("cleanup.policy", OpAppend, "nope")}, code: kerr.InvalidConfig},
		{name: "append to a number", ops: []Op{op("retention.ms", OpAppend, "5")}, code: kerr.InvalidConfig},
		{name: "append to an unknown key", ops: []Op{op("foo", OpAppend, "5")}, code: kerr.InvalidConfig},
		{name: "subtract what is not there", ops: []Op{op("cleanup.policy", OpSubtract, "delete")}, want: current},
		{name: "subtract from the default", ops: []Op{op("leader.replication.throttled.replicas", OpAppend, "0:1")},
			want: with("leader.replication.throttled.replicas", "0:1")},
		{name: "blanks in a list", ops: []Op{op("cleanup.policy", OpSet, " compact , delete ")}, want: with("cleanup.policy", " compact , delete ")},
		{name: "empty element", ops: []Op{op("cleanup.policy", OpSet, "compact,")}, code: kerr.InvalidConfig},
		{name: "no policy", ops: []Op{op("cleanup.policy", OpSet, "")}, want: with("cleanup.policy", "")},
		{name: "subtract the only policy", ops: []Op{op("cleanup.policy", OpSubtract, "compact")}, want: with("cleanup.policy", "")},
		{name: "append with a comma at the end", ops: []Op{op("cleanup.policy", OpAppend, "delete,")}, want: with("cleanup.policy", "compact,delete")},
		{name: "append a comma", ops: []Op{op("cleanup.policy", OpAppend, ",")}, want: current},
		{name: "no number", ops: []Op{op("retention.ms", OpSet, "")}, code: kerr.InvalidConfig},
		{name: "all and some", ops: []Op{op("leader.replication.throttled.replicas", OpSet, "*,0:1")}, code: kerr.InvalidConfig},
		{name: "operation 9", ops: []Op{op("retention.ms", 9, "5")}, code: kerr.UnknownServerError},
		{name: "same key twice", ops: []Op{op("retention.ms", OpSet, "5"), op("retention.ms", OpSet, "6")}, code: kerr.InvalidRequest},
		{name: "lags cross", ops: []Op{op("min.compaction.lag.ms", OpSet, "5"), op("max.compaction.lag.ms", OpSet, "4")}, code: kerr.InvalidConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := mustParse(t).AlterTopic(current, c.ops)
			if code(err) != c.code || (err == nil) != (c.code == nil) {
				t.Fatalf("got %v, want %v", err, c.code)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTopicsAreValidated(t *testing.T) {
	for _, c := range []struct {
		name      string
		overrides map[string]string
		ok        bool
	}{
		{"nothing", nil, true},
		{"good", map[string]string{"retention.ms": "5", "cleanup.policy": "compact,delete"}, true},
		{"unknown", map[string]string{"foo": "1"}, false},
		{"range", map[string]string{"segment.bytes": "1"}, false},
		{"lag against the default", map[string]string{"max.compaction.lag.ms": "1", "min.compaction.lag.ms": "2"}, false},
		{"tiered", map[string]string{"remote.storage.enable": "true"}, false},
		{"not in ZooKeeper mode", map[string]string{"remote.log.copy.disable": "true"}, false},
		{"version", map[string]string{"message.format.version": "2.8"}, true},
		{"no version", map[string]string{"message.format.version": "9.9"}, false},
		{"throttled", map[string]string{"leader.replication.throttled.replicas": "0:1,1:2"}, true},
		{"throttled all", map[string]string{"leader.replication.throttled.replicas": "*"}, true},
		{"throttled wrongly", map[string]string{"leader.replication.throttled.replicas": "0-1"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := mustParse(t).validateTopic(c.overrides)
			if (err == nil) != c.ok || !c.ok && code(err) != kerr.InvalidConfig {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTopicFallBack(t *testing.T) {
	d := dynamicOver(t, "log.retention.hours=1", "log.message.timestamp.difference.max.ms=5", "min.insync.replicas=2")
	setCluster(t, d, map[string]string{"message.max.bytes": "77"})
	topic, err := d.Current().Topic(map[string]string{"segment.ms": "9", "key.of.another.release": "x", "cleanup.policy": "compact", "max.compaction.lag.ms": "4"})
	if err != nil {
		t.Fatal(err)
	}
	got := []any{topic.Retention, topic.MaxMessageBytes, topic.MinInsyncReplicas, topic.SegmentAge, topic.MaxSegmentAge(), topic.TimestampBeforeMax,
		topic.FlushInterval, topic.CleanupCompact, topic.CleanupDelete}
	want := []any{time.Hour, 77, 2, 9 * time.Millisecond, 4 * time.Millisecond, 5 * time.Millisecond,
		time.Duration(math.MaxInt64), true, false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestGeneratedID(t *testing.T) {
	d := NewDynamic(mustParse(t, "-broker.id=").withBrokerID(1001), testlog.Quiet())
	setBroker(t, d, map[string]string{"num.io.threads": "9"})
	if b := d.Current(); b.BrokerID != 1001 || b.Int("broker.id") != -1 || b.Int("num.io.threads") != 9 {
		t.Errorf("broker %d, broker.id=%d", b.BrokerID, b.Int("broker.id"))
	}
}

func TestBrokerResource(t *testing.T) {
	b := mustParse(t)
	for _, c := range []struct {
		name string
		all  bool
		code *kerr.Error
	}{{"", true, nil}, {"1", false, nil}, {"2", false, kerr.InvalidRequest}, {"x", false, kerr.InvalidRequest}} {
		all, err := b.BrokerResource(c.name)
		if all != c.all || code(err) != c.code {
			t.Errorf("%q: %v %v", c.name, all, err)
		}
	}
}
