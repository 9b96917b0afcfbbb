// Package config converts server.properties to typed values.
//
// It owns the names, types, defaults, ranges and update modes of all broker and topic settings, the rules between
// settings, the merging of dynamic values from ZooKeeper with those of the file, and what DescribeConfigs, AlterConfigs
// and IncrementalAlterConfigs say about a setting. It reads one file and those that variables in it name, and does no
// other I/O; it knows nothing about znodes and requests.
//
// Everything that it returns is immutable and safe for concurrent use, unless stated otherwise.
package config
