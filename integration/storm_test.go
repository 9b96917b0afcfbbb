package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testport"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// storm is a cluster of three brokers, each with two log directories on a small file system that can be filled, and a
// ZooKeeper that can be killed; and what clients have done.
type storm struct {
	t       *testing.T
	random  *rand.Rand
	zk      *zookeeperProcess
	lines   []*proxy // connections to ZooKeeper
	brokers []stormBroker
	disks   []string
	addrs   []string
	client  *kgo.Client
	adm     *kadm.Client
	theirs  int         // the broker that is Apache Kafka's all the time, or -1
	still   atomic.Bool // no replicas are moved
}

type stormBroker interface {
	start()
	stop()
	kill()
	send(syscall.Signal)
	addr() string
}

// patientPeer is a broker of Apache Kafka that is not restarted until its earlier registration is gone: otherwise it
// would exit.
type patientPeer struct {
	*peerBroker
	again bool
}

func (p *patientPeer) start() {
	if p.again {
		time.Sleep(4 * time.Second)
	}
	p.again = true
	p.peerBroker.start()
}

// TestStorm does everything at once: an idempotent producer, transactions that copy records and commit a group's
// offsets, keys that are compacted, commits, topics that are created and deleted, replicas that move between brokers
// and between log directories; while brokers are killed, paused, restarted and disconnected from ZooKeeper, disks fill
// up and ZooKeeper is killed. In the end what was acknowledged is there, once and in order, copies are complete, no
// committed offset has gone back, and all replicas are in sync. CHAOS_SECONDS makes it longer, CHAOS_SEED repeats a
// run's choices.
func TestStorm(t *testing.T) {
	seconds, seed := chaosSettings(10)
	t.Logf("seed %d", seed)
	s := newStorm(t, seed, -1)
	s.run(seconds, seed)
}

// TestStormOverBothKinds is TestStorm with one broker of Apache Kafka, whose disk is not filled and whose replicas are
// not moved between log directories. It takes longer, since that broker starts slowly, and runs only as part of the
// long run (CHAOS_SECONDS).
func TestStormOverBothKinds(t *testing.T) {
	if os.Getenv("CHAOS_SECONDS") == "" {
		t.Skip("part of the long run")
	}
	seconds, seed := chaosSettings(5)
	t.Logf("seed %d", seed)
	s := newStorm(t, seed, 2)
	s.run(seconds, seed)
}

// TestDirectoriesInTurnsInAStorm lets brokers of both kinds take turns on two log directories and a ZooKeeper, each killed
// in the middle of everything.
func TestDirectoriesInTurnsInAStorm(t *testing.T) {
	seconds, seed := chaosSettings(10)
	t.Logf("seed %d", seed)
	s := &storm{t: t, random: rand.New(rand.NewPCG(seed, 0)), zk: newZookeeperProcess(t), theirs: -1}
	s.zk.start()
	dir := t.TempDir()
	settings := []string{"log.dirs=" + dir + "/a," + dir + "/b", "log.segment.bytes=1000000", "offsets.topic.num.partitions=3", "offsets.topic.replication.factor=1",
		"transaction.state.log.num.partitions=3", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1", "group.initial.rebalance.delay.ms=0",
		"group.min.session.timeout.ms=1000", "transaction.abort.timed.out.transaction.cleanup.interval.ms=200", "zookeeper.session.timeout.ms=2000", "zookeeper.connection.timeout.ms=60000",
		"log.cleaner.backoff.ms=200", "log.cleaner.min.cleanable.ratio=0.05", "log.cleaner.dedupe.buffer.size=4000000", "log.segment.delete.delay.ms=500",
		"replica.alter.log.dirs.io.max.bytes.per.second=5000000", "log.retention.check.interval.ms=1000"}
	ours := newProcess(t, 0, s.zk.addr, settings...)
	theirs := newPeer(t, 0, s.zk.addr, settings...)
	theirs.port = ours.port
	s.disks, s.addrs = []string{dir}, []string{ours.addr()}
	ours.start()
	s.createTopics()
	s.still.Store(true)
	s.runClients(seed, func() {
		for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
			s.sleep(8000)
			t.Log("kill ours")
			ours.kill()
			time.Sleep(4 * time.Second) // Apache Kafka does not start before its earlier node is gone
			theirs.start()
			s.still.Store(false)
			s.sleep(8000)
			t.Log("kill theirs")
			theirs.kill()
			s.still.Store(true) // Apache Kafka does not start if a move was killed between its last two renames
			ours.start()
		}
	})
}

