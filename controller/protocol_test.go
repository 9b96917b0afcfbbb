package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProtocolFor(t *testing.T) {
	tests := []struct {
		version string
		want    Protocol
	}{
		{"", Protocol{7, 8, 4, true, true, true, 2, true}},
		{"3.9-IV0", Protocol{7, 8, 4, true, true, true, 2, true}},
		{"2.6", Protocol{4, 6, 3, false, false, false, 1, false}},
		{"2.7-IV1", Protocol{4, 6, 3, false, false, true, 1, false}},
		{"2.4-IV0", Protocol{3, 5, 1, false, false, false, 1, false}},
		{"2.8-IV0", Protocol{4, 6, 3, true, true, true, 1, false}},
		{"2.8", Protocol{5, 7, 3, true, true, true, 1, false}},
		{"0.10.0-IV0", Protocol{0, 1, 0, false, false, false, 1, false}},
		{"0.10.2", Protocol{0, 3, 0, false, false, false, 1, false}},
	}
	for _, test := range tests {
		got, err := ProtocolFor(test.version)
		if err != nil {
			t.Errorf("%s: %v", test.version, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.version, diff)
		}
	}
}
