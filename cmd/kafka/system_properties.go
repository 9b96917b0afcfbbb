package main

import (
	"maps"
	"slices"
	"strings"
)

// systemProperties are those of Java's that count: who uses SASL has put them into KAFKA_OPTS for long. Our settings have the
// same names.
var systemProperties = []string{"java.security.auth.login.config", "java.security.krb5.conf", "zookeeper.sasl.client", "zookeeper.sasl.clientconfig",
	"zookeeper.sasl.client.username"}

// properties finds them in KAFKA_OPTS of the environment (as of os.Environ), by their names.
func properties(environment []string) map[string]string {
	found := make(map[string]string)
	for _, variable := range environment {
		options, ours := strings.CutPrefix(variable, "KAFKA_OPTS=")
		if !ours {
			continue
		}
		for option := range strings.FieldsSeq(options) {
			if name, value, ok := property(option); ok {
				found[name] = strings.Trim(value, `"'`)
			}
		}
	}
	return found
}

// propertySettings are those properties as settings key=value.
func propertySettings(environment []string) (settings []string) {
	found := properties(environment)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		settings = append(settings, name+"="+found[name])
	}
	return settings
}

// withoutProperties is a variable of the environment without them.
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

// property takes an option -Dname=value apart, of a property that counts.
func property(option string) (name, value string, ok bool) {
	definition, defines := strings.CutPrefix(option, "-D")
	name, value, set := strings.Cut(definition, "=")
	return name, value, defines && set && slices.Contains(systemProperties, name)
}
