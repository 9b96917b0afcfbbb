package tools

import (
	"testing"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestInternalRecordFormatters(t *testing.T) {
	key := kmsg.NewOffsetCommitKey()
	key.Version, key.Group, key.Topic, key.Partition = 1, "g", "t", 2
	value := kmsg.NewOffsetCommitValue()
	value.Version, value.Offset, value.LeaderEpoch, value.Metadata, value.CommitTimestamp = 3, 7, 1, "<m>", 99
	group := kmsg.NewGroupMetadataKey()
	group.Version, group.Group = 2, "g"
	txn := kmsg.NewTxnMetadataKey()
	txn.TransactionalID = "x"
	for _, test := range []struct {
		class      string
		key, value []byte
		want       string
	}{
		{"OffsetsMessageFormatter", key.AppendTo(nil), value.AppendTo(nil),
			`{"key":{"version":1,"data":{"group":"g","topic":"t","partition":2}},"value":{"version":3,"data":{"offset":7,"leaderEpoch":1,"metadata":"<m>","commitTimestamp":99}}}` + "\n"},
		{"OffsetsMessageFormatter", key.AppendTo(nil), nil, `{"key":{"version":1,"data":{"group":"g","topic":"t","partition":2}},"value":null}` + "\n"},
		{"OffsetsMessageFormatter", group.AppendTo(nil), nil, ""},
		{"GroupMetadataMessageFormatter", group.AppendTo(nil), nil, `{"key":{"version":2,"data":{"group":"g"}},"value":null}` + "\n"},
		{"GroupMetadataMessageFormatter", key.AppendTo(nil), nil, ""},
		{"TransactionLogMessageFormatter", txn.AppendTo(nil), nil, `{"key":{"version":0,"data":{"transactionalId":"x"}},"value":null}` + "\n"},
	} {
		f, err := newFormatter(formatterPackage+test.class, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.format(nil, &kgo.Record{Key: test.key, Value: test.value})
		if err != nil || string(got) != test.want {
			t.Errorf("%s prints %q, %v; want %q", test.class, got, err, test.want)
		}
	}
}

// FuzzInternalRecords: any record of the internal topics can be printed without a panic.
func FuzzInternalRecords(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 0}, []byte{0, 3, 0, 0})
	f.Add([]byte{0, 2, 0, 1, 'g'}, []byte{0, 3, 0, 8, 'c', 'o', 'n', 's', 'u', 'm', 'e', 'r'})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r := &record.Record{Key: key, Value: value}
		parseOffsetsRecord(r)
		parseTransactionRecord(r)
		controlText(r)
		for _, decode := range []func(*kgo.Record) (object, error){offsetsJSON, groupMetadataJSON, transactionJSON} {
			if o, err := decode(&kgo.Record{Key: key, Value: value}); err == nil {
				if _, err := marshal(o); err != nil {
					t.Errorf("decoded, but not JSON: %v", err)
				}
			}
		}
	})
}
