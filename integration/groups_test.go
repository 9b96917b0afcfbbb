package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"barnabas/kafkatest"

	"github.com/Shopify/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	groupTopic      = "t"
	groupPartitions = 12
	groupSession    = 2 * time.Second
	staticSession   = 15 * time.Second // a Java process takes some time to restart
	groupPatience   = 60 * time.Second
)

// lifeline dials a client's connections until it is cut, which has the effect of killing the client.
type lifeline struct {
	mu    sync.Mutex
	conns []net.Conn
	gone  bool
}

func (w *lifeline) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		_ = conn.Close()
		return nil, errors.New("the client was killed")
	}
	w.conns = append(w.conns, conn)
	return conn, nil
}

// Dial implements proxy.Dialer, as Sarama requires it.
func (w *lifeline) Dial(network, addr string) (net.Conn, error) {
	return w.dial(context.Background(), network, addr)
}

func (w *lifeline) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for _, c := range w.conns {
		_ = c.Close()
	}
}

// ledger records what the members of a group have seen.
type ledger struct {
	mu      sync.Mutex
	seen    map[string]bool
	holding map[*member]map[int32]bool
	lost    map[*member]int // by member: partitions that it has lost while it was alive
}

func newLedger() *ledger {
	return &ledger{seen: make(map[string]bool), holding: make(map[*member]map[int32]bool), lost: make(map[*member]int)}
}

func (l *ledger) got(value []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[string(value)] = true
}

func (l *ledger) gain(m *member, partitions []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holding[m] == nil {
		l.holding[m] = make(map[int32]bool)
	}
	for _, p := range partitions {
		l.holding[m][p] = true
	}
}

func (l *ledger) lose(m *member, partitions []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost[m] += len(partitions)
	for _, p := range partitions {
		delete(l.holding[m], p)
	}
}

func (l *ledger) losses(m *member) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost[m]
}

// shares returns how many partitions each member has, and whether every partition is assigned exactly once.
func (l *ledger) shares(members []*member) ([]int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(map[int32]bool)
	var counts []int
	total := 0
	for _, m := range members {
		counts = append(counts, len(l.holding[m]))
		total += len(l.holding[m])
		maps.Copy(held, l.holding[m])
	}
	slices.Sort(counts)
	return counts, len(held) == groupPartitions && total == groupPartitions
}

// hasSeen reports whether all values from (inclusive) to (exclusive) have been seen.
func (l *ledger) hasSeen(from, to int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := from; n < to; n++ {
		if !l.seen[fmt.Sprint(n)] {
			return false
		}
	}
	return true
}

