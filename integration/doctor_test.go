package integration

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"barnabas/internal/testport"
)

// TestDoctorOnPortsOfApacheKafka: what kafka-doctor reports about listeners of both kinds of brokers that expect
// another protocol.
func TestDoctorOnPortsOfApacheKafka(t *testing.T) {
	login := []string{"sasl.mechanism=PLAIN", "sasl.jaas.config=" + plainModule + ` required username="alice" password="pw";`}
	clients := map[string][]string{
		"PLAINTEXT": nil, "SSL": tlsSettings(t, "PKCS12"), "SASL_PLAINTEXT": login, "SASL_SSL": append(tlsSettings(t, "PKCS12"), login...),
	}
	for name, start := range map[string]func(t *testing.T) map[string]string{"Apache Kafka": peerOfThreeListeners, "ours": oursOfThreeListeners} {
		t.Run(name, func(t *testing.T) {
			addrs := start(t)
			for listener, heard := range map[string]map[string]string{
				"PLAINTEXT": {"PLAINTEXT": "can be reached", "SSL": "speaks plaintext", "SASL_PLAINTEXT": "accepts no logins", "SASL_SSL": "speaks plaintext"},
				"SECURE":    {"PLAINTEXT": "speaks TLS", "SSL": "the certificate is valid until", "SASL_PLAINTEXT": "speaks TLS", "SASL_SSL": "accepts no logins"},
				"LOGIN":     {"PLAINTEXT": "requires a login with PLAIN,", "SSL": "speaks plaintext", "SASL_PLAINTEXT": "can be reached", "SASL_SSL": "speaks plaintext"},
			} {
				for client, words := range heard {
					file := propertiesFile(t, append([]string{"security.protocol=" + client}, clients[client]...)...)
					out, _ := exec.Command(brokerBinary(t), "doctor", "listeners", "--bootstrap-server", addrs[listener], "--command-config", file).CombinedOutput()
					if !strings.Contains(string(out), words) {
						t.Errorf("a client of %s at %s: no %q in %s", client, listener, words, out)
					}
				}
			}
		})
	}
}

// threeListeners returns the settings of a broker with a plaintext listener, one with TLS and client certificates, and
// one with logins.
func threeListeners(t *testing.T, port int) (addrs map[string]string, settings []string) {
	addrs = map[string]string{"PLAINTEXT": fmt.Sprintf("127.0.0.1:%d", port)}
	for _, name := range []string{"SECURE", "LOGIN"} {
		addrs[name] = testport.Address(t)
	}
	return addrs, append(tlsSettings(t, "PKCS12"), "ssl.client.auth=required",
		fmt.Sprintf("listeners=PLAINTEXT://%s,SECURE://%s,LOGIN://%s", addrs["PLAINTEXT"], addrs["SECURE"], addrs["LOGIN"]),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SSL,LOGIN:SASL_PLAINTEXT", "inter.broker.listener.name=PLAINTEXT",
		"sasl.enabled.mechanisms=PLAIN", "listener.name.login.plain.sasl.jaas.config="+plainModule+` required user_alice="pw";`)
}

func peerOfThreeListeners(t *testing.T) (addrs map[string]string) {
	p := newPeer(t, 0, zookeeper(t))
	addrs, p.settings = threeListeners(t, p.port)
	p.start()
	return addrs
}

func oursOfThreeListeners(t *testing.T) map[string]string {
	p := newProcess(t, 0, zookeeper(t))
	addrs, settings := threeListeners(t, p.port)
	p.add(settings...)
	p.start()
	return addrs
}
