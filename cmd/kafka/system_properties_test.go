package main

import (
	"slices"
	"testing"
)

func TestSystemProperties(t *testing.T) {
	for _, test := range []struct {
		variable string
		want     []string
		rest     string
	}{
		{"KAFKA_OPTS=-Djava.security.auth.login.config=/etc/kafka/jaas.conf", []string{"java.security.auth.login.config=/etc/kafka/jaas.conf"}, "KAFKA_OPTS="},
		{`KAFKA_OPTS=-Da=b -Djava.security.auth.login.config="/x" -Dzookeeper.sasl.clientconfig=Other -Dzookeeper.sasl.client.username=zk -Xmx1g`,
			[]string{"java.security.auth.login.config=/x", "zookeeper.sasl.client.username=zk", "zookeeper.sasl.clientconfig=Other"}, "KAFKA_OPTS=-Da=b -Xmx1g"},
		{"KAFKA_OPTS=-Dzookeeper.sasl.client=false", []string{"zookeeper.sasl.client=false"}, "KAFKA_OPTS="},
		{"KAFKA_OPTS=-Djava.security.auth=x", nil, "KAFKA_OPTS=-Djava.security.auth=x"},
		{"KAFKA_OPTS=-Djava.security.auth.login.config", nil, "KAFKA_OPTS=-Djava.security.auth.login.config"},
		{"OTHER_OPTS=-Djava.security.auth.login.config=/x", nil, "OTHER_OPTS=-Djava.security.auth.login.config=/x"},
	} {
		if got := propertySettings([]string{"HOME=/", test.variable}); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q", test.variable, got)
		}
		if got := withoutProperties(test.variable); got != test.rest {
			t.Errorf("%s: %q is left", test.variable, got)
		}
	}
}
