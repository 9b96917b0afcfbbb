package main

import "testing"

func TestJaasFile(t *testing.T) {
	for _, test := range []struct{ variable, want, rest string }{
		{"KAFKA_OPTS=-Djava.security.auth.login.config=/etc/kafka/jaas.conf", "java.security.auth.login.config=/etc/kafka/jaas.conf", "KAFKA_OPTS="},
		{`KAFKA_OPTS=-Da=b -Djava.security.auth.login.config="/x" -Xmx1g`, "java.security.auth.login.config=/x", "KAFKA_OPTS=-Da=b -Xmx1g"},
		{"KAFKA_OPTS=-Djava.security.auth=x", "", "KAFKA_OPTS=-Djava.security.auth=x"},
		{"OTHER_OPTS=-Djava.security.auth.login.config=/x", "", "OTHER_OPTS=-Djava.security.auth.login.config=/x"},
	} {
		if got, ok := jaasFile([]string{"HOME=/", test.variable}); got != test.want || ok != (test.want != "") {
			t.Errorf("%s: %q, %v", test.variable, got, ok)
		}
		if got := withoutJaasFile(test.variable); got != test.rest {
			t.Errorf("%s: %q is left", test.variable, got)
		}
	}
}
