package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/kafkatest"

	"github.com/Shopify/sarama"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// transcript records the results of an admin client's calls, one line per call.
type transcript struct {
	t      *testing.T
	addr   string
	called map[string]bool
	lines  []string
}

// add records a call. Values are compared as JSON, errors by their code.
func (r *transcript) add(call string, value any, err error) {
	name, _, _ := strings.Cut(call, " ")
	r.called[name] = true
	var code *kerr.Error
	var saramaCode sarama.KError
	text := "ok"
	switch {
	case err == nil:
	case errors.As(err, &code):
		text = code.Message
	case errors.As(err, &saramaCode):
		text = fmt.Sprintf("code %d", saramaCode)
	default:
		text = "another error"
	}
	body, jerr := json.Marshal(value)
	if jerr != nil {
		body = fmt.Appendf(nil, "%+v", value)
	}
	r.lines = append(r.lines, fmt.Sprintf("%s: %s %s", call, text, r.masked(string(body))))
	r.t.Logf("%s %s: %v", r.addr, call, err)
}

// transcriptMasks hide what differs between clusters, and the wording of messages.
var transcriptMasks = []struct{ pattern, with string }{
	{`"(Cluster|ClusterID|TopicID|TopicId|Uuid|ID|Dir|Path)":"[^"]*"`, `"$1":"MASKED"`},
	{`"(ErrMessage|ErrMsg|ErrorMessage|Message|Msg|Description|Documentation)":"(?:[^"\\]|\\.)+"`, `"$1":"TEXT"`},
	{`"(Port|LastTimestamp|StartTimestamp|Timestamp|ThrottleTime|ThrottleMillis|Size|TotalBytes|UsableBytes|ProducerID|ID)":-?\d+`, `"$1":0`},
	{`/[^"]*/(data|logs)[^"]*"`, `DIR"`},
	{`\b1[789]\d{11}\b`, "TIME"},
}

func (r *transcript) masked(text string) string {
	text = strings.ReplaceAll(text, r.addr, "ADDRESS")
	if _, port, ok := strings.Cut(r.addr, ":"); ok {
		text = strings.ReplaceAll(text, port, "PORT")
	}
	for _, m := range transcriptMasks {
		text = regexp.MustCompile(m.pattern).ReplaceAllString(text, m.with)
	}
	return text
}

// covers reports the methods of an admin client that were not called.
func (r *transcript) covers(t *testing.T, client reflect.Type, except ...string) {
	t.Helper()
	for i := range client.NumMethod() {
		if name := client.Method(i).Name; !r.called[name] && !slices.Contains(except, name) {
			t.Errorf("%v.%s is not called", client, name)
		}
	}
}

// TestAdminClients makes all calls of each admin client to our broker and to Apache Kafka's, and compares the results.
func TestAdminClients(t *testing.T) {
	settings := []string{"offsets.topic.replication.factor=1", "offsets.topic.num.partitions=1", "transaction.state.log.replication.factor=1",
		"transaction.state.log.num.partitions=1", "transaction.state.log.min.isr=1"}
	theirs, _, _ := startPeer(t, 0, zookeeper(t)+"/peer", settings...)
	var options []kafkatest.Option
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		options = append(options, kafkatest.Setting(key, value))
	}
	ours := kafkatest.Run(t, options...).Broker(0).Addr()
	for _, client := range []struct {
		name string
		run  func(t *testing.T, r *transcript)
	}{{"kadm", callKadm}, {"Sarama", callSarama}} {
		t.Run(client.name, func(t *testing.T) {
			var lines [2][]string
			for i, addr := range []string{theirs, ours} {
				r := &transcript{t: t, addr: addr, called: make(map[string]bool)}
				client.run(t, r)
				lines[i] = r.lines
			}
			if d := cmp.Diff(lines[0], lines[1]); d != "" {
				t.Errorf("-Apache Kafka +ours\n%s", d)
			}
		})
	}
}

