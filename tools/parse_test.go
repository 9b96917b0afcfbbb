package tools

import (
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestParseSettings(t *testing.T) {
	for _, test := range []struct {
		text string
		want []setting
		bad  bool
	}{
		{"", nil, false},
		{"a=1", []setting{{"a", "1"}}, false},
		{"a=1, b = 2 ,c=", []setting{{"a", "1"}, {"b", "2"}, {"c", ""}}, false},
		{"a=[1,2],b=3", []setting{{"a", "1,2"}, {"b", "3"}}, false},
		{"a=[1]", []setting{{"a", "1"}}, false},
		{"a=b=c", []setting{{"a", "b=c"}}, false},
		{"a", nil, true},
		{"a=1,b", nil, true},
		{"a=[1", nil, true},
		{"a=[1]x", nil, true},
		{"=1", nil, true},
	} {
		got, err := parseSettings(test.text)
		if (err != nil) != test.bad {
			t.Errorf("%q: error %v", test.text, err)
		} else if !test.bad && !slices.Equal(got, test.want) {
			t.Errorf("%q is %v, want %v", test.text, got, test.want)
		}
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add("a=[1,2],b=3")
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := parseSettings(text)
		if err == nil && strings.TrimSpace(text) != "" && len(settings) == 0 {
			t.Errorf("%q has no settings", text)
		}
	})
}

