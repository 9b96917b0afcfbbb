package main

import (
	"maps"
	"testing"
)

func TestSystemProperties(t *testing.T) {
	for _, test := range []struct {
		variable string
		want     map[string]string
		rest     string
	}{
		{"KAFKA_OPTS=-Djava.security.auth.login.config=/etc/kafka/jaas.conf", map[string]string{"java.security.auth.login.config": "/etc/kafka/jaas.conf"}, "KAFKA_OPTS="},
		{`KAFKA_OPTS=-Da=b -Djava.security.auth.login.config="/x" -Dzookeeper.sasl.clientconfig=Other -Dzookeeper.sasl.client.username=zk -Xmx1g`,
			map[string]string{"java.security.auth.login.config": "/x", "zookeeper.sasl.client.username": "zk", "zookeeper.sasl.clientconfig": "Other"}, "KAFKA_OPTS=-Da=b -Xmx1g"},
		{"KAFKA_OPTS=-Djava.security.krb5.realm=R -Djava.security.krb5.kdc=a:b", map[string]string{"java.security.krb5.realm": "R", "java.security.krb5.kdc": "a:b"}, "KAFKA_OPTS="},
		{"KAFKA_OPTS=-Dzookeeper.sasl.client=false", map[string]string{"zookeeper.sasl.client": "false"}, "KAFKA_OPTS="},
		{"KAFKA_OPTS=-Dzookeeper.server.principal=zk/h@R -Dzookeeper.sasl.client.canonicalize.hostname=false -Dzookeeper.server.realm=R",
			map[string]string{"zookeeper.server.principal": "zk/h@R", "zookeeper.sasl.client.canonicalize.hostname": "false", "zookeeper.server.realm": "R"}, "KAFKA_OPTS="},
		{"KAFKA_OPTS=-Dzookeeper.client.secure=true -Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty -Dzookeeper.ssl.trustStore.location=/t.jks",
			map[string]string{"zookeeper.ssl.client.enable": "true", "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
				"zookeeper.ssl.truststore.location": "/t.jks"}, "KAFKA_OPTS="},
		{"KAFKA_OPTS=-Dzookeeper.ssl.hostnameVerification=false", map[string]string{"zookeeper.ssl.endpoint.identification.algorithm": ""}, "KAFKA_OPTS="},
		{"KAFKA_OPTS=-Dzookeeper.ssl.hostnameVerification=true", map[string]string{"zookeeper.ssl.endpoint.identification.algorithm": "https"}, "KAFKA_OPTS="},
		{"KAFKA_OPTS=-Djute.maxbuffer=0x200000", map[string]string{"jute.maxbuffer": "2097152"}, "KAFKA_OPTS="},
		{"KAFKA_OPTS=-Djute.maxbuffer=many -Dzookeeper.sasl.client=false", map[string]string{"zookeeper.sasl.client": "false"}, "KAFKA_OPTS="},
		{"KAFKA_OPTS=-Djava.security.auth=x", nil, "KAFKA_OPTS=-Djava.security.auth=x"},
		{"KAFKA_OPTS=-Djava.security.auth.login.config", nil, "KAFKA_OPTS=-Djava.security.auth.login.config"},
		{"OTHER_OPTS=-Djava.security.auth.login.config=/x", nil, "OTHER_OPTS=-Djava.security.auth.login.config=/x"},
	} {
		if got := properties([]string{"HOME=/", test.variable}); !maps.Equal(got, test.want) {
			t.Errorf("%s: %q", test.variable, got)
		}
		if got := withoutProperties(test.variable); got != test.rest {
			t.Errorf("%s: %q is left over", test.variable, got)
		}
	}
}
