package config

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNotHonoured holds the list of what does not work yet against the one that was agreed on:
// it can only shrink knowingly.
func TestNotHonoured(t *testing.T) {
	var want []string
	for _, row := range golden(t, "not_honoured.txt") {
		want = append(want, row[0])
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(notHonoured))); diff != "" {
		t.Error(diff)
	}
	for name := range notHonoured {
		if brokerSchema.byName[name] == nil {
			t.Errorf("%s is not a key", name)
		}
	}
}

func TestNotHonouredOfABroker(t *testing.T) {
	b := mustParse(t, "num.io.threads=9", "listener.name.plaintext.ssl.keystore.location=/x", "num.partitions=2", "foo=1")
	if diff := cmp.Diff([]string{"listener.name.plaintext.ssl.keystore.location", "num.io.threads"}, b.NotHonoured()); diff != "" {
		t.Error(diff)
	}
}
