package main

import (
	"strings"
	"testing"
)

func TestHint(t *testing.T) {
	for _, test := range []struct {
		name        string
		environment []string
		want        []string // parts of one log line; none: no line
	}{
		{"nothing", []string{"HOME=/", "KAFKA_BROKER_ID=1", "KAFKA_HEAP_OPTS="}, nil},
		{"what is read", []string{"KAFKA_OPTS=-Djava.security.auth.login.config=/x"}, nil},
		{"heap", []string{"KAFKA_HEAP_OPTS=-Xmx1g"}, []string{"KAFKA_HEAP_OPTS (", "GOMEMLIMIT"}},
		{"log4j", []string{"KAFKA_LOG4J_OPTS=-Dx", "KAFKA_LOG4J_LOGGERS=a"}, []string{"KAFKA_LOG4J_OPTS, KAFKA_LOG4J_LOGGERS (", "broker-loggers"}},
		{"several", []string{"KAFKA_JVM_PERFORMANCE_OPTS=-server", "KAFKA_OPTS=-Dx", "JMX_PORT=9999"},
			[]string{"GOGC", "java.security.auth.login.config", "metrics.listener"}},
	} {
		got := hint(test.environment)
		if (got == "") != (test.want == nil) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q", test.name, got)
		}
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %q", test.name, want, got)
			}
		}
	}
}
