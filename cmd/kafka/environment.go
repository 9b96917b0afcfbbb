package main

import (
	"slices"
	"strings"
)

// notSettings are variables of common container images that configure their launchers or the JVM.
var notSettings = []string{
	"KAFKA_VERSION", "KAFKA_HOME", "KAFKA_DEBUG", "KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS",
	"KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_CMD_OPTS", "KAFKA_TOOLS_LOG4J_LOGLEVEL",
	"KAFKA_ZOOKEEPER_CLIENT_CNXN_SOCKET", "KAFKA_PORT",
}

// notSettingPrefixes are prefixes of further ones. Kubernetes sets KAFKA_PORT and variables with the prefixes
// KAFKA_PORT_ and KAFKA_SERVICE_ in every container if there is a service named kafka.
var notSettingPrefixes = []string{"KAFKA_JMX_", "KAFKA_PORT_", "KAFKA_SERVICE_"}

// settingName is the order in which common images convert a variable's name: three underscores are a dash, two are an
// underscore, one is a dot.
var settingName = strings.NewReplacer("___", "-", "__", "_", "_", ".")

// bitnamiName makes up for what the single underscores of Bitnami's variables, KAFKA_CFG_*, cannot express: the
// underscore in the names of two listeners, and a capital letter (kafka_configure_from_environment_variables in its
// libkafka.sh).
var bitnamiName = strings.NewReplacer("sasl.ssl", "sasl_ssl", "sasl.plaintext", "sasl_plaintext", "zookeeper.clientcnxnsocket", "zookeeper.clientCnxnSocket")

// environmentSettings returns the settings in environment variables such as KAFKA_BROKER_ID, as key=value sorted by
// key. environment has the form of os.Environ.
func environmentSettings(environment []string) []string {
	var settings []string
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		key, ok := strings.CutPrefix(name, "KAFKA_")
		if !ok || key == "" || slices.Contains(notSettings, name) ||
			slices.ContainsFunc(notSettingPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		key, bitnami := strings.CutPrefix(key, "CFG_")
		key = settingName.Replace(strings.ToLower(key))
		if bitnami {
			key = bitnamiName.Replace(key)
		}
		settings = append(settings, key+"="+value)
	}
	slices.Sort(settings)
	return settings
}

// keysOf returns the keys of key=value pairs. The values may be secret.
func keysOf(settings []string) []string {
	keys := make([]string, len(settings))
	for i, s := range settings {
		keys[i], _, _ = strings.Cut(s, "=")
	}
	return keys
}
