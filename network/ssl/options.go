package ssl

import (
	"crypto/tls"
	"strings"
)

// clientDefaults are those of Apache Kafka's clients.
var clientDefaults = map[string]string{
	"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.2,TLSv1.3", "ssl.endpoint.identification.algorithm": "https",
	"ssl.keystore.type": "JKS", "ssl.truststore.type": "JKS",
}

// ForClient makes TLS of the settings of a client.
func ForClient(settings map[string]string) (*Context, error) {
	return New(Settings{Get: func(name string) (as, value string, set bool) {
		if value, set = settings[name]; !set {
			value, set = clientDefaults[name]
		}
		return name, value, set
	}})
}

// ForOptions is TLS to a host by the options ssl.* of a login module; nil when there are none, and the system's authorities count.
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
