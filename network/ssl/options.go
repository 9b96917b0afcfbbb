package ssl

import (
	"crypto/tls"
	"strings"
)

// clientDefaults are the defaults of Apache Kafka's clients.
var clientDefaults = map[string]string{
	"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.2,TLSv1.3", "ssl.endpoint.identification.algorithm": "https",
	"ssl.keystore.type": "JKS", "ssl.truststore.type": "JKS",
}

// ForClient creates a Context from the settings of a client.
func ForClient(settings map[string]string) (*Context, error) {
	return New(Settings{Get: func(name string) (as, value string, set bool) {
		if value, set = settings[name]; !set {
			value, set = clientDefaults[name]
		}
		return name, value, set
	}})
}

// ForOptions returns TLS to a host according to the ssl.* options of a login module; nil if there are none, so that the
// system's authorities apply.
func ForOptions(options map[string]string, host string) (*tls.Config, error) {
	for name := range options {
		if strings.HasPrefix(name, "ssl.") {
			made, err := ForClient(options)
			if err != nil {
				return nil, err
			}
			return made.Client(host), nil
		}
	}
	return nil, nil
}