// untilBrokersHave waits until brokers describe a setting that was changed at run time, their own or, without ids, that
// of all brokers. They are notified of such changes through ZooKeeper, in order, so it suffices to wait for the last
// one. Other changes have taken effect when they are answered.
func untilBrokersHave(t *testing.T, adm *kadm.Client, name, value string, ids ...int32) {
	t.Helper()
	await(t, name+"="+value+" is in effect", func(ctx context.Context) (string, bool) {
		all, err := adm.DescribeBrokerConfigs(ctx, ids...)
		seen := fmt.Sprint(described(all), err)
		return seen, strings.Contains(seen, " "+name+"="+value+" ")
	})
}

func callKadm(t *testing.T, r *transcript) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cl := newClient(t, kgo.SeedBrokers(r.addr), kgo.DefaultProduceTopic("kt"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	k := &kadmCalls{transcript: r, ctx: ctx, adm: kadm.NewClient(cl), cl: cl}
	for _, part := range []func(){k.topics, k.configs, k.cluster, k.records, k.groups, k.transactions, k.quotas, k.security, k.replicas, k.rest} {
		part()
	}
	r.covers(t, reflect.TypeFor[*kadm.Client](), "Close", "SetTimeoutMillis", "OffetForLeaderEpoch", // a misspelt name that the library has kept
		// For releases after 3.9, with APIs that 3.9 does not have.
		"DescribeShareGroups", "DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets", "FindShareCoordinators",
		"CommitOffsetsByID", "CommitAllOffsetsByID", "FetchOffsetsByID", "ListConfigResources", "ListLatestRemoteOffsets")
}

// kadmCalls makes the calls of kadm.
type kadmCalls struct {
	*transcript
	ctx context.Context
	adm *kadm.Client
	cl  *kgo.Client
}

func (k *kadmCalls) topics() {
	topic := func(call string, v kadm.CreateTopicResponse, err error) {
		v.ID = kadm.TopicID{}
		k.add(call, v.NumPartitions, errors.Join(err, v.Err))
	}
	v, err := k.adm.CreateTopic(k.ctx, 2, 1, map[string]*string{"retention.ms": new("1000000")}, "kt")
	topic("CreateTopic", v, err)
	v, err = k.adm.CreateTopic(k.ctx, 2, 1, nil, "kt")
	topic("CreateTopic again", v, err)
	many, err := k.adm.CreateTopics(k.ctx, 1, 1, nil, "ka", "kb", "bad name")
	for _, name := range []string{"ka", "kb", "bad name"} {
		topic("CreateTopics "+name, many[name], err)
	}
	many, err = k.adm.ValidateCreateTopics(k.ctx, 1, 3, nil, "kc")
	topic("ValidateCreateTopics", many["kc"], err)
	parts, err := k.adm.CreatePartitions(k.ctx, 1, "kt", "none")
	k.add("CreatePartitions kt", nil, errors.Join(err, parts["kt"].Err))
	k.add("CreatePartitions none", nil, parts["none"].Err)
	parts, err = k.adm.UpdatePartitions(k.ctx, 3, "kt")
	k.add("UpdatePartitions", nil, errors.Join(err, parts["kt"].Err))
	parts, err = k.adm.ValidateCreatePartitions(k.ctx, 1, "kt")
	k.add("ValidateCreatePartitions", nil, errors.Join(err, parts["kt"].Err))
	parts, err = k.adm.ValidateUpdatePartitions(k.ctx, 1, "kt")
	k.add("ValidateUpdatePartitions", nil, errors.Join(err, parts["kt"].Err))
	listed, err := k.adm.ListTopics(k.ctx)
	k.add("ListTopics", listed, err)
	deleted, err := k.adm.DeleteTopic(k.ctx, "ka")
	k.add("DeleteTopic", nil, errors.Join(err, deleted.Err))
	gone, err := k.adm.DeleteTopics(k.ctx, "kb", "none")
	k.add("DeleteTopics kb", nil, errors.Join(err, gone["kb"].Err))
	k.add("DeleteTopics none", nil, gone["none"].Err)
	listed, err = k.adm.ListTopicsWithInternal(k.ctx)
	k.add("ListTopicsWithInternal", listed.Names(), err)
}

func (k *kadmCalls) configs() {
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "segment.bytes", Value: new("100000")}}
	bad := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "segment.bytes", Value: new("x")}}
	broker := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.cleaner.threads", Value: new("2")}}
	alter := func(call string, v kadm.AlterConfigsResponses, err error) {
		for _, r := range v {
			err = errors.Join(err, r.Err)
		}
		k.add(call, len(v), err)
	}
	for name, configs := range map[string][]kadm.AlterConfig{"good": set} {
		v, err := k.adm.AlterTopicConfigs(k.ctx, configs, "kt")
		alter("AlterTopicConfigs "+name, v, err)
	}
	v, err := k.adm.AlterTopicConfigs(k.ctx, bad, "kt")
	alter("AlterTopicConfigs bad", v, err)
	v, err = k.adm.ValidateAlterTopicConfigs(k.ctx, bad, "kt")
	alter("ValidateAlterTopicConfigs", v, err)
	v, err = k.adm.AlterBrokerConfigs(k.ctx, broker, 0)
	alter("AlterBrokerConfigs", v, err)
	v, err = k.adm.AlterBrokerConfigs(k.ctx, broker)
	alter("AlterBrokerConfigs all", v, err)
	v, err = k.adm.ValidateAlterBrokerConfigs(k.ctx, bad, 0)
	alter("ValidateAlterBrokerConfigs", v, err)
	untilBrokersHave(k.t, k.adm, "log.cleaner.threads", "2")
	d, err := k.adm.DescribeTopicConfigs(k.ctx, "kt")
	k.add("DescribeTopicConfigs", described(d), err)
	d, err = k.adm.DescribeBrokerConfigs(k.ctx)
	k.add("DescribeBrokerConfigs all", described(d), err)
	v, err = k.adm.ValidateAlterTopicConfigsState(k.ctx, set, "kt")
	alter("ValidateAlterTopicConfigsState", v, err)
	v, err = k.adm.AlterTopicConfigsState(k.ctx, set, "kt")
	alter("AlterTopicConfigsState", v, err)
	v, err = k.adm.ValidateAlterBrokerConfigsState(k.ctx, broker, 0)
	alter("ValidateAlterBrokerConfigsState", v, err)
	v, err = k.adm.AlterBrokerConfigsState(k.ctx, nil, 0)
	alter("AlterBrokerConfigsState", v, err)
	d, err = k.adm.DescribeTopicConfigs(k.ctx, "kt")
	k.add("DescribeTopicConfigs after", described(d), err)
}

