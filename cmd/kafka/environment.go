package main

import (
	"slices"
	"strings"
)

// notSettings are variables of the container images that many know which speak to their launchers and to the JVM.
var notSettings = []string{
	"KAFKA_VERSION", "KAFKA_HOME", "KAFKA_DEBUG", "KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS",
	"KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_CMD_OPTS", "KAFKA_TOOLS_LOG4J_LOGLEVEL",
	"KAFKA_ZOOKEEPER_CLIENT_CNXN_SOCKET", "KAFKA_PORT",
}

// notSettingPrefixes begin further ones. Kubernetes sets KAFKA_PORT and those that begin with KAFKA_PORT_ and KAFKA_SERVICE_
// in every container beside a service named kafka.
var notSettingPrefixes = []string{"KAFKA_JMX_", "KAFKA_PORT_", "KAFKA_SERVICE_"}

// settingName is the order in which the images that many know read a variable's name: three underscores are a dash, two are
// an underscore, one is a dot.
var settingName = strings.NewReplacer("___", "-", "__", "_", "_", ".")

// environmentSettings gives the settings, key=value in the order of their keys, that the environment (as of os.Environ) holds in
// variables such as KAFKA_BROKER_ID.
func environmentSettings(environment []string) []string {
	var settings []string
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		key, ok := strings.CutPrefix(name, "KAFKA_")
		if !ok || key == "" || slices.Contains(notSettings, name) ||
			slices.ContainsFunc(notSettingPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		key = strings.TrimPrefix(key, "CFG_") // as one of the images has it
		settings = append(settings, settingName.Replace(strings.ToLower(key))+"="+value)
	}
	slices.Sort(settings)
	return settings
}

// keysOf are the keys of key=value pairs. The values may be secret.
func keysOf(settings []string) []string {
	keys := make([]string, len(settings))
	for i, s := range settings {
		keys[i], _, _ = strings.Cut(s, "=")
	}
	return keys
}
