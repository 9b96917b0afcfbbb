// Package config turns server.properties into typed values.
//
// It owns the names, types, defaults, ranges and update modes of every broker and topic
// setting, the rules that hold between settings, how dynamic values from ZooKeeper are laid
// over the file, and what DescribeConfigs, AlterConfigs and IncrementalAlterConfigs say about
// a setting. It reads one file and otherwise does no I/O: it knows neither znodes nor requests.
//
// Everything that it returns is immutable and safe for concurrent use, except where a comment
// says otherwise.
package config
