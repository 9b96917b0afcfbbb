package javahash

import (
	"strings"
	"testing"
)

func TestPartitionFor(t *testing.T) {
	// Hash codes of Java's String.hashCode; the partitions are those that Apache Kafka uses if there are 50.
	for key, want := range map[string]int32{"grp": 29, "": 0, "polygenelubricants": 0} {
		if got := PartitionFor(key, 50); got != want {
			t.Errorf("partition of %q is %d, want %d", key, got, want)
		}
	}
}

func TestMapOrder(t *testing.T) {
	// Recorded from immutable.HashMap of Scala 2.13.15. The hash codes of Aa and BB are equal.
	for given, want := range map[string]string{
		"":                           "",
		"range":                      "range",
		"sticky range":               "range sticky",
		"range roundrobin":           "roundrobin range",
		"range cooperative-sticky":   "cooperative-sticky range",
		"other range sticky":         "other range sticky",
		"compatible eager sessioned": "eager compatible sessioned",
		"w sticky eager":             "eager sticky w",
		"sessioned protocol-1 faust": "protocol-1 faust sessioned",
		"connect protocol-1 stream":  "connect protocol-1 stream",
		"Aa b1":                      "Aa b1",
		"BB Aa":                      "BB Aa",
		"z uniform range x cooperative-sticky eager y":                                                                         "y uniform range z cooperative-sticky x eager",
		"other sticky connect protocol-2 protocol-1 range eager cooperative-sticky":                                            "connect other cooperative-sticky eager protocol-2 protocol-1 range sticky",
		"range stream protocol-2 b1 connect BB other w x compatible y Aa cooperative-sticky sessioned":                         "connect y b1 w other sessioned cooperative-sticky x BB Aa protocol-2 compatible range stream",
		"stream uniform compatible protocol-2 Aa y x sessioned connect protocol-1 roundrobin b1 BB cooperative-sticky other z": "connect y roundrobin b1 uniform stream other cooperative-sticky x Aa BB protocol-2 compatible protocol-1 z sessioned",
	} {
		keys := strings.Fields(given)
		MapOrder(keys)
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%s are iterated over as %s, want %s", given, got, want)
		}
	}
}
