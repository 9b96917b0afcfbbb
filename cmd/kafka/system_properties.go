package main

import (
	"strconv"
	"strings"
)

// systemProperties are the Java system properties that are honoured, since users of SASL and of TLS to ZooKeeper have
// them in KAFKA_OPTS, with the corresponding settings. A setting in the file takes precedence (KafkaConfig, ZkConfigs,
// 3.9).
var systemProperties = map[string]string{
	"java.security.auth.login.config":             "java.security.auth.login.config",
	"java.security.krb5.conf":                     "java.security.krb5.conf",
	"java.security.krb5.realm":                    "java.security.krb5.realm",
	"java.security.krb5.kdc":                      "java.security.krb5.kdc",
	juteMaxBuffer:                                 "jute.maxbuffer",
	"zookeeper.sasl.client":                       "zookeeper.sasl.client",
	"zookeeper.sasl.clientconfig":                 "zookeeper.sasl.clientconfig",
	"zookeeper.sasl.client.username":              "zookeeper.sasl.client.username",
	"zookeeper.sasl.client.canonicalize.hostname": "zookeeper.sasl.client.canonicalize.hostname",
	"zookeeper.server.principal":                  "zookeeper.server.principal",
	"zookeeper.server.realm":                      "zookeeper.server.realm",
	"zookeeper.client.secure":                     "zookeeper.ssl.client.enable",
	"zookeeper.clientCnxnSocket":                  "zookeeper.clientCnxnSocket",
	"zookeeper.ssl.keyStore.location":             "zookeeper.ssl.keystore.location",
	"zookeeper.ssl.keyStore.password":             "zookeeper.ssl.keystore.password",
	"zookeeper.ssl.keyStore.type":                 "zookeeper.ssl.keystore.type",
	"zookeeper.ssl.trustStore.location":           "zookeeper.ssl.truststore.location",
	"zookeeper.ssl.trustStore.password":           "zookeeper.ssl.truststore.password",
	"zookeeper.ssl.trustStore.type":               "zookeeper.ssl.truststore.type",
	"zookeeper.ssl.protocol":                      "zookeeper.ssl.protocol",
	"zookeeper.ssl.enabledProtocols":              "zookeeper.ssl.enabled.protocols",
	"zookeeper.ssl.ciphersuites":                  "zookeeper.ssl.cipher.suites",
	hostnameVerification:                          "zookeeper.ssl.endpoint.identification.algorithm",
	"zookeeper.ssl.crl":                           "zookeeper.ssl.crl.enable",
	"zookeeper.ssl.ocsp":                          "zookeeper.ssl.ocsp.enable",
}

// juteMaxBuffer is a number that may be hexadecimal; anything else counts as missing.
const juteMaxBuffer = "jute.maxbuffer"

// hostnameVerification is true for https, and false for an empty value.
const hostnameVerification = "zookeeper.ssl.hostnameVerification"

// properties finds them in KAFKA_OPTS of the environment (in the form of os.Environ), and returns them as settings.
func properties(environment []string) map[string]string {
	found := make(map[string]string)
	for _, variable := range environment {
		options, ours := strings.CutPrefix(variable, "KAFKA_OPTS=")
		if !ours {
			continue
		}
		for option := range strings.FieldsSeq(options) {
			if name, value, ok := property(option); ok && (name != juteMaxBuffer || isNumber(value)) {
				found[systemProperties[name]] = settingValue(name, strings.Trim(value, `"'`))
			}
		}
	}
	return found
}

// settingValue converts the value of a system property to that of its setting.
func settingValue(name, value string) string {
	switch {
	case name == juteMaxBuffer:
		n, _ := strconv.ParseInt(value, 0, 32)
		return strconv.FormatInt(n, 10)
	case name != hostnameVerification:
		return value
	case strings.EqualFold(value, "true"):
		return "https"
	}
	return ""
}

func isNumber(value string) bool {
	n, err := strconv.ParseInt(value, 0, 32)
	return err == nil && n > 0
}

// withoutProperties returns a variable of the environment without them.
func withoutProperties(variable string) string {
	options, ours := strings.CutPrefix(variable, "KAFKA_OPTS=")
	if !ours {
		return variable
	}
	var rest []string
	for option := range strings.FieldsSeq(options) {
		if _, _, ok := property(option); !ok {
			rest = append(rest, option)
		}
	}
	return "KAFKA_OPTS=" + strings.Join(rest, " ")
}

// property parses an option -Dname=value for a property that is honoured.
func property(option string) (name, value string, ok bool) {
	definition, defines := strings.CutPrefix(option, "-D")
	name, value, set := strings.Cut(definition, "=")
	return name, value, defines && set && systemProperties[name] != ""
}
