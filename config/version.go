package config

import "strings"

// ProtocolVersion is a value of inter.broker.protocol.version: it determines which requests and formats the brokers of
// a cluster use among themselves. Later versions compare greater.
type ProtocolVersion int

// The versions, in order. IBP27IV2 is written 2.7-IV2 in a file.
const (
	IBP080 ProtocolVersion = iota
	IBP081
	IBP082
	IBP090
	IBP0100IV0
	IBP0100IV1
	IBP0101IV0
	IBP0101IV1
	IBP0101IV2
	IBP0102IV0
	IBP0110IV0
	IBP0110IV1
	IBP0110IV2
	IBP10IV0
	IBP11IV0
	IBP20IV0
	IBP20IV1
	IBP21IV0
	IBP21IV1
	IBP21IV2
	IBP22IV0
	IBP22IV1
	IBP23IV0
	IBP23IV1
	IBP24IV0
	IBP24IV1
	IBP25IV0
	IBP26IV0
	IBP27IV0
	IBP27IV1
	IBP27IV2
	IBP28IV0
	IBP28IV1
	IBP30IV0
	IBP30IV1
	IBP31IV0
	IBP32IV0
	IBP33IV0
	IBP33IV1
	IBP33IV2
	IBP33IV3
	IBP34IV0
	IBP35IV0
	IBP35IV1
	IBP35IV2
	IBP36IV0
	IBP36IV1
	IBP36IV2
	IBP37IV0
	IBP37IV1
	IBP37IV2
	IBP37IV3
	IBP37IV4
	IBP38IV0
	IBP39IV0
	IBP40IV0
	IBP40IV1
)

var versionNames = strings.Fields(`
	0.8.0 0.8.1 0.8.2 0.9.0
	0.10.0-IV0 0.10.0-IV1 0.10.1-IV0 0.10.1-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV0 0.11.0-IV1 0.11.0-IV2
	1.0-IV0 1.1-IV0 2.0-IV0 2.0-IV1 2.1-IV0 2.1-IV1 2.1-IV2 2.2-IV0 2.2-IV1 2.3-IV0 2.3-IV1
	2.4-IV0 2.4-IV1 2.5-IV0 2.6-IV0 2.7-IV0 2.7-IV1 2.7-IV2 2.8-IV0 2.8-IV1
	3.0-IV0 3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2
	3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1`)

// String returns the full name, such as 2.7-IV2.
func (v ProtocolVersion) String() string { return versionNames[v] }

// parseProtocolVersion parses a full name (2.7-IV2), a release line (2.7, which stands for its newest version) or a
// release (2.7.1). It returns false for an unknown one.
func parseProtocolVersion(text string) (ProtocolVersion, bool) {
	parts := strings.Split(text, ".")
	significant := 2
	if parts[0] == "0" {
		significant = 3
	}
	name := strings.Join(parts[:min(significant, len(parts))], ".")
	for v := len(versionNames) - 1; v >= 0; v-- {
		line, _, _ := strings.Cut(versionNames[v], "-")
		if name == versionNames[v] || name == line {
			return ProtocolVersion(v), true
		}
	}
	return 0, false
}

// RecordVersion returns the magic of the newest record batches that brokers with version v know.
func (v ProtocolVersion) RecordVersion() int8 {
	switch {
	case v < IBP0100IV0:
		return 0
	case v < IBP0110IV0:
		return 1
	}
	return 2
}