func TestPartitionFilter(t *testing.T) {
	all := []string{"t-0", "t-1", "t-5", "u-0", "u-3"}
	for _, test := range []struct {
		filter func() (partitionFilter, error)
		want   string
	}{
		{func() (partitionFilter, error) { return newPartitionFilter("", "") }, "t-0 t-1 t-5 u-0 u-3"},
		{func() (partitionFilter, error) { return newPartitionFilter("t", "") }, "t-0 t-1 t-5"},
		{func() (partitionFilter, error) { return newPartitionFilter("t|u", "0") }, "t-0 u-0"},
		{func() (partitionFilter, error) { return newPartitionFilter("t,u", "3,5") }, "t-5 u-3"},
		{func() (partitionFilter, error) { return parsePatterns("t:1-") }, "t-1 t-5"},
		{func() (partitionFilter, error) { return parsePatterns("t:0-5,u") }, "t-0 t-1 u-0 u-3"},
		{func() (partitionFilter, error) { return parsePatterns(":-1") }, "t-0 u-0"},
		{func() (partitionFilter, error) { return parsePatterns("u:3") }, "u-3"},
	} {
		f, err := test.filter()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range all {
			topic, partition, _ := strings.Cut(name, "-")
			if f.match(topic, int32(partition[0]-'0')) {
				got = append(got, name)
			}
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("matched %s, want %s", s, test.want)
		}
	}
	for _, bad := range []string{"t:x", "t:1-x", "(:1"} {
		if _, err := parsePatterns(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestExceptionNames(t *testing.T) {
	for err, want := range map[*kerr.Error]string{
		kerr.InvalidReplicationFactor: "InvalidReplicationFactorException", kerr.TopicAlreadyExists: "TopicExistsException",
		kerr.UnknownTopicOrPartition: "UnknownTopicOrPartitionException", kerr.InvalidTopicException: "InvalidTopicException",
		kerr.InvalidConfig: "InvalidConfigurationException", kerr.PolicyViolation: "PolicyViolationException",
		kerr.NotController: "NotControllerException", kerr.RequestTimedOut: "TimeoutException",
	} {
		if got := exceptionName(err); got != commonErrors+want {
			t.Errorf("%s is %s, want %s", err.Message, got, want)
		}
	}
	text := "the reason"
	if got := describe(answered(kerr.InvalidPartitions.Code, &text)); got != commonErrors+"InvalidPartitionsException: the reason" {
		t.Errorf("the error of a response reads %q", got)
	}
}

func TestJavaTimeLayout(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)
	for format, want := range map[string]string{
		"yyyy-MM-dd HH:mm:ss:SSS": "2026-03-04 05:06:07:089", "HH.mm.ss,SSS": "05.06.07,089", "d/M/yy": "4/3/26", "SSS": "089",
	} {
		layout, err := javaTimeLayout(format)
		if err != nil {
			t.Fatal(err)
		}
		if got := javaTime(at, layout); got != want {
			t.Errorf("%s prints %s, want %s", format, got, want)
		}
	}
	if _, err := javaTimeLayout("yyyy Q"); err == nil {
		t.Error("an unknown letter is accepted")
	}
}

func TestLoginOfAClient(t *testing.T) {
	for _, test := range []struct {
		mechanism, jaas string
		want            string // in the error; empty: none
	}{
		{"PLAIN", `org.apache.kafka.common.security.plain.PlainLoginModule required username="al=ice" password = "s e;c";`, ""},
		{"scram-sha-512", `org.apache.kafka.common.security.scram.ScramLoginModule required username=id password=h tokenauth=true;`, ""},
		{"OAUTHBEARER", `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";`, ""},
		{"OAUTHBEARER", `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;`, "unsecuredLoginStringClaim_sub"},
		{"PLAIN", `org.apache.kafka.common.security.scram.ScramLoginModule required username=alice password=p;`, ""},
		{"SCRAM-SHA-256", `org.apache.kafka.common.security.plain.PlainLoginModule required username=alice password=p;`, "SCRAM-SHA-256 needs org.apache.kafka.common.security.scram.ScramLoginModule"},
		{"OAUTHBEARER", `org.apache.kafka.common.security.plain.PlainLoginModule required unsecuredLoginStringClaim_sub="alice";`, "OAUTHBEARER needs"},
		{"PLAIN", "x.PlainLoginModule required;", "its login module is x.PlainLoginModule"},
		{"GSSAPI", `org.apache.kafka.common.security.plain.PlainLoginModule required serviceName=kafka;`, "GSSAPI needs com.sun"},
		{"", "com.sun.security.auth.module.Krb5LoginModule required;", "sasl.kerberos.service.name"},
		{"GSSAPI", "com.ibm.security.auth.module.Krb5LoginModule required serviceName=kafka;", "useKeyTab"},
		{"CRAM-MD5", "x required;", "sasl.mechanism"},
		{"PLAIN", "x required username=alice", "sasl.jaas.config"},
		{"PLAIN", "", "sasl.jaas.config"},
	} {
		_, err := saslOption(t.Context(), &Env{}, properties{"sasl.mechanism": test.mechanism, "sasl.jaas.config": test.jaas})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestShellWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                       nil,
		" get  /x ":              {"get", "/x"},
		`create /x "a b" ''`:     {"create", "/x", "a b", ""},
		`set /x {"a":1}`:         {"set", "/x", "{a:1}"},
		`set /x '{"a": "b c"}' `: {"set", "/x", `{"a": "b c"}`},
	} {
		got, err := shellWords(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
	if _, err := shellWords("get 'x"); err == nil {
		t.Error("an open quote is accepted")
	}
}

func TestPlan(t *testing.T) {
	read := func(content string) (*plan, error) {
		file := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return readPlan(file)
	}
	const topic, missing = `{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[1,2]},{"topic":"a","partition":0,"replicas":[1],"log_dirs":["/d"]}]}`, "no such field"
	const want = `{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":["/d"]},{"topic":"t","partition":1,"replicas":[1,2],"log_dirs":["any","any"]}]}`
	p, err := read(topic)
	if err != nil || p.check() != nil || p.text() != want {
		t.Errorf("text %v, %v, %v", p, err, p.check())
	}
	for _, bad := range []struct{ content, err string }{
		{`{"version":2,"partitions":[]}`, "version"},
		{``, "is not a plan"},
		{`{"partitions":[`, "is not a plan"},
		{`{"partitions":[{"partition":0,"replicas":[0]}]}`, missing + " exists: `topic`"},
		{`{"partitions":[{"topic":"t","replicas":[0]}]}`, missing + " exists: `partition`"},
		{`{"partitions":[{"topic":"t","partition":0}]}`, missing + " exists: `replicas`"},
		{`{"partitions":[{"topic":"t","partition":"0","replicas":[0]}]}`, "is not a plan"},
		{`{"partitions":[{"topic":"t","partition":0,"replicas":[0,1],"log_dirs":["any"]}]}`, "t-0 has 1 log dirs"},
	} {
		if _, err := read(bad.content); err == nil || !strings.Contains(err.Error(), bad.err) {
			t.Errorf("%s: %v", bad.content, err)
		}
	}
	for _, bad := range []string{ // what can be verified and cancelled, but not executed
		`{"partitions":[]}`,
		`{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}`,
		`{"partitions":[{"topic":"t","partition":0,"replicas":[0,0]}]}`,
		`{"partitions":[{"topic":"t","partition":0,"replicas":[0]},{"topic":"t","partition":0,"replicas":[0]}]}`,
	} {
		if p, err := read(bad); err != nil || p.check() == nil {
			t.Errorf("%s: %v, %v", bad, err, p.check())
		}
	}
}

func TestPerfStats(t *testing.T) {
	s := newPerfStats(&Env{})
	for ms := range int64(1000) {
		s.mu.histogram[ms]++
		s.mu.total.add(ms, 10)
	}
	if d := cmp.Diff([]int64{500, 950, 990, 999}, s.percentilesLocked(0.5, 0.95, 0.99, 0.999)); d != "" {
		t.Error(d)
	}
	perSecond, mb, average := s.mu.total.rates(s.start.Add(2 * time.Second))
	if perSecond != 500 || mb != 10000.0/2/(1<<20) || average != 499.5 {
		t.Errorf("rates %v, %v, %v", perSecond, mb, average)
	}
}

func TestFormatterDecodes(t *testing.T) {
	for class, test := range map[string]struct {
		in   []byte
		want string
	}{
		"ShortDeserializer":   {[]byte{0xff, 0xfe}, "-2"},
		"IntegerDeserializer": {[]byte{0, 0, 1, 0}, "256"},
		"LongDeserializer":    {binary.BigEndian.AppendUint64(nil, 1<<40), "1099511627776"},
		"DoubleDeserializer":  {[]byte{0x40, 0, 0, 0, 0, 0, 0, 0}, "2.0"},
		"BooleanDeserializer": {[]byte{1}, "true"},
		"StringDeserializer":  {[]byte("text"), "text"},
	} {
		f, err := newFormatter(defaultFormatter, map[string]string{"value.deserializer": "org.apache.kafka.common.serialization." + class})
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.format(nil, &kgo.Record{Value: test.in})
		if err != nil || string(got) != test.want+"\n" {
			t.Errorf("%s prints %q, %v; want %q", class, got, err, test.want)
		}
		if _, err := f.format(nil, &kgo.Record{Value: []byte("odd size")[:3]}); err == nil && class != "StringDeserializer" {
			t.Errorf("%s takes three bytes", class)
		}
	}
	if _, err := newFormatter(defaultFormatter, map[string]string{"key.deserializer": "com.example.Own"}); err == nil {
		t.Error("an unknown deserializer is accepted")
	}
}

func TestClientOptionsRefuseWrongValues(t *testing.T) {
	base := properties{"bootstrap.servers": "h:1"}
	for name, value := range map[string]string{
		"acks": "2", "compression.type": "x", "linger.ms": "x", "security.protocol": "x", "retries": "-1",
		"bootstrap.servers": "h", "buffer.memory": "0", "max.in.flight.requests.per.connection": "0",
	} {
		if _, err := clientOptions(t.Context(), &Env{Stderr: &strings.Builder{}}, base.with(map[string]string{name: value}), producerSettings); err == nil {
			t.Errorf("%s=%s is accepted", name, value)
		}
	}
	var warnings strings.Builder
	if _, err := clientOptions(t.Context(), &Env{Stderr: &warnings}, base.with(map[string]string{"no.such": "x", "key.serializer": "c"}), producerSettings); err != nil {
		t.Fatal(err)
	}
	if got := warnings.String(); got != "WARN settings without effect: no.such\n" {
		t.Errorf("warning %q", got)
	}
}

// TestSettingsThatJavaAccepts: the library accepts fewer values than Java's clients do.
func TestSettingsThatJavaAccepts(t *testing.T) {
	const maxInt, maxLong = "2147483647", "9223372036854775807"
	base := properties{"bootstrap.servers": "h:1"}
	all, producing, consuming := map[string]setter{}, producerSettings, consumerSettings
	for _, test := range []struct {
		kind   map[string]setter
		name   string
		values []string
	}{
		{all, "connections.max.idle.ms", []string{"-1", "0", "10", "1800000", maxLong}},
		{all, "metadata.max.age.ms", []string{"0", "1", "7200000", maxLong}},
		{all, "request.timeout.ms", []string{"0", "3600000", maxInt}},
		{all, "retry.backoff.ms", []string{"0", maxLong}},
		{all, "socket.connection.setup.timeout.ms", []string{"0", maxLong}},
		{producing, "linger.ms", []string{"0", "120000", maxLong}},
		{producing, "delivery.timeout.ms", []string{"1", maxInt}},
		{producing, "retries", []string{"0", maxInt}},
		{producing, "buffer.memory", []string{"1", maxLong}},
		{producing, "transaction.timeout.ms", []string{maxInt}},
		{consuming, "fetch.max.wait.ms", []string{"0", "1", maxInt}},
		{consuming, "fetch.max.bytes", []string{"0", "104857600", maxInt}},
		{consuming, "max.partition.fetch.bytes", []string{"0", maxInt}},
		{consuming, "max.poll.interval.ms", []string{"1", maxInt}},
		{consuming, "session.timeout.ms", []string{"3000", maxInt}},
		{consuming, "auto.commit.interval.ms", []string{"0", maxInt}},
	} {
		for _, value := range test.values {
			opts, err := clientOptions(t.Context(), &Env{Stderr: io.Discard}, base.with(map[string]string{test.name: value}), test.kind)
			if err == nil {
				err = kgo.ValidateOpts(opts...)
			}
			if err != nil {
				t.Errorf("%s=%s: %v", test.name, value, err)
			}
		}
	}
}

// TestForever: what is longer than Go can express is as long as it can.
func TestForever(t *testing.T) {
	for _, test := range []struct {
		n    int64
		unit time.Duration
		want time.Duration
	}{
		{0, time.Second, 0}, {1500, time.Millisecond, 1500 * time.Millisecond}, {-1, time.Millisecond, -time.Millisecond},
		{math.MaxInt64, time.Millisecond, 9223372036854 * time.Millisecond}, {math.MinInt64, time.Second, -9223372036 * time.Second},
	} {
		if got := duration(test.n, test.unit); got != test.want {
			t.Errorf("%d of %v: %v", test.n, test.unit, got)
		}
	}
	left := properties{"max.block.ms": "9223372036854775807"}
	if got, err := left.millis("max.block.ms", 0); err != nil || got < 1000*time.Hour {
		t.Errorf("max.block.ms: %v, %v", got, err)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT1H": time.Hour, "P2D": 48 * time.Hour, "P1DT2H3M4.5S": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond, "pt0s": 0,
		"-PT1H": -time.Hour, "P1DT-1H": 23 * time.Hour, "PT-0.5S": -500 * time.Millisecond, "-PT-1.5S": 1500 * time.Millisecond,
		"P2000000000DT2000000000H": 9_000_000_000 * time.Second, "P-2000000000DT-1.5S": -9_000_000_000*time.Second - 500*time.Millisecond,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "P", "PT", "1H", "P1H", "PT1D", "PT1.S", "-P", "P1W", "+-PT1S", "P3000000000D"} {
		if got, err := parseDuration(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

func TestParseDatetime(t *testing.T) {
	for text, want := range map[string]int64{
		"1970-01-01T00:00:01.500": 1500, "1970-01-01T01:00:00.000+01:00": 0, "1970-01-01T00:00:00Z": 0, "1970-01-01T01:00:00.000+0100": 0, "1970-01-01T01:00:00.000+01": 0,
	} {
		if got, err := parseDatetime(text); err != nil || got.UnixMilli() != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	if _, err := parseDatetime("yesterday"); err == nil {
		t.Error("any text is accepted")
	}
}