// partitionsSeen counts the partitions of which a value from first on has been seen.
func (l *ledger) partitionsSeen(first int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	partitions := make(map[int]bool)
	for value := range l.seen {
		if n, err := strconv.Atoi(value); err == nil && n >= first {
			partitions[n%groupPartitions] = true
		}
	}
	return len(partitions)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// member is a consumer in a group.
type member struct {
	kill  func() // without notice to the brokers
	close func() // leaves the group, unless it was killed
}

// How a member commits.
const (
	commitAuto     = "auto"     // periodically
	commitSync     = "sync"     // everything polled, synchronously
	commitAsync    = "async"    // everything polled, asynchronously
	commitSpecific = "specific" // the offsets given
)

// membership is how a member takes part in its group.
type membership struct {
	addrs    []string
	group    string
	topic    string // or a pattern, if it begins with ^
	instance string // empty for a dynamic member
	latest   bool   // whether it begins at the end or at the beginning if the group has no offset
	commit   string
	session  time.Duration
}

func (m membership) reset() string {
	if m.latest {
		return "latest"
	}
	return "earliest"
}

// joiner starts a member.
type joiner func(t *testing.T, l *ledger, as membership) *member

// groupClient is a client library with one of its assignment strategies.
type groupClient struct {
	join     joiner
	static   bool     // supports static members
	patterns bool     // supports subscriptions by pattern
	once     bool     // looks for matching topics only once
	commits  []string // the ways to commit that it supports
}

var allCommits = []string{commitAuto, commitSync, commitAsync, commitSpecific}

// saramaJoiner starts members with Sarama's ConsumerGroup.
func saramaJoiner(strategy sarama.BalanceStrategy) joiner {
	return func(t *testing.T, l *ledger, as membership) *member {
		t.Helper()
		m, line := &member{}, &lifeline{}
		cfg := saramaConfig()
		cfg.Net.Proxy.Enable, cfg.Net.Proxy.Dialer = true, line
		cfg.Net.DialTimeout, cfg.Net.ReadTimeout = 5*time.Second, 10*time.Second
		cfg.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
		cfg.Consumer.Group.Rebalance.Timeout = 10 * time.Second
		cfg.Consumer.Group.Session.Timeout, cfg.Consumer.Group.Heartbeat.Interval = as.session, as.session/4
		cfg.Consumer.Group.InstanceId = as.instance
		cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
		if as.latest {
			cfg.Consumer.Offsets.Initial = sarama.OffsetNewest
		}
		cfg.Consumer.Offsets.AutoCommit.Enable = as.commit == commitAuto
		cfg.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
		cfg.Metadata.RefreshFrequency, cfg.Metadata.Retry.Backoff = time.Second, 100*time.Millisecond
		g, err := sarama.NewConsumerGroup(as.addrs, as.group, cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		var consuming sync.WaitGroup
		consuming.Go(func() {
			for ctx.Err() == nil {
				if err := g.Consume(ctx, []string{as.topic}, &saramaMember{m, l, as}); err != nil {
					select {
					case <-ctx.Done():
					case <-time.After(100 * time.Millisecond):
					}
				}
			}
		})
		m.close = sync.OnceFunc(func() {
			stop()
			consuming.Wait()
			_ = g.Close()
		})
		m.kill = killer(line, m)
		t.Cleanup(m.close)
		return m
	}
}

// killer cuts a member's connections, after which the rest of it ends by itself.
func killer(line *lifeline, m *member) func() {
	return func() {
		line.cut()
		go m.close()
	}
}

type saramaMember struct {
	m  *member
	l  *ledger
	as membership
}

func (s *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	s.l.gain(s.m, session.Claims()[groupTopic])
	return nil
}

func (s *saramaMember) Cleanup(session sarama.ConsumerGroupSession) error {
	s.l.lose(s.m, session.Claims()[groupTopic])
	return nil
}

func (s *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			s.l.got(record.Value)
			if s.as.commit == commitSpecific {
				session.MarkOffset(record.Topic, record.Partition, record.Offset+1, "named")
			} else {
				session.MarkMessage(record, "")
			}
			if s.as.commit != commitAuto && len(claim.Messages()) == 0 {
				session.Commit()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// franzJoiner starts members with franz-go.
func franzJoiner(balancer kgo.GroupBalancer) joiner {
	return func(t *testing.T, l *ledger, as membership) *member {
		t.Helper()
		m, line := &member{}, &lifeline{}
		lost := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			l.lose(m, partitions[groupTopic])
		}
		opts := []kgo.Opt{
			kgo.AlwaysRetryEOF(), kgo.SeedBrokers(as.addrs...), kgo.Dialer(line.dial), kgo.ConsumerGroup(as.group), kgo.ConsumeTopics(as.topic),
			kgo.Balancers(balancer), kgo.SessionTimeout(as.session), kgo.HeartbeatInterval(as.session / 4),
			kgo.RebalanceTimeout(10 * time.Second), kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
				l.gain(m, partitions[groupTopic])
			}),
			kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost),
		}
		if as.instance != "" {
			opts = append(opts, kgo.InstanceID(as.instance))
		}
		if strings.HasPrefix(as.topic, "^") {
			opts = append(opts, kgo.ConsumeRegex())
		}
		if as.latest {
			opts = append(opts, kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
		} else {
			opts = append(opts, kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		}
		if as.commit == commitAuto {
			opts = append(opts, kgo.AutoCommitInterval(100*time.Millisecond))
		} else {
			opts = append(opts, kgo.DisableAutoCommit())
		}
		cl := newClient(t, opts...)
		ctx, stop := context.WithCancel(context.Background())
		var polling sync.WaitGroup
		polling.Go(func() {
			for ctx.Err() == nil {
				fetches := cl.PollFetches(ctx)
				fetches.EachRecord(func(r *kgo.Record) { l.got(r.Value) })
				franzCommit(ctx, cl, as.commit, fetches.Records())
			}
		})
		m.close = sync.OnceFunc(func() {
			stop()
			polling.Wait()
			cl.Close()
		})
		m.kill = killer(line, m)
		t.Cleanup(m.close)
		return m
	}
}

// franzCommit commits what was polled. Errors are caused by rebalances in between: then the records are polled again.
func franzCommit(ctx context.Context, cl *kgo.Client, how string, polled []*kgo.Record) {
	if len(polled) == 0 {
		return
	}
	switch how {
	case commitSync:
		_ = cl.CommitUncommittedOffsets(ctx)
	case commitAsync:
		cl.CommitOffsets(ctx, cl.UncommittedOffsets(), nil)
	case commitSpecific:
		_ = cl.CommitRecords(ctx, polled...)
	}
}

// groupWorld is a cluster with a topic that a group consumes.
type groupWorld struct {
	t        *testing.T
	cluster  *kafkatest.Cluster
	admin    *kadm.Client
	producer *kgo.Client
	ledger   *ledger
	produced int
}

func newGroupWorld(t *testing.T, brokers int) *groupWorld {
	t.Helper()
	w := &groupWorld{t: t, ledger: newLedger()}
	w.cluster = kafkatest.Run(t, kafkatest.Brokers(brokers), kafkatest.Setting("group.min.session.timeout.ms", "1000"),
		kafkatest.Setting("offsets.topic.num.partitions", "3"))
	cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(w.cluster.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // not every client supports compression
		kgo.MetadataMinAge(100*time.Millisecond), kgo.UnknownTopicRetries(-1))
	t.Cleanup(cl.Close)
	w.producer, w.admin = cl, kadm.NewClient(cl)
	if _, err := w.admin.CreateTopic(t.Context(), groupPartitions, int16(brokers), nil, groupTopic); err != nil {
		t.Fatal(err)
	}
	return w
}

// produce adds records to every partition.
func (w *groupWorld) produce() {
	w.t.Helper()
	var records []*kgo.Record
	for range 100 {
		for p := range int32(groupPartitions) {
			records = append(records, &kgo.Record{Topic: groupTopic, Partition: p, Value: fmt.Append(nil, w.produced)})
			w.produced++
		}
	}
	if err := w.producer.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// produceTo creates a topic with one record.
func (w *groupWorld) produceTo(topic, value string) {
	w.t.Helper()
	_, err := w.admin.CreateTopic(w.t.Context(), 1, 1, nil, topic)
	if err == nil {
		err = w.producer.ProduceSync(w.t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// awaitPositions produces until the ledger has a record of each partition: then members that begin at the end have
// determined the end offsets.
func (w *groupWorld) awaitPositions(l *ledger) {
	w.t.Helper()
	first := w.produced
	w.await("positions at the ends", func() (string, bool) {
		w.produce()
		time.Sleep(200 * time.Millisecond)
		seen := l.partitionsSeen(first)
		return fmt.Sprintf("%d partitions", seen), seen == groupPartitions
	})
}

// await waits until something is true of the group.
func (w *groupWorld) await(what string, check func() (string, bool)) {
	w.t.Helper()
	await(w.t, what, func(context.Context) (string, bool) { return check() })
}

// awaitShares waits until all partitions are distributed equally among the members.
func (w *groupWorld) awaitShares(what string, members ...*member) {
	w.t.Helper()
	w.await(what, func() (string, bool) {
		counts, all := w.ledger.shares(members)
		return fmt.Sprint(counts), all && counts[0] == counts[len(counts)-1]
	})
}

// awaitConsumed waits until the group has seen all records and committed their offsets.
func (w *groupWorld) awaitConsumed(what, group string) {
	w.t.Helper()
	w.await(what, func() (string, bool) {
		seen := w.ledger.count()
		return fmt.Sprintf("%d of %d records are seen", seen, w.produced), seen == w.produced
	})
	w.awaitCommitted(what, group)
}

// awaitCommitted waits until the group's offsets are the end offsets of the partitions.
func (w *groupWorld) awaitCommitted(what, group string) {
	w.t.Helper()
	w.await(what, func() (string, bool) {
		// A new client each time: one that has found the coordinator keeps trying that broker even if it was stopped.
		cl, err := kgo.NewClient(kgo.AlwaysRetryEOF(), kgo.SeedBrokers(w.cluster.Addrs()...))
		if err != nil {
			return err.Error(), false
		}
		defer cl.Close()
		offsets, err := kadm.NewClient(cl).FetchOffsets(w.t.Context(), group)
		sum := int64(0)
		offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
		return fmt.Sprintf("%d of %d records are committed, %v", sum, w.produced, err), sum == int64(w.produced)
	})
}

// TestGroups tests a group with each client: it has three members, one is killed, one is added, and the coordinator is
// stopped.
func TestGroups(t *testing.T) {
	t.Parallel()
	for name, client := range clientsOfThisRun {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newGroupWorld(t, 1)
			w.changeMembers(client)
		})
	}
}

// as returns the membership of a test's members, with the client's first way to commit.
func (w *groupWorld) as(c groupClient, instance string) membership {
	return membership{addrs: w.cluster.Addrs(), group: "g", topic: groupTopic, instance: instance, commit: c.commits[0], session: groupSession}
}

// changeMembers runs a group of three, kills one and adds another. It returns those that are left.
func (w *groupWorld) changeMembers(client groupClient) []*member {
	w.t.Helper()
	w.produce()
	var members []*member
	for range 3 {
		members = append(members, client.join(w.t, w.ledger, w.as(client, "")))
	}
	w.awaitShares("three members", members...)
	w.awaitConsumed("three members", "g")
	members[1].kill()
	members = slices.Delete(members, 1, 2)
	w.awaitShares("one was killed", members...)
	w.produce()
	members = append(members, client.join(w.t, w.ledger, w.as(client, "")))
	w.awaitShares("one was added", members...)
	w.produce()
	w.awaitConsumed("one was added", "g")
	return members
}

// TestGroupsOutliveTheirCoordinator stops the broker that coordinates the group, and starts it again.
func TestGroupsOutliveTheirCoordinator(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sarama sticky", "franz-go cooperative sticky"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newGroupWorld(t, 3)
			members := w.changeMembers(usualClients[name])
			for range 2 {
				found := w.admin.FindGroupCoordinators(t.Context(), "g")["g"]
				if found.Err != nil {
					t.Fatal(found.Err)
				}
				coordinator := w.cluster.Broker(int(found.NodeID))
				coordinator.Stop()
				w.produce()
				w.awaitConsumed("the coordinator is stopped", "g")
				w.awaitShares("the coordinator is stopped", members...)
				if err := coordinator.Start(); err != nil {
					t.Fatal(err)
				}
				w.produce()
				w.awaitConsumed("the broker is back", "g")
			}
		})
	}
}

// TestStaticMembersRestart restarts a static member within its session timeout: the others do not notice, and it gets
// the same partitions.
func TestStaticMembersRestart(t *testing.T) {
	t.Parallel()
	for name, client := range clientsOfThisRun {
		if !client.static {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newGroupWorld(t, 1)
			join := func(i int) *member {
				as := w.as(client, fmt.Sprint("i", i))
				as.session = staticSession
				return client.join(t, w.ledger, as)
			}
			w.produce()
			var members []*member
			for i := range 3 {
				members = append(members, join(i))
			}
			w.awaitShares("three members", members...)
			w.awaitConsumed("three members", "g")
			for i := range 3 {
				before := w.ledger.losses(members[(i+1)%3]) + w.ledger.losses(members[(i+2)%3])
				members[i].kill()
				members[i] = join(i)
				w.awaitShares("one was restarted", members...)
				w.produce()
				w.awaitConsumed("one was restarted", "g")
				if after := w.ledger.losses(members[(i+1)%3]) + w.ledger.losses(members[(i+2)%3]); after != before {
					t.Errorf("the others lost %d partitions when member %d was restarted", after-before, i)
				}
			}
		})
	}
}