// described returns the settings that are set, sorted.
func described(all kadm.ResourceConfigs) []string {
	var lines []string
	for _, r := range all {
		for _, c := range r.Configs {
			if c.Source != 5 && c.Value != nil { // not a default
				lines = append(lines, fmt.Sprintf("%s %s=%s %v", r.Name, c.Key, *c.Value, c.Source))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func (k *kadmCalls) cluster() {
	brokers, err := k.adm.ListBrokers(k.ctx)
	k.add("ListBrokers", brokers, err)
	m, err := k.adm.BrokerMetadata(k.ctx)
	k.add("BrokerMetadata", m, err)
	m, err = k.adm.Metadata(k.ctx, "kt")
	k.add("Metadata", m, err)
	versions, err := k.adm.ApiVersions(k.ctx)
	var ranges []string
	versions.Each(func(v kadm.BrokerApiVersions) {
		v.EachKeySorted(func(key, lowest, highest int16) { ranges = append(ranges, fmt.Sprint(key, lowest, highest)) })
	})
	k.add("ApiVersions", ranges, err)
	updated, err := k.adm.UpdateFeatures(k.ctx, true, kadm.FeatureUpdate{Feature: "f", MaxVersionLevel: 1, UpgradeType: 1})
	k.add("UpdateFeatures", updated["f"].Err != nil, err)
}

func (k *kadmCalls) records() {
	for i := range 10 {
		err := k.cl.ProduceSync(k.ctx, &kgo.Record{Partition: 0, Value: fmt.Append(nil, i), Timestamp: time.UnixMilli(int64(1000 + i))}).FirstErr()
		k.add("produce", nil, err)
	}
	deleted, err := k.adm.DeleteRecords(k.ctx, kadm.OffsetsFromRecords(kgo.Record{Topic: "kt", Partition: 0, Offset: 2}))
	k.add("DeleteRecords", deleted, err)
	for _, list := range []struct {
		name string
		call func(context.Context, ...string) (kadm.ListedOffsets, error)
	}{{"ListStartOffsets", k.adm.ListStartOffsets}, {"ListEndOffsets", k.adm.ListEndOffsets}, {"ListMaxTimestampOffsets", k.adm.ListMaxTimestampOffsets},
		{"ListLocalLogStartOffsets", k.adm.ListLocalLogStartOffsets}, {"ListCommittedOffsets", k.adm.ListCommittedOffsets}} {
		v, err := list.call(k.ctx, "kt")
		k.add(list.name, v, err)
	}
	v, err := k.adm.ListOffsetsAfterMilli(k.ctx, 1005, "kt")
	k.add("ListOffsetsAfterMilli", v, err)
	var epochs kadm.OffsetForLeaderEpochRequest
	epochs.Add("kt", 0, 0)
	e, err := k.adm.OffsetForLeaderEpoch(k.ctx, epochs)
	k.add("OffsetForLeaderEpoch", e, err)
}

func (k *kadmCalls) groups() {
	var offsets kadm.Offsets
	offsets.AddOffset("kt", 0, 5, -1)
	until(k.t, "the coordinator's topic, which the first request makes, is there", func(ctx context.Context) bool {
		return k.adm.FindGroupCoordinators(ctx, "kg").Error() == nil
	})
	until(k.t, "the coordinator has read it", func(ctx context.Context) bool {
		_, err := k.adm.FetchOffsets(ctx, "kg")
		return err == nil
	})
	k.add("FindGroupCoordinators", k.adm.FindGroupCoordinators(k.ctx, "kg"), nil)
	committed, err := k.adm.CommitOffsets(k.ctx, "kg", offsets)
	k.add("CommitOffsets", committed, err)
	k.add("CommitAllOffsets", nil, k.adm.CommitAllOffsets(k.ctx, "kg2", offsets))
	fetched, err := k.adm.FetchOffsets(k.ctx, "kg")
	k.add("FetchOffsets", fetched, err)
	fetched, err = k.adm.FetchOffsetsForTopics(k.ctx, "kg", "kt")
	k.add("FetchOffsetsForTopics", fetched, err)
	k.add("FetchManyOffsets", k.adm.FetchManyOffsets(k.ctx, "kg", "kg2", "none"), nil)
	groups, err := k.adm.ListGroups(k.ctx)
	k.add("ListGroups", groups, err)
	groups, err = k.adm.ListGroupsByType(k.ctx, []string{"classic"}, "Empty")
	k.add("ListGroupsByType", groups.Groups(), err)
	d, err := k.adm.DescribeGroups(k.ctx, "kg", "none")
	k.add("DescribeGroups", d, err)
	c, err := k.adm.DescribeConsumerGroups(k.ctx, "kg")
	k.add("DescribeConsumerGroups", len(c), errors.Join(err, c["kg"].Err))
	lag, err := k.adm.Lag(k.ctx, "kg")
	k.add("Lag", lag["kg"].Lag.Total(), err)
	left, err := k.adm.LeaveGroup(k.ctx, kadm.LeaveGroup("kg").InstanceIDs("nobody"))
	k.add("LeaveGroup", len(left), errors.Join(err, left.Error()))
	var some kadm.TopicsSet
	some.Add("kt", 0)
	o, err := k.adm.DeleteOffsets(k.ctx, "kg", some)
	k.add("DeleteOffsets", o, err)
	g, err := k.adm.DeleteGroup(k.ctx, "kg")
	k.add("DeleteGroup", nil, errors.Join(err, g.Err))
	gs, err := k.adm.DeleteGroups(k.ctx, "kg2", "none")
	k.add("DeleteGroups kg2", nil, errors.Join(err, gs["kg2"].Err))
	k.add("DeleteGroups none", nil, gs["none"].Err)
}

func (k *kadmCalls) transactions() {
	txn, err := kgo.NewClient(kgo.SeedBrokers(k.addr), kgo.TransactionalID("kx"), kgo.DefaultProduceTopic("kt"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	k.add("transactional client", nil, err)
	defer txn.Close()
	k.add("begin", nil, txn.BeginTransaction())
	k.add("produce in it", nil, txn.ProduceSync(k.ctx, &kgo.Record{Partition: 1, Value: []byte("x")}).FirstErr())
	k.add("FindTxnCoordinators", k.adm.FindTxnCoordinators(k.ctx, "kx"), nil)
	listed, err := k.adm.ListTransactions(k.ctx, nil, nil)
	k.add("ListTransactions", listed.TransactionalIDs(), err)
	listed, err = k.adm.ListTransactionsByTxPattern(k.ctx, nil, []string{"Ongoing"}, "")
	k.add("ListTransactionsByTxPattern", listed.TransactionalIDs(), err)
	d, err := k.adm.DescribeTransactions(k.ctx, "kx", "none")
	k.add("DescribeTransactions", d["kx"].State, errors.Join(err, d["none"].Err))
	var some kadm.TopicsSet
	some.Add("kt", 1)
	producers, err := k.adm.DescribeProducers(k.ctx, some)
	k.add("DescribeProducers", len(producers.SortedProducers()), err)
	for _, p := range producers.SortedProducers() {
		marked, err := k.adm.WriteTxnMarkers(k.ctx, kadm.TxnMarkers{ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, CoordinatorEpoch: p.CoordinatorEpoch, Topics: some})
		k.add("WriteTxnMarkers", len(marked.SortedPartitions()), err)
	}
	k.add("end", nil, txn.EndTransaction(k.ctx, kgo.TryAbort))
}

func (k *kadmCalls) quotas() {
	entity := kadm.ClientQuotaEntity{{Type: "user", Name: new("u")}}
	entry := func(key string, v float64) []kadm.AlterClientQuotaEntry {
		return []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: []kadm.AlterClientQuotaOp{{Key: key, Value: v}}}}
	}
	altered, err := k.adm.ValidateAlterClientQuotas(k.ctx, entry("bogus", 1))
	for _, a := range altered {
		err = errors.Join(err, a.Err)
	}
	k.add("ValidateAlterClientQuotas", len(altered), err)
	altered, err = k.adm.AlterClientQuotas(k.ctx, entry("producer_byte_rate", 1e6))
	k.add("AlterClientQuotas", altered, err)
	d, err := k.adm.DescribeClientQuotas(k.ctx, false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: new("u")}})
	k.add("DescribeClientQuotas", d, err)
}

func (k *kadmCalls) security() {
	acl := kadm.NewACLs().Topics("kt").Allow("User:a").AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	created, err := k.adm.CreateACLs(k.ctx, acl)
	for _, a := range created {
		err = errors.Join(err, a.Err)
	}
	k.add("CreateACLs", len(created), err)
	d, err := k.adm.DescribeACLs(k.ctx, acl)
	for _, a := range d {
		err = errors.Join(err, a.Err)
	}
	k.add("DescribeACLs", len(d), err)
	deleted, err := k.adm.DeleteACLs(k.ctx, acl)
	for _, a := range deleted {
		err = errors.Join(err, a.Err)
	}
	k.add("DeleteACLs", len(deleted), err)
	altered, err := k.adm.AlterUserSCRAMs(k.ctx, []kadm.DeleteSCRAM{{User: "none", Mechanism: kadm.ScramSha256}},
		[]kadm.UpsertSCRAM{{User: "s", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "pw"}})
	k.add("AlterUserSCRAMs", nil, errors.Join(err, altered["s"].Err, altered["none"].Err))
	scrams, err := k.adm.DescribeUserSCRAMs(k.ctx)
	k.add("DescribeUserSCRAMs", scrams, err)
	_, err = k.adm.CreateDelegationToken(k.ctx, kadm.CreateDelegationToken{})
	k.add("CreateDelegationToken", nil, err)
	_, err = k.adm.RenewDelegationToken(k.ctx, []byte("h"), time.Hour)
	k.add("RenewDelegationToken", nil, err)
	_, err = k.adm.ExpireDelegationToken(k.ctx, []byte("h"), time.Hour)
	k.add("ExpireDelegationToken", nil, err)
	_, err = k.adm.DescribeDelegationTokens(k.ctx)
	k.add("DescribeDelegationTokens", nil, err)
}

func (k *kadmCalls) replicas() {
	var some kadm.TopicsSet
	some.Add("kt", 0)
	elected, err := k.adm.ElectLeaders(k.ctx, kadm.ElectPreferredReplica, some)
	k.add("ElectLeaders", nil, errors.Join(err, elected["kt"][0].Err))
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign("kt", 0, []int32{0})
	req.Assign("kt", 1, []int32{7})
	altered, err := k.adm.AlterPartitionAssignments(k.ctx, req)
	k.add("AlterPartitionAssignments", nil, errors.Join(err, altered["kt"][0].Err, altered["kt"][1].Err))
	listed, err := k.adm.ListPartitionReassignments(k.ctx, nil)
	k.add("ListPartitionReassignments", listed, err)
	dirs, err := k.adm.DescribeAllLogDirs(k.ctx, some)
	k.add("DescribeAllLogDirs", len(dirs.Sorted()), err)
	own, err := k.adm.DescribeBrokerLogDirs(k.ctx, 0, some)
	k.add("DescribeBrokerLogDirs", len(own.Sorted()), err)
	for _, d := range own.Sorted() {
		var same, other kadm.AlterReplicaLogDirsReq
		same.Add(d.Dir, some)
		other.Add("/nowhere", some)
		all, err := k.adm.AlterAllReplicaLogDirs(k.ctx, same)
		k.add("AlterAllReplicaLogDirs", len(all.Sorted()), err)
		one, err := k.adm.AlterBrokerReplicaLogDirs(k.ctx, 0, other)
		k.add("AlterBrokerReplicaLogDirs", nil, err)
		for _, o := range one.Sorted() {
			k.add("AlterBrokerReplicaLogDirs "+o.Topic, nil, o.Err)
		}
	}
}

// rest deletes what the other calls have created.
func (k *kadmCalls) rest() {
	gone, err := k.adm.DeleteTopics(k.ctx, "kt")
	k.add("DeleteTopics kt", nil, errors.Join(err, gone["kt"].Err))
}

func callSarama(t *testing.T, r *transcript) {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V3_0_0_0
	adm, err := sarama.NewClusterAdmin([]string{r.addr}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = adm.Close() }()
	s := &saramaCalls{r, adm}
	s.topics()
	s.configs()
	s.cluster()
	s.groups(t)
	s.security()
	r.covers(t, reflect.TypeFor[sarama.ClusterAdmin](), "Close")
}

// saramaCalls makes the calls of Sarama's ClusterAdmin.
type saramaCalls struct {
	*transcript
	adm sarama.ClusterAdmin
}

func (s *saramaCalls) topics() {
	s.add("CreateTopic", nil, s.adm.CreateTopic("st", &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false))
	s.add("CreateTopic validate", nil, s.adm.CreateTopic("st2", &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 9}, true))
	s.add("CreatePartitions", nil, s.adm.CreatePartitions("st", 3, nil, false))
	s.add("CreatePartitions fewer", nil, s.adm.CreatePartitions("st", 1, nil, true))
	topics, err := s.adm.ListTopics()
	s.add("ListTopics", topics["st"], err)
	described, err := s.adm.DescribeTopics([]string{"st", "none"})
	s.add("DescribeTopics", described, err)
	s.add("AlterPartitionReassignments", nil, s.adm.AlterPartitionReassignments("st", [][]int32{{0}, {0}, {0}}))
	moving, err := s.adm.ListPartitionReassignments("st", []int32{0, 1})
	s.add("ListPartitionReassignments", moving, err)
	s.add("DeleteRecords", nil, s.adm.DeleteRecords("st", map[int32]int64{0: 0}))
	s.add("DeleteTopic none", nil, s.adm.DeleteTopic("none"))
}

func (s *saramaCalls) configs() {
	s.add("AlterConfig", nil, s.adm.AlterConfig(sarama.TopicResource, "st", map[string]*string{"retention.ms": new("5000")}, false))
	s.add("AlterConfig bad", nil, s.adm.AlterConfig(sarama.TopicResource, "st", map[string]*string{"bogus": new("1")}, true))
	s.add("IncrementalAlterConfig", nil, s.adm.IncrementalAlterConfig(sarama.TopicResource, "st",
		map[string]sarama.IncrementalAlterConfigsEntry{"cleanup.policy": {Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: new("compact")}}, false))
	entries, err := s.adm.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: "st", ConfigNames: []string{"retention.ms", "cleanup.policy"}})
	slices.SortFunc(entries, func(a, b sarama.ConfigEntry) int { return strings.Compare(a.Name, b.Name) })
	s.add("DescribeConfig", entries, err)
}

