package ssl

import (
	"errors"
	"path/filepath"
	"strings"
)

const zooKeeperPrefix = "zookeeper."

// ForZooKeeper creates a Context from the zookeeper.ssl.* settings (KIP-515) as ZooKeeper's client interprets them:
// unless set, a store's type follows from its file's extension, and the password of a PEM store is that of its key. get
// returns a setting by its full name.
func ForZooKeeper(get func(name string) (value string, set bool)) (*Context, error) {
	for _, key := range []string{"zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"} {
		if value, _ := get(key); strings.EqualFold(value, "true") {
			return nil, &Error{key, value, errors.New("checking for revoked certificates is not supported")}
		}
	}
	z := zooKeeperSettings(get)
	return New(Settings{Get: func(name string) (as, value string, set bool) {
		value, set = z.value(name)
		if name == keyPassword { // ZooKeeper has no such setting
			name = keystorePassword
		}
		return zooKeeperPrefix + name, value, set
	}})
}

type zooKeeperSettings func(name string) (value string, set bool)

// get returns a setting that has a value.
func (z zooKeeperSettings) get(name string) (string, bool) {
	value, set := z(zooKeeperPrefix + name)
	return value, set && value != ""
}

// value translates from the settings of ZooKeeper's client to those of a listener.
func (z zooKeeperSettings) value(name string) (string, bool) {
	switch name {
	case clientAuthKey:
		return "none", true
	case principalRulesKey:
		return "DEFAULT", true
	case "ssl.endpoint.identification.algorithm":
		if value, set := z(zooKeeperPrefix + name); set {
			return value, true
		}
		return "https", true
	case "ssl.protocol":
		if value, set := z.get(name); set {
			return value, true
		}
		return "TLSv1.2", true
	case keystoreType:
		return z.storeType(keystoreType, keystoreLocation), true
	case truststoreType:
		return z.storeType(truststoreType, truststoreLocation), true
	case keyPassword:
		if !z.isPEM() {
			return "", false
		}
		return z.get(keystorePassword)
	case keystorePassword:
		if _, located := z.get(keystoreLocation); z.isPEM() || !located {
			return "", false
		}
		value, _ := z.get(name)
		return value, true // empty if not set
	}
	return z.get(name)
}

func (z zooKeeperSettings) isPEM() bool {
	return strings.EqualFold(z.storeType(keystoreType, keystoreLocation), "PEM")
}

func (z zooKeeperSettings) storeType(key, location string) string {
	if value, set := z.get(key); set {
		return value
	}
	file, _ := z.get(location)
	switch ending := strings.ToLower(filepath.Ext(file)); ending {
	case ".pem":
		return "PEM"
	case ".p12":
		return "PKCS12"
	}
	return "JKS"
}