// TestCommits: the group's next member continues where a member has committed, in each way that its client supports.
func TestCommits(t *testing.T) {
	t.Parallel()
	for name, client := range clientsOfThisRun {
		for _, how := range client.commits {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				w := newGroupWorld(t, 1)
				as := w.as(client, "")
				as.commit = how
				w.produce()
				m := client.join(t, w.ledger, as)
				w.awaitConsumed("the first member", "g")
				m.close()
				before := w.produced
				w.ledger = newLedger() // for the second member
				w.produce()
				m = client.join(t, w.ledger, as)
				w.await("the second member", func() (string, bool) {
					n := w.ledger.count()
					return fmt.Sprintf("%d of %d records are seen", n, w.produced-before), n >= w.produced-before
				})
				w.awaitCommitted("the second member", "g")
				m.close()
				if n := w.ledger.count(); n != w.produced-before {
					t.Errorf("the second member sees %d records, want %d", n, w.produced-before)
				}
			})
		}
	}
}

// TestOffsetReset: a group without offsets begins where its members are configured to.
func TestOffsetReset(t *testing.T) {
	t.Parallel()
	for name, client := range clientsOfThisRun {
		for _, latest := range []bool{false, true} {
			as := membership{latest: latest}
			t.Run(name+" "+as.reset(), func(t *testing.T) {
				t.Parallel()
				w := newGroupWorld(t, 1)
				as := w.as(client, "")
				as.latest = latest
				w.produce()
				skipped := 0
				m := client.join(t, w.ledger, as)
				w.awaitShares("the member", m)
				if latest {
					skipped = w.produced
					w.awaitPositions(w.ledger)
				}
				w.produce()
				w.await("the member", func() (string, bool) {
					last := w.ledger.hasSeen(w.produced-groupPartitions, w.produced)
					return fmt.Sprintf("%d records are seen", w.ledger.count()), last
				})
				m.close()
				if latest && w.ledger.hasSeen(0, 1) || !latest && w.ledger.count() != w.produced-skipped {
					t.Errorf("%d of %d records were seen, the first one: %t", w.ledger.count(), w.produced, w.ledger.hasSeen(0, 1))
				}
			})
		}
	}
}