func (s *saramaCalls) cluster() {
	brokers, controller, err := s.adm.DescribeCluster()
	s.add("DescribeCluster", len(brokers), err)
	s.add("DescribeCluster controller", controller, nil)
	c, err := s.adm.Controller()
	s.add("Controller", c.Addr(), err)
	dirs, err := s.adm.DescribeLogDirs([]int32{0})
	s.add("DescribeLogDirs", len(dirs[0]), err)
}

func (s *saramaCalls) groups(t *testing.T) {
	consumer := newClient(t, kgo.SeedBrokers(s.addr))
	defer consumer.Close()
	var offsets kadm.Offsets
	offsets.AddOffset("st", 0, 0, -1)
	s.add("commit", nil, kadm.NewClient(consumer).CommitAllOffsets(t.Context(), "sg", offsets))
	groups, err := s.adm.ListConsumerGroups()
	s.add("ListConsumerGroups", groups, err)
	d, err := s.adm.DescribeConsumerGroups([]string{"sg", "none"})
	slices.SortFunc(d, func(a, b *sarama.GroupDescription) int { return strings.Compare(a.GroupId, b.GroupId) })
	s.add("DescribeConsumerGroups", d, err)
	o, err := s.adm.ListConsumerGroupOffsets("sg", map[string][]int32{"st": {0, 1}})
	s.add("ListConsumerGroupOffsets", o, err)
	left, err := s.adm.RemoveMemberFromConsumerGroup("sg", []string{"nobody"})
	s.add("RemoveMemberFromConsumerGroup", left, err)
	s.add("DeleteConsumerGroupOffset", nil, s.adm.DeleteConsumerGroupOffset("sg", "st", 0))
	s.add("DeleteConsumerGroup", nil, s.adm.DeleteConsumerGroup("sg"))
	s.add("DeleteConsumerGroup none", nil, s.adm.DeleteConsumerGroup("none"))
}

