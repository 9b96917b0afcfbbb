package main

import (
	"maps"
	"slices"
	"strings"
)

// replaced are variables for Apache Kafka's launchers and the JVM, with their replacements.
var replaced = []struct {
	names   []string
	instead string
}{
	{[]string{"KAFKA_HEAP_OPTS"}, "memory is taken as needed; GOMEMLIMIT bounds it"},
	{[]string{"KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS"}, "GOGC and GOMAXPROCS tune the runtime"},
	{[]string{"KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_CMD_OPTS", "KAFKA_TOOLS_LOG4J_LOGLEVEL"},
		"lines go to standard output; kafka-configs.sh --entity-type broker-loggers changes levels"},
	{[]string{"KAFKA_OPTS"}, "settings belong in the properties file; of system properties only -D" + strings.Join(slices.Sorted(maps.Keys(systemProperties)), ", -D") + " are read"},
	{[]string{"JMX_PORT", "KAFKA_JMX_OPTS", "KAFKA_JMX_PORT"}, "metrics.listener serves the metrics"},
}

// hint returns one line with the variables of the environment (in the form of os.Environ) that have no effect here, and
// their replacements; empty if there are none.
func hint(environment []string) string {
	var parts []string
	for _, r := range replaced {
		var set []string
		for _, name := range r.names {
			if slices.ContainsFunc(environment, func(v string) bool { return strings.HasPrefix(v, name+"=") && withoutProperties(v) != name+"=" }) {
				set = append(set, name)
			}
		}
		if len(set) > 0 {
			parts = append(parts, strings.Join(set, ", ")+" ("+r.instead+")")
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "kafka: there is no Java machine here, so these have no effect: " + strings.Join(parts, "; ")
}
