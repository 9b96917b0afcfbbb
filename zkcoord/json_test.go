package zkcoord

import (
	"strings"
	"testing"

	"barnabas/internal/uuid"

	"github.com/google/go-cmp/cmp"
)

// mustID parses an id.
func mustID(t testing.TB, text string) ID {
	t.Helper()
	id, err := uuid.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestGoldenNodes: each value was written by Apache Kafka 3.9.2; ours must be the same byte for byte, and decoding must
// return what was encoded.
func TestGoldenNodes(t *testing.T) {
	tests := []struct {
		name   string
		golden string
		encode func() []byte
		decode func([]byte) (any, error)
		want   any
	}{
		{
			name:   "cluster id",
			golden: `{"version":"1","id":"mObcI0NQSCirsOgNRJ92QQ"}`,
			encode: func() []byte { return encodeClusterID("mObcI0NQSCirsOgNRJ92QQ") },
			decode: func(b []byte) (any, error) { return decodeClusterID(b) },
			want:   "mObcI0NQSCirsOgNRJ92QQ",
		},
		{
			name:   "controller",
			golden: `{"version":2,"brokerid":0,"timestamp":"1795960879911","kraftControllerEpoch":-1}`,
			encode: func() []byte { return encodeController(0, 1795960879911) },
			decode: func(b []byte) (any, error) { return decodeController(b) },
			want:   controllerJSON{Version: 2, Timestamp: 1795960879911, KRaftEpoch: new(int32(-1))},
		},
		{
			name:   "features",
			golden: `{"features":{},"version":2,"status":1}`,
			encode: func() []byte { return encodeFeatures(Features{Format: 2, Enabled: true}) },
			decode: func(b []byte) (any, error) { return decodeFeatures(b, 3) },
			want:   Features{Format: 2, Enabled: true, Levels: map[string]int16{}, Epoch: 3},
		},
		{
			name:   "features disabled",
			golden: `{"features":{},"version":1,"status":0}`,
			encode: func() []byte { return encodeFeatures(Features{Format: 1}) },
			decode: func(b []byte) (any, error) { return decodeFeatures(b, 0) },
			want:   Features{Format: 1, Levels: map[string]int16{}},
		},
		{
			name: "broker",
			golden: `{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","SASL_PLAINTEXT":"SASL_PLAINTEXT"},` +
				`"endpoints":["PLAINTEXT://127.0.0.1:23051","SASL_PLAINTEXT://127.0.0.1:23052"],"rack":"r0","jmx_port":-1,` +
				`"port":23051,"host":"127.0.0.1","version":5,"timestamp":"1795961764535"}`,
			encode: func() []byte {
				return encodeBroker(BrokerInfo{Rack: new("r0"), JMXPort: -1, Endpoints: []Endpoint{
					{"PLAINTEXT", "PLAINTEXT", "127.0.0.1", 23051},
					{"SASL_PLAINTEXT", "SASL_PLAINTEXT", "127.0.0.1", 23052}}}, 1795961764535)
			},
			decode: func(b []byte) (any, error) { return DecodeBroker(7, b) },
			want: BrokerInfo{ID: 7, Rack: new("r0"), JMXPort: -1, Format: 5, Features: map[string]FeatureRange{}, Endpoints: []Endpoint{
				{"PLAINTEXT", "PLAINTEXT", "127.0.0.1", 23051},
				{"SASL_PLAINTEXT", "SASL_PLAINTEXT", "127.0.0.1", 23052}}},
		},
		{
			name:   "topic",
			golden: `{"partitions":{"0":[2,0,1],"1":[0,1,2],"2":[1,2,0]},"topic_id":"VWIK6o4MSWaexSSjrBBzoQ","adding_replicas":{},"removing_replicas":{},"version":3}`,
			encode: func() []byte {
				return encodeTopic(TopicInfo{ID: mustID(t, "VWIK6o4MSWaexSSjrBBzoQ"),
					Partitions: map[int32][]int32{2: {1, 2, 0}, 0: {2, 0, 1}, 1: {0, 1, 2}}})
			},
			decode: func(b []byte) (any, error) { return DecodeTopic("t", b) },
			want: TopicInfo{Name: "t", ID: mustID(t, "VWIK6o4MSWaexSSjrBBzoQ"),
				Partitions: map[int32][]int32{2: {1, 2, 0}, 0: {2, 0, 1}, 1: {0, 1, 2}},
				Adding:     map[int32][]int32{}, Removing: map[int32][]int32{}},
		},
		{
			name:   "topic being reassigned, without an id",
			golden: `{"partitions":{"0":[1,2,0],"1":[1,2],"10":[2]},"adding_replicas":{"0":[1]},"removing_replicas":{"0":[0]},"version":3}`,
			encode: func() []byte {
				return encodeTopic(TopicInfo{Partitions: map[int32][]int32{10: {2}, 0: {1, 2, 0}, 1: {1, 2}},
					Adding: map[int32][]int32{0: {1}}, Removing: map[int32][]int32{0: {0}}})
			},
			decode: func(b []byte) (any, error) { return DecodeTopic("t", b) },
			want: TopicInfo{Name: "t", Partitions: map[int32][]int32{10: {2}, 0: {1, 2, 0}, 1: {1, 2}},
				Adding: map[int32][]int32{0: {1}}, Removing: map[int32][]int32{0: {0}}},
		},
		{
			name:   "partition state",
			golden: `{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,0,1]}`,
			encode: func() []byte {
				return encodeState(PartitionState{Leader: 2, ISR: []int32{2, 0, 1}, ControllerEpoch: 1})
			},
			decode: func(b []byte) (any, error) { return DecodeState(b, 4) },
			want:   PartitionState{Leader: 2, ISR: []int32{2, 0, 1}, ControllerEpoch: 1, PartitionEpoch: 4},
		},
		{
			name:   "configuration",
			golden: `{"version":1,"config":{"cleanup.policy":"compact","retention.ms":"1000000"}}`,
			encode: func() []byte {
				return encodeConfig(map[string]string{"retention.ms": "1000000", "cleanup.policy": "compact"})
			},
			decode: func(b []byte) (any, error) { return DecodeConfig(b) },
			want:   map[string]string{"retention.ms": "1000000", "cleanup.policy": "compact"},
		},
		{
			name:   "configuration change",
			golden: `{"version":2,"entity_path":"users/alice/clients/c1"}`,
			encode: func() []byte { return encodeConfigChange(UserClient("alice", "c1")) },
			decode: func(b []byte) (any, error) { return DecodeConfigChange(b) },
			want:   Entity{Users, "alice/clients/c1"},
		},
		{
			name:   "reassignments",
			golden: `{"version":1,"partitions":[{"topic":"t2","partition":1,"replicas":[2,0]}]}`,
			encode: func() []byte {
				return encodeReassignments(map[TopicPartition][]int32{{"t2", 1}: {2, 0}})
			},
			decode: func(b []byte) (any, error) { return decodeReassignments(b) },
			want:   map[TopicPartition][]int32{{"t2", 1}: {2, 0}},
		},
		{
			name:   "list of partitions",
			golden: `{"version":1,"partitions":[{"topic":"t2","partition":0}]}`,
			encode: func() []byte { return encodePartitionList([]TopicPartition{{"t2", 0}}) },
			decode: func(b []byte) (any, error) { return decodePartitionList(b) },
			want:   []TopicPartition{{"t2", 0}},
		},
		{
			name:   "log directory event",
			golden: `{"version":1,"broker":5,"event":1}`,
			encode: func() []byte { return encodeLogDirEvent(5) },
			decode: func(b []byte) (any, error) { return decodeLogDirEvent(b) },
			want:   int32(5),
		},
		{
			name:   "producer ids",
			golden: `{"version":1,"broker":0,"block_start":"0","block_end":"999"}`,
			encode: func() []byte { return encodeProducerIDBlock(ProducerIDBlock{End: 999}) },
			decode: func(b []byte) (any, error) { return DecodeProducerIDBlock(b) },
			want:   ProducerIDBlock{End: 999},
		},
		{
			name:   "consumer offset",
			golden: `7`,
			encode: func() []byte { return []byte("7") },
			decode: func(b []byte) (any, error) { return decodeConsumerOffset(b) },
			want:   int64(7),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.golden, string(test.encode())); diff != "" {
				t.Errorf("written: %s", diff)
			}
			got, err := test.decode([]byte(test.golden))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("read: %s", diff)
			}
		})
	}
}

