package ssl

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func zooKeeper(settings map[string]string) (*Context, error) {
	return ForZooKeeper(func(name string) (string, bool) {
		value, set := settings[name]
		return value, set
	})
}

// TestForZooKeeper reads the settings as ZooKeeper's client does.
func TestForZooKeeper(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"nothing":            {},
		"types by ending":    {"zookeeper.ssl.keystore.location": stores + "server.p12", "zookeeper.ssl.keystore.password": "secret", "zookeeper.ssl.truststore.location": stores + "ca.pem"},
		"types that are set": {"zookeeper.ssl.keystore.location": stores + "server.p12", "zookeeper.ssl.keystore.password": "secret", "zookeeper.ssl.keystore.type": "JKS"},
		"JKS":                {"zookeeper.ssl.keystore.location": stores + "server.jks", "zookeeper.ssl.keystore.password": "secret", "zookeeper.ssl.truststore.location": stores + "trust.jks"},
	} {
		c, err := zooKeeper(settings)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.client.MaxVersion != tls.VersionTLS12 || !c.verifiesHost {
			t.Errorf("%s: up to version %x, names are verified: %v", name, c.client.MaxVersion, c.verifiesHost)
		}
	}
	c, err := zooKeeper(map[string]string{"zookeeper.ssl.protocol": "TLSv1.3", "zookeeper.ssl.endpoint.identification.algorithm": ""})
	if err != nil || c.client.MaxVersion != tls.VersionTLS13 || c.verifiesHost {
		t.Errorf("%v: up to version %x, names are verified: %v", err, c.client.MaxVersion, c.verifiesHost)
	}
	encrypted := filepath.Join(t.TempDir(), "server.pem")
	if err := os.WriteFile(encrypted, []byte(text(t, "key-pbes2.pem")+text(t, "chain.pem")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		settings map[string]string
		want     string
	}{
		{map[string]string{"zookeeper.ssl.crl.enable": "true"}, "zookeeper.ssl.crl.enable=true: checking for revoked certificates"},
		{map[string]string{"zookeeper.ssl.ocsp.enable": "TRUE"}, "zookeeper.ssl.ocsp.enable=TRUE: checking for revoked certificates"},
		{map[string]string{"zookeeper.ssl.keystore.location": "/nowhere.jks"}, "zookeeper.ssl.keystore.location=/nowhere.jks: "},
		{map[string]string{"zookeeper.ssl.keystore.location": stores + "server.jks"}, "zookeeper.ssl.keystore.password: "},
		{map[string]string{"zookeeper.ssl.keystore.location": encrypted}, "zookeeper.ssl.keystore.password: "},
		{map[string]string{"zookeeper.ssl.keystore.location": encrypted, "zookeeper.ssl.keystore.password": "wrong!"}, "zookeeper.ssl.keystore.password: "},
		{map[string]string{"zookeeper.ssl.truststore.location": stores + "trust.jks", "zookeeper.ssl.truststore.password": "wrong!"}, "zookeeper.ssl.truststore.password: "},
		{map[string]string{"zookeeper.ssl.enabled.protocols": "x"}, "zookeeper.ssl.enabled.protocols=x: "},
	} {
		if _, err := zooKeeper(row.settings); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v, want %q", err, row.want)
		}
	}
}