// run injects faults for this long, and compares the brokers' replicas in the end.
func (s *storm) run(seconds int, seed uint64) {
	s.t.Helper()
	s.runClients(seed, func() { s.injectFaults(time.Duration(seconds) * time.Second) })
	for _, b := range s.brokers {
		b.stop()
	}
	for _, topic := range []string{"t", "in", "out", "twin"} {
		for partition := range chaosPartitions {
			s.compareReplicas(fmt.Sprintf("%s-%d", topic, partition))
		}
	}
}

// runClients runs all clients while harm injects faults, and checks what they got.
func (s *storm) runClients(seed uint64, harm func()) {
	t := s.t
	t.Helper()
	var tasks sync.WaitGroup
	running, stop := context.WithCancel(t.Context())
	defer stop()
	keys, commits := &keyLoad{acked: make(map[string]int)}, &commitLoad{}
	tasks.Go(func() { keys.run(running, s) })
	tasks.Go(func() { commits.run(running, s) })
	tasks.Go(func() { s.churn(running) })
	tasks.Go(func() { s.move(running, rand.New(rand.NewPCG(seed, 1))) })
	copied := 0
	tasks.Go(func() { copied = s.feed(running) })
	tasks.Go(func() { s.copy(running, rand.New(rand.NewPCG(seed, 2))) })
	var seen [chaosPartitions]map[int64]string
	tasks.Go(func() { seen = readDuring(t, running, s.addrs) })
	acked := produceDuring(t, s.client, harm)
	stop()
	tasks.Wait()
	t.Log("the storm is over")
	s.awaitInSync("t", "keyed", "in", "out", "twin", "moved")
	for partition, want := range acked {
		checkPartition(t, s.addrs, int32(partition), want, seen[partition])
	}
	keys.check(s)
	commits.check(s)
	s.finishCopies(copied)
	t.Logf("%d records were copied, %d keys, offset %d", copied, len(keys.acked), commits.acked)
}

// newStorm starts a cluster of three brokers, of which number theirs is Apache Kafka's.
func newStorm(t *testing.T, seed uint64, theirs int) *storm {
	t.Helper()
	s := &storm{t: t, random: rand.New(rand.NewPCG(seed, 0)), zk: newZookeeperProcess(t), theirs: theirs}
	s.zk.start()
	for id := range 3 {
		line := newProxy(t, s.zk.addr)
		disk := smallDisk(t)
		settings := []string{"log.dirs=" + disk + "/a," + disk + "/b", "min.insync.replicas=2", "replica.lag.time.max.ms=3000",
			"log.segment.bytes=1000000", "controlled.shutdown.retry.backoff.ms=100", "offsets.topic.replication.factor=3", "offsets.topic.num.partitions=3",
			"transaction.state.log.replication.factor=3", "transaction.state.log.num.partitions=3", "transaction.state.log.min.isr=2",
			"group.min.session.timeout.ms=1000", "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
			"log.cleaner.backoff.ms=200", "log.cleaner.min.cleanable.ratio=0.05", "log.cleaner.dedupe.buffer.size=4000000", "file.delete.delay.ms=500", "log.segment.delete.delay.ms=500",
			"replica.alter.log.dirs.io.max.bytes.per.second=5000000", "log.retention.check.interval.ms=1000", "zookeeper.connection.timeout.ms=60000", "zookeeper.session.timeout.ms=2000", "group.initial.rebalance.delay.ms=0"}
		var p stormBroker = newProcess(t, id, line.addr(), settings...)
		if id == theirs {
			p = &patientPeer{peerBroker: newPeer(t, id, line.addr(), settings...)}
		}
		p.start()
		s.lines, s.disks, s.brokers, s.addrs = append(s.lines, line), append(s.disks, disk), append(s.brokers, p), append(s.addrs, p.addr())
	}
	s.createTopics()
	return s
}

