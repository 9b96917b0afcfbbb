package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// twoDirs returns two log directories and the setting for them.
func twoDirs(t *testing.T) (dirs [2]string, setting string) {
	base := t.TempDir()
	dirs = [2]string{filepath.Join(base, "a"), filepath.Join(base, "b")}
	return dirs, "log.dirs=" + dirs[0] + "," + dirs[1]
}

// diskClient returns a producer to chosen partitions that retries through every failure.
func diskClient(t *testing.T, addrs ...string) (*kgo.Client, *kadm.Client) {
	t.Helper()
	cl := newClient(t, kgo.AlwaysRetryEOF(), kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(20000),
		kgo.RecordRetries(1<<30), kgo.MetadataMinAge(50*time.Millisecond), kgo.RetryTimeout(5*time.Minute),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	t.Cleanup(cl.Close)
	return cl, kadm.NewClient(cl)
}

// partitionsIn returns the partitions of topic t that a broker has in a directory, and those being copied to it.
func partitionsIn(t *testing.T, adm *kadm.Client, broker int32, dir string) (there, coming []int32, err error) {
	t.Helper()
	all, err := adm.DescribeBrokerLogDirs(t.Context(), broker, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := all[dir]
	for partition, p := range d.Topics["t"] {
		if p.IsFuture {
			coming = append(coming, partition)
		} else {
			there = append(there, partition)
		}
	}
	slices.Sort(there)
	return there, coming, d.Err
}

// TestReplicasMoveBetweenDirectories moves all of a broker's replicas to its other directory and back with
// kafka-reassign-partitions, slowly enough to kill it in the middle, while a producer continues.
func TestReplicasMoveBetweenDirectories(t *testing.T) {
	t.Parallel()
	dirs, setting := twoDirs(t)
	p := newProcess(t, 0, zookeeper(t), setting, "log.segment.bytes=200000", "replica.alter.log.dirs.io.max.bytes.per.second=2000000",
		"alter.log.dirs.replication.quota.window.num=2")
	p.start()
	cl, adm := diskClient(t, p.addr())
	if _, err := adm.CreateTopic(t.Context(), chaosPartitions, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for partition := range int32(chaosPartitions) { // something to copy
		for i := range 100 {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: partition, Value: fmt.Appendf(nil, "-%015000d", 100-i)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	acked := produceDuring(t, cl, func() {
		for i, dir := range []string{dirs[1], dirs[0], dirs[1]} {
			plan := reassignment(t, dir)
			run := func(action string) string {
				return string(tool(t, "", "reassign-partitions", "--bootstrap-server", p.addr(), "--reassignment-json-file", plan, action))
			}
			if out := run("--execute"); !strings.Contains(out, "Successfully started moving log directory to "+dir) {
				t.Errorf("--execute: %s", out)
			}
			if i != 1 {
				if out := run("--verify"); !strings.Contains(out, "is still in progress") {
					t.Errorf("--verify: %s", out)
				}
				p.kill()
				p.start()
			}
			until(t, "the replicas in "+dir, func(context.Context) bool {
				there, coming, err := partitionsIn(t, adm, 0, dir)
				return err == nil && len(there) == chaosPartitions && len(coming) == 0
			})
			if out := run("--verify"); strings.Count(out, "completed successfully") != chaosPartitions {
				t.Errorf("--verify: %s", out)
			}
		}
	})
	for partition, want := range acked {
		checkPartition(t, []string{p.addr()}, int32(partition), want, nil)
	}
	p.stop()
	if left, _ := filepath.Glob(filepath.Join(dirs[0], "t-?")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// reassignment returns a plan that moves topic t's replicas on broker 0 into a directory.
func reassignment(t *testing.T, dir string) string {
	t.Helper()
	var moves []string
	for partition := range chaosPartitions {
		moves = append(moves, fmt.Sprintf(`{"topic":"t","partition":%d,"replicas":[0],"log_dirs":[%q]}`, partition, dir))
	}
	name := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(name, []byte(`{"version":1,"partitions":[`+strings.Join(moves, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// readOnly makes a directory read-only until the returned function is called. Files that are open can still be written.
func readOnly(t *testing.T, dir string) (undo func()) {
	t.Helper()
	set := func() error { return os.Chmod(dir, 0o500) }
	undo = func() { _ = os.Chmod(dir, 0o700) } //nolint:gosec // a directory
	if os.Getuid() == 0 {
		set = func() error { return exec.Command("chattr", "+i", dir).Run() }
		undo = func() { _ = exec.Command("chattr", "-i", dir).Run() }
	}
	err := set()
	t.Cleanup(undo)
	need(t, "a file system with read-only directories", err == nil)
	return undo
}

// TestDirectoryTurnsReadOnly: a directory becomes read-only while the broker runs. Another broker takes over the
// leadership of its partitions, other partitions are not affected, and after a restart the directory is used again.
func TestDirectoryTurnsReadOnly(t *testing.T) {
	t.Parallel()
	server := zookeeper(t)
	dirs, setting := twoDirs(t)
	brokers := []*process{newProcess(t, 0, server, setting, "replica.high.watermark.checkpoint.interval.ms=200"), newProcess(t, 1, server), newProcess(t, 2, server)}
	var addrs []string
	for _, b := range brokers {
		b.start()
		addrs = append(addrs, b.addr())
	}
	cl, adm := diskClient(t, addrs...)
	if _, err := adm.CreateTopic(t.Context(), chaosPartitions, 3, map[string]*string{"min.insync.replicas": new("2")}, "t"); err != nil {
		t.Fatal(err)
	}
	lost, _, err := partitionsIn(t, adm, 0, dirs[1])
	if err != nil || len(lost) == 0 || len(lost) == chaosPartitions {
		t.Fatalf("in %s are %v, %v", dirs[1], lost, err)
	}
	acked := produceDuring(t, cl, func() {
		undo := readOnly(t, dirs[1])
		until(t, "the directory is offline", func(context.Context) bool {
			_, _, err := partitionsIn(t, adm, 0, dirs[1])
			return kerr.IsRetriable(err) // KAFKA_STORAGE_ERROR
		})
		until(t, "others lead its partitions, and only those", func(ctx context.Context) bool {
			topics, err := adm.ListTopics(ctx, "t")
			if err != nil {
				return false
			}
			for id, p := range topics["t"].Partitions {
				if slices.Contains(lost, id) == slices.Contains(p.ISR, 0) || p.Leader < 0 || slices.Contains(lost, id) && p.Leader == 0 {
					return false
				}
			}
			return true
		})
		if log := brokers[0].log(); !strings.Contains(log, "log directory failed and is offline") || !strings.Contains(log, dirs[1]) {
			t.Error("it was not logged")
		}
		brokers[0].stop()
		if _, err := os.Stat(filepath.Join(dirs[1], ".kafka_cleanshutdown")); err == nil {
			t.Error("the failed directory has a clean-shutdown file")
		}
		undo()
		brokers[0].start()
		awaitInSync(t, cl)
	})
	for partition, want := range acked {
		checkPartition(t, addrs, int32(partition), want, nil)
	}
}

// TestFullDirectoryAtStart: the other directory is used, and new replicas are created there. (Apache Kafka exits and
// leaves a clean-shutdown file.)
func TestFullDirectoryAtStart(t *testing.T) {
	t.Parallel()
	dirs, setting := twoDirs(t)
	if err := os.MkdirAll(dirs[1], 0o700); err != nil {
		t.Fatal(err)
	}
	need(t, "mount", exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "none", dirs[1]).Run() == nil)
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dirs[1]).Run() })
	fill := make([]byte, 64<<10)
	for f, size := filepath.Join(dirs[1], "t-0", "filler"), len(fill); size > 0; size /= 2 {
		_ = os.MkdirAll(filepath.Dir(f), 0o700)
		out, err := os.OpenFile(f, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = out.Write(fill[:size])
		}
		_ = out.Close()
	}
	p := newProcess(t, 0, zookeeper(t), setting)
	p.start()
	cl, adm := diskClient(t, p.addr())
	if _, err := adm.CreateTopic(t.Context(), 4, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for partition := range int32(4) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: partition, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if there, _, err := partitionsIn(t, adm, 0, dirs[0]); len(there) != 4 {
		t.Errorf("the directory with free space contains %v, %v", there, err)
	}
	p.stop()
	for dir, want := range map[string]bool{dirs[0]: true, dirs[1]: false} {
		if _, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown")); (err == nil) != want {
			t.Errorf("clean-shutdown file in %s: %v", dir, err)
		}
	}
}

// TestStopWithoutDeleteDelay deletes a topic, whose files are removed at once, and stops the broker.
func TestStopWithoutDeleteDelay(t *testing.T) {
	t.Parallel()
	p := newProcess(t, 0, zookeeper(t), "log.segment.delete.delay.ms=0", "file.delete.delay.ms=0")
	p.start()
	cl, adm := diskClient(t, p.addr())
	if _, err := adm.CreateTopic(t.Context(), 4, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	until(t, "the partitions are gone", func(context.Context) bool {
		left, _ := filepath.Glob(filepath.Join(p.logDir(), "t-*"))
		return len(left) == 0
	})
	p.stop() // fails after a minute
	if _, err := os.Stat(filepath.Join(p.logDir(), ".kafka_cleanshutdown")); err != nil {
		t.Error(err)
	}
}
