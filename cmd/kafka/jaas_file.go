package main

import "strings"

// jaasFileKey is the system property of Java that names a file of login configurations, and our setting of the same name.
const jaasFileKey = "java.security.auth.login.config"

// jaasFile finds that property in KAFKA_OPTS of the environment (as of os.Environ), which is where those who use SASL have
// put it for long, as a setting key=value.
func jaasFile(environment []string) (setting string, ok bool) {
	for _, variable := range environment {
		options, ours := strings.CutPrefix(variable, "KAFKA_OPTS=")
		if !ours {
			continue
		}
		for option := range strings.FieldsSeq(options) {
			if setting, found := strings.CutPrefix(option, "-D"); found && strings.HasPrefix(setting, jaasFileKey+"=") {
				return jaasFileKey + "=" + strings.Trim(setting[len(jaasFileKey)+1:], `"'`), true
			}
		}
	}
	return "", false
}

// withoutJaasFile is a variable of the environment without that property.
func withoutJaasFile(variable string) string {
	options, ours := strings.CutPrefix(variable, "KAFKA_OPTS=")
	if !ours {
		return variable
	}
	var rest []string
	for option := range strings.FieldsSeq(options) {
		if !strings.HasPrefix(option, "-D"+jaasFileKey+"=") {
			rest = append(rest, option)
		}
	}
	return "KAFKA_OPTS=" + strings.Join(rest, " ")
}
