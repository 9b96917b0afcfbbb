package txn

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
)

// sample returns a partition of __transaction_state that Apache Kafka 3.9.2 has written.
func sample(t testing.TB, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "logstore", "testdata", "logdir", dir, "00000000000000000000.log"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func replayAll(t testing.TB, data []byte) map[string]transaction {
	t.Helper()
	byID := make(map[string]transaction)
	walk := record.Split(data)
	for walk.Next() {
		err := replay(walk.Batch(), byID, func(offset int64, err error) { t.Errorf("offset %d: %v", offset, err) })
		if err != nil {
			t.Fatal(err)
		}
	}
	if walk.Err() != nil {
		t.Fatal(walk.Err())
	}
	return byID
}

func TestLoadWhatApacheKafkaWrote(t *testing.T) {
	txn0 := logstore.TopicPartition{Topic: "txn", Partition: 0}
	none := Identity{noProducerID, noProducerEpoch}
	want := map[string]map[string]transaction{
		"__transaction_state-0": {
			"sample-tx-2": {Identity{2, 0}, none, false, 15 * time.Minute, CompleteAbort, partitions{}, 1795964473833, 1795964473844},
			"sample-tx-open": {Identity{3, 0}, none, false, 15 * time.Minute, Ongoing, partitions{txn0: {}},
				1795964473877, 1795964473877},
		},
		"__transaction_state-1": {
			"sample-tx-1": {Identity{1, 0}, none, false, 15 * time.Minute, CompleteCommit, partitions{}, 1795964543422, 1795964543479},
		},
	}
	for dir, byID := range want {
		if diff := cmp.Diff(byID, replayAll(t, sample(t, dir)), cmp.AllowUnexported(transaction{})); diff != "" {
			t.Errorf("%s: %s", dir, diff)
		}
	}
}

// TestEncodeAsApacheKafka decodes every record of the samples and encodes it again.
func TestEncodeAsApacheKafka(t *testing.T) {
	for _, dir := range []string{"__transaction_state-0", "__transaction_state-1"} {
		walk := record.Split(sample(t, dir))
		for walk.Next() {
			err := walk.Batch().Records(func(r *record.Record) error {
				known, err := decodeValue(r.Value)
				if err != nil {
					return err
				}
				if got := encodeValue(&known); !bytes.Equal(got, r.Value) {
					t.Errorf("%s, offset %d: %x, Apache Kafka wrote %x", dir, r.Offset, got, r.Value)
				}
				id := string(r.Key[4:])
				if got := encodeKey(id); !bytes.Equal(got, r.Key) {
					t.Errorf("%s, offset %d: key %x, Apache Kafka wrote %x", dir, r.Offset, got, r.Key)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestReplay(t *testing.T) {
	first, second := known(1, Ongoing, p0, p1), known(2, Empty)
	b := record.NewBuilder()
	b.Add(testNow, encodeKey("a"), encodeValue(&first))
	b.Add(testNow, encodeKey("gone"), encodeValue(&first))
	b.Add(testNow, []byte{0, 9, 1}, []byte("a key of a later version"))
	b.Add(testNow, nil, []byte("no key"))
	b.Add(testNow, encodeKey("odd"), []byte{0, 7})
	b.Add(testNow, encodeKey("a"), encodeValue(&second))
	b.Add(testNow, encodeKey("gone"), nil)
	byID := make(map[string]transaction)
	var odd []int64
	if err := replay(b.MustBuild(), byID, func(offset int64, _ error) { odd = append(odd, offset) }); err != nil {
		t.Fatal(err)
	}
	if len(byID) != 1 || byID["a"].Epoch != 2 {
		t.Errorf("loaded %v", byID)
	}
	if diff := cmp.Diff([]int64{2, 3, 4}, odd); diff != "" {
		t.Error(diff)
	}
}

// FuzzDecodeValue: whatever can be decoded is encoded to bytes that decode to the same.
func FuzzDecodeValue(f *testing.F) {
	open := known(1, Ongoing, p0, p1)
	f.Add(encodeValue(&open))
	f.Add([]byte{0, 1, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := decodeValue(data)
		if err != nil {
			return
		}
		if first.state == Empty {
			first.partitions = partitions{}
		}
		second, err := decodeValue(encodeValue(&first))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second, cmp.AllowUnexported(transaction{})); diff != "" {
			t.Error(diff)
		}
	})
}
