package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// aboutSecurity matches the keys of logins, TLS and authorization.
var aboutSecurity = regexp.MustCompile(`^(listener\.(name|security)\.|ssl\.|sasl\.|zookeeper\.ssl|delegation\.token|authorizer\.|super\.users|` +
	`security\.|principal\.builder|connections\.max\.reauth|password\.encoder|inter\.broker\.listener|max\.connections|replica\.selector)`)

// TestSecuritySettingsAreDescribedAsByApacheKafka compares values, sources, synonyms, what is read-only and what is
// sensitive, after the start and after settings were changed at run time; and which changes are refused.
func TestSecuritySettingsAreDescribedAsByApacheKafka(t *testing.T) {
	settings := append(administered(), "password.encoder.secret=s", "connections.max.reauth.ms=3600000", "max.connections.per.ip.overrides=10.0.0.1:5")
	theirs := startGuardedPeer(t, 0, zookeeper(t), settings...)
	ours := startGuarded(t, zookeeper(t), settings...)
	var lines [2][]string
	for i, g := range []guarded{theirs, ours} {
		r := &transcript{t: t, addr: g.addr, called: make(map[string]bool)}
		cl := g.asUser(t, "root")
		securitySettings(r, cl, "started")
		alterSecurity(r, cl)
		if code := alteredBroker(t, cl, "0", "log.cleaner.backoff.ms", "1000"); code != 0 {
			t.Fatalf("the last change: error %d", code)
		}
		untilBrokersHave(t, kadm.NewClient(cl), "log.cleaner.backoff.ms", "1000", 0)
		securitySettings(r, cl, "changed")
		lines[i] = r.lines
	}
	if d := cmp.Diff(lines[0], lines[1]); d != "" {
		t.Errorf("-Apache Kafka +ours\n%s", d)
	}
}

// securitySettings records the described settings of broker 0 and of all brokers.
func securitySettings(r *transcript, cl *kgo.Client, when string) {
	for _, broker := range []string{"0", ""} {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.IncludeSynonyms = true
		req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: broker}}
		resp, err := req.RequestWith(r.t.Context(), cl)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, line := range sortedLines(resp.Resources[0].Configs, configLine) {
			if aboutSecurity.MatchString(line) {
				r.add(fmt.Sprintf("DescribeConfigs %s %s", when, broker), line, nil)
			}
		}
	}
}

func configLine(c kmsg.DescribeConfigsResponseResourceConfig) string {
	synonyms := make([]string, len(c.ConfigSynonyms))
	for i, s := range c.ConfigSynonyms { // their order is their precedence
		synonyms[i] = fmt.Sprint(s.Name, "=", orNull(s.Value), " ", s.Source)
	}
	return fmt.Sprint(c.Name, "=", orNull(c.Value), " ", c.Source, " read-only ", c.ReadOnly, " sensitive ", c.IsSensitive, " ", c.ConfigType,
		" [", strings.Join(synonyms, ", "), "]")
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// alterSecurity changes settings one by one, of broker 0 and of all brokers. The login's setting comes last: after it
// Apache Kafka refuses all changes of listeners until it is restarted.
func alterSecurity(r *transcript, cl *kgo.Client) {
	const jaas = plainModule + ` required user_root="pw" user_alice="other";`
	for _, key := range []struct{ name, value string }{
		{"listener.name.plaintext.ssl.keystore.type", "PKCS12"},
		{"listener.name.secure.ssl.truststore.type", "PEM"},
		{"listener.name.nosuch.ssl.client.auth", "required"},
		{"ssl.keystore.type", "PKCS12"},
		{"ssl.keystore.location", "/nowhere"},
		{"ssl.key.password", "secret"},
		{"ssl.client.auth", "required"},
		{"ssl.principal.mapping.rules", "DEFAULT"},
		{"sasl.enabled.mechanisms", "PLAIN"},
		{"sasl.login.refresh.buffer.seconds", "200"},
		{"sasl.kerberos.service.name", "kafka"},
		{"sasl.jaas.config", jaas},
		{"super.users", "User:alice"},
		{"delegation.token.secret.key", "other"},
		{"password.encoder.secret", "other"},
		{"connections.max.reauth.ms", "1000"},
		{"max.connections.per.ip", "77"},
		{"listener.name.secure.max.connections", "88"},
		{"listener.name.secure.connections.max.reauth.ms", "1000"},
		{"listener.name.secure.plain.sasl.jaas.config", jaas},
	} {
		for _, broker := range []string{"0", ""} {
			r.add(fmt.Sprintf("IncrementalAlterConfigs %s of %q", key.name, broker), alteredBroker(r.t, cl, broker, key.name, key.value), nil)
		}
	}
}

// alteredBroker sets one key and returns the error code.
func alteredBroker(t *testing.T, cl *kgo.Client, broker, name, value string) int16 {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: broker,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}}}}
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Resources[0].ErrorCode
}
