package controller

import (
	"fmt"
	"strconv"
	"strings"
)

// Protocol is what inter.broker.protocol.version means for the controller.
type Protocol struct {
	LeaderAndISR   int16 // version of the request
	UpdateMetadata int16
	StopReplica    int16
	TopicIDs       bool // topics without an id are given one (2.8)
	AlterPartition bool // leaders change the ISR through the controller (2.7)
	Features       bool // feature versioning is on (2.7)
	FeatureFormat  int  // of the features node: 2 from 3.3 on
	LeaderRecovery bool // an uncleanly elected leader is marked (3.2)
}

// release is a version as four numbers: 0.10.2-IV0 is {0 10 2 0}, 3.9-IV0 is {3 9 0 0}. A version without an increment
// stands for its last one.
type release [4]int

const lastIncrement = 99

func (r release) atLeast(other release) bool {
	for i := range r {
		if r[i] != other[i] {
			return r[i] > other[i]
		}
	}
	return true
}

func parseRelease(text string) (release, error) {
	number, increment, hasIncrement := strings.Cut(text, "-IV")
	r := release{3: lastIncrement}
	var err error
	if hasIncrement {
		if r[3], err = strconv.Atoi(increment); err != nil {
			return release{}, fmt.Errorf("inter.broker.protocol.version %q: %w", text, err)
		}
	}
	parts := strings.Split(number, ".")
	if len(parts) < 2 {
		return release{}, fmt.Errorf("inter.broker.protocol.version %q", text)
	}
	for i, part := range parts[:min(3, len(parts))] {
		if i == 2 && parts[0] != "0" {
			break // 3.9.2 uses the protocol of 3.9
		}
		if r[i], err = strconv.Atoi(part); err != nil {
			return release{}, fmt.Errorf("inter.broker.protocol.version %q: %w", text, err)
		}
	}
	return r, nil
}

// ProtocolFor returns the Protocol for an inter.broker.protocol.version; empty stands for the latest.
func ProtocolFor(version string) (Protocol, error) {
	if version == "" {
		version = "3.9"
	}
	r, err := parseRelease(version)
	if err != nil {
		return Protocol{}, err
	}
	p := Protocol{
		LeaderAndISR: highest(r, []release{{1, 0, 0, 0}, {2, 2, 0, 0}, {2, 4, 0, 0}, {2, 4, 0, 1}, {2, 8, 0, 1}, {3, 2, 0, 0}, {3, 4, 0, 0}}),
		UpdateMetadata: highest(r, []release{{0, 9, 0, 0}, {0, 10, 0, 1}, {0, 10, 2, 0}, {1, 0, 0, 0}, {2, 2, 0, 0}, {2, 4, 0, 1},
			{2, 8, 0, 1}, {3, 4, 0, 0}}),
		StopReplica:    highest(r, []release{{2, 2, 0, 0}, {2, 4, 0, 1}, {2, 6, 0, 0}, {3, 4, 0, 0}}),
		TopicIDs:       r.atLeast(release{2, 8, 0, 0}),
		AlterPartition: r.atLeast(release{2, 7, 0, 2}),
		Features:       r.atLeast(release{2, 7, 0, 0}),
		FeatureFormat:  1,
		LeaderRecovery: r.atLeast(release{3, 2, 0, 0}),
	}
	if r.atLeast(release{3, 3, 0, 0}) {
		p.FeatureFormat = 2
	}
	return p, nil
}

// highest returns the number of releases up to r, each of which added a version of a request.
func highest(r release, since []release) int16 {
	version := int16(0)
	for _, s := range since {
		if r.atLeast(s) {
			version++
		}
	}
	return version
}
