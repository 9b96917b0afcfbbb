package broker

import (
	"slices"
	"testing"

	"barnabas/broker/group"
)

func TestMissingNames(t *testing.T) {
	for _, test := range []struct{ topics, names, want []string }{
		{[]string{"a", "b"}, []string{group.Topic, "b"}, []string{"a"}},
		{[]string{"a", "b"}, []string{"b"}, nil},
		{[]string{"a"}, nil, nil},
	} {
		if got := missingNames(slices.Clone(test.topics), test.names); !slices.Equal(got, test.want) {
			t.Errorf("of %v, among %v: %v are missing, want %v", test.topics, test.names, got, test.want)
		}
	}
}