func (s *storm) createTopics() {
	s.t.Helper()
	s.client, s.adm = s.newClient()
	for topic, settings := range map[string]map[string]*string{
		"t": nil, "in": nil, "out": nil, "twin": nil, "moved": nil,
		"keyed": {"cleanup.policy": new("compact"), "segment.bytes": new("100000"), "min.compaction.lag.ms": new("0"), "delete.retention.ms": new("0")},
	} {
		if _, err := s.adm.CreateTopic(s.t.Context(), chaosPartitions, int16(len(s.addrs)), settings, topic); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *storm) newClient(opts ...kgo.Opt) (*kgo.Client, *kadm.Client) {
	s.t.Helper()
	cl := newClient(s.t, append([]kgo.Opt{kgo.AlwaysRetryEOF(), kgo.SeedBrokers(s.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(20000),
		kgo.RecordRetries(1 << 30), kgo.MetadataMinAge(50 * time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.RetryTimeout(5 * time.Minute)}, opts...)...)
	s.t.Cleanup(cl.Close)
	return cl, kadm.NewClient(cl)
}

// smallDisk returns a directory on a file system of its own.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	need(t, "mount", exec.Command("mount", "-t", "tmpfs", "-o", "size=400m", "none", dir).Run() == nil)
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// fill uses up the space on a disk until the returned function is called.
func fill(t *testing.T, disk string) (undo func()) {
	name := filepath.Join(disk, "balloon")
	file, err := os.Create(name) //nolint:gosec // a test's own
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for len(block) > 0 {
		if _, err := file.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	_ = file.Close()
	return func() { _ = os.Remove(name) }
}

// injectFaults injects one fault after the other, and heals each.
func (s *storm) injectFaults(during time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); {
		at := s.random.IntN(len(s.brokers))
		switch harm := s.random.IntN(14); {
		case harm < 4:
			s.t.Logf("kill %d", at)
			s.brokers[at].kill()
			s.sleep(3000)
			s.brokers[at].start()
		case harm < 6:
			span := 500 + s.random.IntN(4000)
			if s.random.IntN(4) == 0 {
				span = 20000
			}
			s.t.Logf("pause %d for %d ms", at, span)
			s.brokers[at].send(syscall.SIGSTOP)
			time.Sleep(time.Duration(span) * time.Millisecond)
			s.brokers[at].send(syscall.SIGCONT)
		case harm < 7:
			s.t.Logf("cut %d from ZooKeeper", at)
			s.lines[at].sever(true)
			s.sleep(5000)
			s.lines[at].sever(false)
		case harm < 9:
			s.t.Logf("restart %d", at)
			s.brokers[at].stop()
			s.brokers[at].start()
		case harm < 11 && at != s.theirs:
			s.t.Logf("fill the disk of %d", at)
			undo := fill(s.t, s.disks[at])
			s.sleep(6000)
			if s.random.IntN(2) == 0 {
				s.t.Logf("kill %d on its full disk", at)
				s.brokers[at].kill()
				s.brokers[at].start()
				s.sleep(2000)
			}
			undo()
		case harm < 13:
			s.t.Log("kill ZooKeeper")
			s.zk.kill()
			s.sleep(6000)
			s.zk.start()
		default:
			s.t.Log("kill all")
			for _, b := range s.brokers {
				b.kill()
			}
			for _, b := range s.brokers {
				b.start()
			}
		}
		s.sleep(2000)
	}
}

func (s *storm) sleep(maxMillis int) {
	time.Sleep(time.Duration(s.random.IntN(maxMillis)) * time.Millisecond)
}

// churn creates and deletes topics.
func (s *storm) churn(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		name := fmt.Sprintf("churn-%d", i%5)
		_, _ = s.adm.CreateTopic(asked, 3, int16(len(s.addrs)), nil, name)
		_, _ = s.adm.DeleteTopic(asked, name)
		cancel()
		time.Sleep(200 * time.Millisecond)
	}
}

// move moves replicas to other log directories and to other brokers.
func (s *storm) move(ctx context.Context, random *rand.Rand) {
	topics := []string{"t", "keyed", "in", "out", "twin", "moved"}
	for ctx.Err() == nil {
		if s.still.Load() {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		broker, partition := int32(random.IntN(len(s.addrs))), int32(random.IntN(chaosPartitions))
		if int(broker) != s.theirs { // Apache Kafka does not start if a move was killed between its last two renames
			var req kadm.AlterReplicaLogDirsReq
			req.Add(s.disks[broker]+[]string{"/a", "/b"}[random.IntN(2)], kadm.TopicsSet{topics[random.IntN(len(topics))]: {partition: {}}})
			_, _ = s.adm.AlterBrokerReplicaLogDirs(asked, broker, req)
		}
		if random.IntN(3) == 0 && len(s.addrs) == 3 {
			var moves kadm.AlterPartitionAssignmentsReq
			replicas := []int32{0, 1, 2}
			random.Shuffle(3, func(i, j int) { replicas[i], replicas[j] = replicas[j], replicas[i] })
			moves.Assign("moved", partition, replicas[:1+random.IntN(3)])
			_, _ = s.adm.AlterPartitionAssignments(asked, moves)
		}
		if random.IntN(3) == 0 {
			_, _ = s.adm.ElectLeaders(asked, kadm.ElectPreferredReplica, kadm.TopicsSet{topics[random.IntN(len(topics))]: {partition: {}}})
		}
		cancel()
		time.Sleep(300 * time.Millisecond)
	}
}

// feed writes numbers to the topic that is copied, and returns how many.
func (s *storm) feed(ctx context.Context) int {
	cl, _ := s.newClient()
	n := 0
	for ; ctx.Err() == nil; n++ {
		cl.Produce(context.Background(), &kgo.Record{Topic: "in", Partition: int32(n % chaosPartitions), Value: []byte(strconv.Itoa(n))}, func(r *kgo.Record, err error) {
			if err != nil && !s.t.Failed() {
				s.t.Errorf("record %s to be copied: %v", r.Value, err)
			}
		})
		time.Sleep(5 * time.Millisecond)
	}
	flushing, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	if err := cl.Flush(flushing); err != nil {
		s.t.Errorf("not all records to be copied were acknowledged: %v", err)
	}
	return n
}

// copy copies until ctx ends; its client is killed from time to time.
func (s *storm) copy(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		line := &lifeline{}
		living, cancel := context.WithTimeout(ctx, time.Duration(3000+random.IntN(15000))*time.Millisecond)
		if random.IntN(2) == 0 {
			context.AfterFunc(living, line.cut)
		}
		if err := copyExactlyOnce(living, s.addrs, line, "out", "twin"); err != nil {
			s.t.Logf("the copier: %v", err)
		}
		cancel()
	}
}

func (s *storm) finishCopies(count int) {
	s.t.Helper()
	running, stop := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		var err error
		for running.Err() == nil {
			err = copyExactlyOnce(running, s.addrs, &lifeline{}, "out", "twin")
		}
		ended <- err
	}()
	awaitCopied(s.t, s.adm)
	stop()
	<-ended
	checkCopies(s.t, s.adm, s.addrs, count, "out", "twin")
}

// keyLoad writes increasing numbers under a few keys of topic keyed. A key's partition is its last digit modulo 4.
type keyLoad struct {
	mu    sync.Mutex
	acked map[string]int
}

func (k *keyLoad) run(ctx context.Context, s *storm) {
	cl, _ := s.newClient()
	for i := 1; ctx.Err() == nil; i++ {
		key := strconv.Itoa(i % 100)
		cl.Produce(context.Background(), &kgo.Record{Topic: "keyed", Partition: int32(i % 100 % chaosPartitions), Key: []byte(key), Value: fmt.Appendf(nil, "%d-%0100d", i, 0)}, func(_ *kgo.Record, err error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			if err == nil {
				k.acked[key] = max(k.acked[key], i)
			} else if !s.t.Failed() {
				s.t.Errorf("key %s: %v", key, err)
			}
		})
		if i%10 == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	flushing, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	if err := cl.Flush(flushing); err != nil {
		s.t.Errorf("not all keys were acknowledged: %v", err)
	}
}

func (k *keyLoad) check(s *storm) {
	got := make(map[string]int)
	for _, r := range readRecords(s.t, s.addrs, "keyed", kgo.ReadUncommitted()) {
		number, _, _ := strings.Cut(string(r.Value), "-")
		n, err := strconv.Atoi(number)
		if err != nil || n <= got[string(r.Key)] {
			s.t.Fatalf("keyed-%d, offset %d: key %s has %d after %d, %v", r.Partition, r.Offset, r.Key, n, got[string(r.Key)], err)
		}
		got[string(r.Key)] = n
	}
	if !maps.Equal(got, k.acked) {
		s.t.Errorf("values by key: %v, acknowledged %v", got, k.acked)
	}
}

// commitLoad commits increasing offsets.
type commitLoad struct{ asked, acked int64 }

func (c *commitLoad) run(ctx context.Context, s *storm) {
	_, adm := s.newClient()
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		c.asked++
		var offsets kadm.Offsets
		offsets.AddOffset("t", 0, c.asked, -1)
		responses, err := adm.CommitOffsets(asked, "simple", offsets)
		if err == nil && responses.Error() == nil {
			c.acked = c.asked
		}
		fetched, err := adm.FetchOffsets(asked, "simple")
		if err == nil && fetched.Error() == nil {
			c.compare(s, fetched)
		}
		cancel()
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *commitLoad) compare(s *storm, fetched kadm.OffsetResponses) {
	if o, _ := fetched.Lookup("t", 0); c.acked > 0 && (o.At < c.acked || o.At > c.asked) {
		s.t.Errorf("committed offset %d, acknowledged %d", o.At, c.acked)
	}
}

func (c *commitLoad) check(s *storm) {
	until(s.t, "offsets can be read", func(ctx context.Context) bool {
		fetched, err := s.adm.FetchOffsets(ctx, "simple")
		if err = errors.Join(err, fetched.Error()); err == nil {
			c.compare(s, fetched)
		}
		return err == nil
	})
}

func (s *storm) awaitInSync(names ...string) {
	await(s.t, "all replicas are in sync", func(ctx context.Context) (string, bool) {
		topics, err := s.adm.ListTopics(ctx, names...)
		if err != nil {
			return err.Error(), false
		}
		var behind []string
		all := topics.TopicsSet() // asked for no topics, the client library reports no moves
		topics.EachPartition(func(p kadm.PartitionDetail) {
			if p.Err != nil || len(p.ISR) < len(p.Replicas) || len(p.Replicas) == 0 {
				behind = append(behind, fmt.Sprintf("%s-%d: %v of %v, %v", p.Topic, p.Partition, p.ISR, p.Replicas, p.Err))
			}
		})
		moving, err := s.adm.ListPartitionReassignments(ctx, all)
		for _, m := range moving.Sorted() {
			behind = append(behind, fmt.Sprintf("%s-%d moves", m.Topic, m.Partition))
		}
		return fmt.Sprint(behind, err), len(behind) == 0 && err == nil
	})
}

// compareReplicas checks that all brokers have the same batches, in whichever directory.
func (s *storm) compareReplicas(partition string) {
	s.t.Helper()
	var first []byte
	for i, disk := range s.disks {
		files, _ := filepath.Glob(filepath.Join(disk, "?", partition, "*.log"))
		slices.Sort(files)
		var log []byte
		for _, f := range files {
			data, err := os.ReadFile(f) //nolint:gosec // a test's own
			if err != nil {
				s.t.Fatal(err)
			}
			log = append(log, data...)
		}
		if i == 0 {
			first = log
		} else if !slices.Equal(first, log) {
			s.t.Errorf("%s: brokers 0 and %d differ: %s", partition, i, firstDifference(first, log))
		}
	}
}

// zookeeperProcess is Apache ZooKeeper, a single server in a process that can be killed.
type zookeeperProcess struct {
	t         *testing.T
	dir, addr string
	cmd       *exec.Cmd
}

func newZookeeperProcess(t *testing.T) *zookeeperProcess {
	t.Helper()
	z := &zookeeperProcess{t: t, dir: t.TempDir()}
	port := testport.Reserve(t)
	z.addr = fmt.Sprintf("127.0.0.1:%d", port)
	text := fmt.Sprintf("dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=500\nmaxSessionTimeout=60000\nadmin.enableServer=false\n", z.dir, port)
	if err := os.WriteFile(filepath.Join(z.dir, "zoo.cfg"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.kill)
	return z
}

func (z *zookeeperProcess) start() {
	z.t.Helper()
	classpath, err := exec.Command(peer(z.t), "classpath").Output()
	if err != nil {
		z.t.Fatal(err)
	}
	z.cmd = exec.Command("java", "-Xmx128m", "-Dzookeeper.forceSync=no", "-cp", strings.TrimSpace(string(classpath)), //nolint:gosec // a test's own
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(z.dir, "zoo.cfg"))
	z.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := z.cmd.Start(); err != nil {
		z.t.Fatal(err)
	}
	untilListening(z.t, z.addr)
}

func (z *zookeeperProcess) kill() {
	if z.cmd != nil {
		_ = z.cmd.Process.Kill()
		_ = z.cmd.Wait()
		z.cmd = nil
	}
}