func (s *saramaCalls) security() {
	resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: "st", ResourcePatternType: sarama.AclPatternLiteral}
	acl := sarama.Acl{Principal: "User:a", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}
	s.add("CreateACL", nil, s.adm.CreateACL(resource, acl))
	s.add("CreateACLs", nil, s.adm.CreateACLs([]*sarama.ResourceAcls{{Resource: resource, Acls: []*sarama.Acl{&acl}}}))
	filter := sarama.AclFilter{Version: 1, ResourceType: sarama.AclResourceAny, ResourcePatternTypeFilter: sarama.AclPatternAny,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny}
	listed, err := s.adm.ListAcls(filter)
	s.add("ListAcls", len(listed), err)
	matched, err := s.adm.DeleteACL(filter, false)
	s.add("DeleteACL", len(matched), err)
	up, err := s.adm.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{{Name: "s", Mechanism: sarama.SCRAM_MECHANISM_SHA_256,
		Iterations: 4096, Salt: []byte("salt"), Password: []byte("pw")}})
	s.add("UpsertUserScramCredentials", up, err)
	d, err := s.adm.DescribeUserScramCredentials([]string{"s", "none"})
	slices.SortFunc(d, func(a, b *sarama.DescribeUserScramCredentialsResult) int { return strings.Compare(a.User, b.User) })
	s.add("DescribeUserScramCredentials", d, err)
	del, err := s.adm.DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{{Name: "s", Mechanism: sarama.SCRAM_MECHANISM_SHA_256}})
	s.add("DeleteUserScramCredentials", del, err)
	entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: "su"}}
	s.add("AlterClientQuotas", nil, s.adm.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "consumer_byte_rate", Value: 1e6}, false))
	q, err := s.adm.DescribeClientQuotas([]sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: "su"}}, true)
	s.add("DescribeClientQuotas", q, err)
}
