package ssl

// clientDefaults are those of Apache Kafka's clients.
var clientDefaults = map[string]string{
	"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.2,TLSv1.3", "ssl.endpoint.identification.algorithm": "https",
	"ssl.keystore.type": "JKS", "ssl.truststore.type": "JKS",
}

// ForClient makes TLS of the settings of a client, which begin with a prefix in place of ssl, if it is another one.
func ForClient(settings map[string]string, prefix string) (*Context, error) {
	return New(Settings{Get: func(name string) (as, value string, set bool) {
		as = prefix + name[len("ssl"):]
		if value, set = settings[as]; !set {
			value, set = clientDefaults[name]
		}
		return as, value, set
	}})
}
