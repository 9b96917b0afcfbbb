package tools

import (
	"context"
	"errors"
)

// notApplicable is a tool of Apache Kafka that does not apply here: it names the replacement, and fails.
func notApplicable(name, why string) func(context.Context, *Env) error {
	return func(_ context.Context, env *Env) error {
		o := newOptions(name, why)
		for _, arg := range env.Args {
			switch arg {
			case "--help", "-help", "-h":
				o.usage(env)
				return exitCode(1)
			case "--version", "-version":
				env.println(Version)
				return nil
			}
		}
		return errors.New(why)
	}
}

const whyNoJMX = "there is no JVM: set metrics.listener and read http://HOST:PORT/metrics, which has the same metrics " +
	"under the names that the JMX exporter gives them"