// TestPatternSubscription: a member with a pattern reads the topics that match, including one created later, and no
// others.
func TestPatternSubscription(t *testing.T) {
	t.Parallel()
	for name, client := range clientsOfThisRun {
		if !client.patterns {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newGroupWorld(t, 1)
			as := w.as(client, "")
			as.topic = "^match-.*"
			w.produce() // to the topic that does not match
			w.produceTo("match-1", "a")
			m := client.join(t, w.ledger, as)
			w.await("the first topic", func() (string, bool) { return fmt.Sprint(w.ledger.count()), w.ledger.count() == 1 })
			if client.once {
				m.close()
				return
			}
			w.produceTo("match-2", "b")
			w.await("the topic made later", func() (string, bool) { return fmt.Sprint(w.ledger.count()), w.ledger.count() == 2 })
			m.close()
		})
	}
}

// TestGroupsOutliveASwapOfBrokers: a group consumes from our broker, then from Apache Kafka with the same log
// directories, and from ours again: each continues where the previous one stopped.
func TestGroupsOutliveASwapOfBrokers(t *testing.T) {
	peer(t)
	zk := zookeeper(t)
	ours := newProcess(t, 0, zk, "offsets.topic.num.partitions=3")
	ours.start()
	cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(ours.addr()))
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, groupTopic); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: groupTopic, Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	cl.Close()
	consumeSome(t, ours.addr(), 0, 10)
	ours.stop()
	theirs, _, stopTheirs := startPeer(t, 0, zk, "log.dirs="+ours.logDir(), "offsets.topic.num.partitions=3", "offsets.topic.replication.factor=1")
	consumeSome(t, theirs, 10, 10)
	stopTheirs()
	ours.start()
	consumeSome(t, ours.addr(), 20, 10)
	if state := peerTool(t, "", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", ours.addr(),
		"--describe", "--group", "g", "--state"); !strings.Contains(state, "Empty") {
		t.Errorf("the group is %s", state)
	}
}

// consumeSome consumes records as the only member of a group, expects them to begin at first, and commits.
func consumeSome(t *testing.T, addr string, first, count int) {
	t.Helper()
	cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(addr), kgo.ConsumerGroup("g"), kgo.ConsumeTopics(groupTopic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), groupPatience)
	defer cancel()
	for next := first; next < first+count; {
		fetches := cl.PollRecords(ctx, first+count-next)
		if ctx.Err() != nil {
			t.Fatalf("record %d does not arrive: %v", next, fetches.Errors())
		}
		for _, r := range fetches.Records() {
			if string(r.Value) != fmt.Sprint(next) {
				t.Fatalf("record %s, want %d", r.Value, next)
			}
			next++
			if err := cl.CommitRecords(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
	}
}