// TestReadOtherForms reads what older brokers have written, and fields in another order.
func TestReadOtherForms(t *testing.T) {
	plain := func(host string, port int32) BrokerInfo {
		return BrokerInfo{ID: 1, JMXPort: -1, Endpoints: []Endpoint{{"PLAINTEXT", "PLAINTEXT", host, port}}}
	}
	v1, v2, v6 := plain("h", 9), plain("::1", 9), plain("h", 9)
	v1.Format, v2.Format, v2.Rack, v2.JMXPort, v6.Format = 1, 3, new("a"), 7, 6
	unregistered := v6
	unregistered.Endpoints = []Endpoint{{"IN", "SSL", "h", 9}}
	tests := []struct {
		name, data string
		decode     func([]byte) (any, error)
		want       any
	}{
		{"broker version 1", `{"port":9,"host":"h","version":1}`, func(b []byte) (any, error) { return DecodeBroker(1, b) }, v1},
		{"broker version 3", `{"version":3,"endpoints":["PLAINTEXT://[::1]:9"],"rack":"a","jmx_port":7,"host":"::1","port":9}`,
			func(b []byte) (any, error) { return DecodeBroker(1, b) }, v2},
		{"broker of a later version", `{"version":6,"new":{},"endpoints":["IN://h:9"],"listener_security_protocol_map":{"IN":"SSL"}}`,
			func(b []byte) (any, error) { return DecodeBroker(1, b) }, unregistered},
		{"topic version 1", `{"version":1,"partitions":{"0":[1]}}`, func(b []byte) (any, error) { return DecodeTopic("t", b) },
			TopicInfo{Name: "t", Partitions: map[int32][]int32{0: {1}}, Adding: map[int32][]int32{}, Removing: map[int32][]int32{}}},
		{"recovering leader", `{"leader_recovery_state":1,"isr":[1],"leader_epoch":3,"leader":1,"version":1,"controller_epoch":2}`,
			func(b []byte) (any, error) { return DecodeState(b, 0) },
			PartitionState{Leader: 1, LeaderEpoch: 3, ISR: []int32{1}, ControllerEpoch: 2, Recovering: true}},
		{"configuration change version 1", `{"version":1,"entity_type":"topics","entity_name":"t"}`,
			func(b []byte) (any, error) { return DecodeConfigChange(b) }, Entity{Topics, "t"}},
		{"empty configuration", ``, func(b []byte) (any, error) { return DecodeConfig(b) }, map[string]string{}},
		{"controller version 1", `{"version":1,"brokerid":4,"timestamp":"5"}`, func(b []byte) (any, error) { return decodeController(b) },
			controllerJSON{Version: 1, Broker: 4, Timestamp: 5}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.decode([]byte(test.data))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefuseBroken(t *testing.T) {
	tests := []struct {
		name, data string
		decode     func([]byte) (any, error)
	}{
		{"topic: not JSON", `{`, func(b []byte) (any, error) { return DecodeTopic("t", b) }},
		{"topic: partition without a number", `{"partitions":{"a":[1]}}`, func(b []byte) (any, error) { return DecodeTopic("t", b) }},
		{"topic: short id", `{"partitions":{},"topic_id":"abc"}`, func(b []byte) (any, error) { return DecodeTopic("t", b) }},
		{"state: no leader", `{"isr":[1],"leader_epoch":3,"controller_epoch":2}`, func(b []byte) (any, error) { return DecodeState(b, 0) }},
		{"broker: no version", `{}`, func(b []byte) (any, error) { return DecodeBroker(1, b) }},
		{"broker: endpoint without a port", `{"version":5,"endpoints":["A://h"]}`, func(b []byte) (any, error) { return DecodeBroker(1, b) }},
		{"features: no status", `{"version":2,"features":{}}`, func(b []byte) (any, error) { return decodeFeatures(b, 0) }},
		{"features: later version", `{"version":3,"features":{},"status":1}`, func(b []byte) (any, error) { return decodeFeatures(b, 0) }},
		{"configuration: a number", `{"version":1,"config":{"a":1}}`, func(b []byte) (any, error) { return DecodeConfig(b) }},
		{"configuration change: no kind", `{"version":2,"entity_path":"x/y"}`, func(b []byte) (any, error) { return DecodeConfigChange(b) }},
		{"producer ids: end before start", `{"version":1,"broker":0,"block_start":"9","block_end":"1"}`,
			func(b []byte) (any, error) { return DecodeProducerIDBlock(b) }},
		{"epoch", `x`, func(b []byte) (any, error) { return decodeEpoch(b) }},
	}
	for _, test := range tests {
		if v, err := test.decode([]byte(test.data)); err == nil {
			t.Errorf("%s: decoded to %+v", test.name, v)
		}
	}
}

func TestSanitizeName(t *testing.T) {
	for name, want := range map[string]string{
		"CN=bob,O=a/b &% é*": "CN%3Dbob%2CO%3Da%2Fb%20%26%25%20%C3%A9%2A",
		"a.b-c_d~":           "a.b-c_d%7E",
		"":                   "",
	} {
		if got := SanitizeName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
		if got := DesanitizeName(want); got != name {
			t.Errorf("%q: got %q back", name, got)
		}
	}
	if got := DesanitizeName("a%zz%2"); got != "a%zz%2" {
		t.Errorf("invalid encoding became %q", got)
	}
}

func TestSplitConnect(t *testing.T) {
	tests := []struct {
		connect string
		servers string
		chroot  string
	}{
		{"localhost:2181", "localhost:2181", ""},
		{"a, b:1 ,[::1]:2/kafka/x/", "a:2181 b:1 [::1]:2", "/kafka/x"},
		{"[::1]/", "[::1]:2181", ""},
	}
	for _, test := range tests {
		servers, chroot, err := SplitConnect(test.connect)
		if err != nil || strings.Join(servers, " ") != test.servers || chroot != test.chroot {
			t.Errorf("%q: %q %q %v", test.connect, servers, chroot, err)
		}
	}
	for _, bad := range []string{"", "/kafka", "a//b//c"} {
		if _, _, err := SplitConnect(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestSequences(t *testing.T) {
	got := sequences([]string{"x_0000000010", "x_0000000002", "y_0000000001", "x_q"}, "x_")
	if diff := cmp.Diff([]int64{2, 10}, got); diff != "" {
		t.Fatal(diff)
	}
	if name := sequenceName("x_", 2); name != "x_0000000002" {
		t.Fatal(name)
	}
}

func TestChangeOf(t *testing.T) {
	for path, want := range map[string]Change{
		"/controller":                     {Kind: ControllerChanged},
		"/brokers/ids":                    {Kind: BrokersChanged},
		"/brokers/ids/12":                 {Kind: BrokerChanged, Broker: 12},
		"/brokers/topics":                 {Kind: TopicsChanged},
		"/brokers/topics/a.b":             {Kind: TopicChanged, Topic: "a.b"},
		"/admin/delete_topics":            {Kind: TopicDeletionsChanged},
		"/config/changes":                 {Kind: ConfigNotificationsAdded},
		"/delegation_token/token_changes": {Kind: TokenNotificationsAdded},
		"/brokers/topics/t/partitions":    {},
		"/brokers/ids/x":                  {Kind: BrokerChanged},
		"/somewhere/else/of/no/concern":   {},
	} {
		got, ok := changeOf(path)
		if got != want || ok != (want.Kind != 0 && path != "/brokers/ids/x") {
			t.Errorf("%s: %+v %v", path, got, ok)
		}
	}
}

// FuzzNodes feeds all decoders. What they accept must decode to the same after encoding.
func FuzzNodes(f *testing.F) {
	for _, seed := range []string{
		`{"version":5,"endpoints":["A://h:1"],"listener_security_protocol_map":{"A":"SSL"},"features":{"x":{"min_version":1,"max_version":2}}}`,
		`{"partitions":{"0":[2,0,1]},"topic_id":"VWIK6o4MSWaexSSjrBBzoQ","adding_replicas":{"0":[1]},"removing_replicas":{},"version":3}`,
		`{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,0,1],"leader_recovery_state":1}`,
		`{"version":1,"config":{"a":"b"}}`, `{"version":2,"entity_path":"users/a/clients/b"}`,
		`{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2,0]}]}`,
		`{"version":1,"broker":0,"block_start":"0","block_end":"999"}`,
		`{"version":2,"features":{"x":{"max_version_level":3}},"status":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		DecodeBroker(1, data)
		decodeController(data)
		decodeEpoch(data)
		decodeFeatures(data, 0)
		decodeClusterID(data)
		DecodeConfigChange(data)
		decodeLogDirEvent(data)
		decodeConsumerOffset(data)
		again(t, data, func(b []byte) (TopicInfo, error) { return DecodeTopic("t", b) }, encodeTopic)
		again(t, data, func(b []byte) (PartitionState, error) { return DecodeState(b, 0) }, encodeState)
		again(t, data, DecodeConfig, encodeConfig)
		again(t, data, decodeReassignments, encodeReassignments)
		again(t, data, decodePartitionList, encodePartitionList)
		again(t, data, DecodeProducerIDBlock, encodeProducerIDBlock)
	})
}

func again[T any](t *testing.T, data []byte, decode func([]byte) (T, error), encode func(T) []byte) {
	t.Helper()
	first, err := decode(data)
	if err != nil {
		return
	}
	second, err := decode(encode(first))
	if err != nil {
		t.Fatalf("%s: %v", encode(first), err)
	}
	if diff := cmp.Diff(string(encode(first)), string(encode(second))); diff != "" {
		t.Fatal(diff)
	}
}
