package tools

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"barnabas/config"
	"barnabas/internal/jaas"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// securityOptions converts security.protocol, ssl.* and sasl.*.
func securityOptions(ctx context.Context, env *Env, p properties) ([]kgo.Opt, error) {
	protocol := strings.ToUpper(p["security.protocol"])
	var opts []kgo.Opt
	switch protocol {
	case "", "PLAINTEXT", "SASL_PLAINTEXT":
	case "SSL", "SASL_SSL":
		dial, err := tlsDialer(p)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.Dialer(dial))
	default:
		return nil, invalidValue(p["security.protocol"], "security.protocol", "it must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")
	}
	if strings.HasPrefix(protocol, "SASL_") {
		o, err := saslOption(ctx, env, p)
		if err != nil {
			return nil, err
		}
		opts = append(opts, o)
	}
	return opts, nil
}

const (
	gssapi      = "GSSAPI"
	oauthBearer = "OAUTHBEARER"
)

// clientLogin returns sasl.jaas.config, or the section KafkaClient of the file that KAFKA_OPTS names.
func clientLogin(env *Env, p properties, mechanism, module string) (jaas.Login, error) {
	const section = "KafkaClient"
	file := env.Properties[config.LoginFileKey]
	if text, given := p["sasl.jaas.config"]; given || file == "" {
		login, err := jaas.Parse(text)
		if err == nil && !fits(login.Module, mechanism) {
			err = fmt.Errorf("its login module is %s, %s needs %s", login.Module, mechanism, module)
		}
		if err != nil {
			return login, fmt.Errorf("sasl.jaas.config: %w", err)
		}
		return login, nil
	}
	refuse := func(err error) (jaas.Login, error) {
		return jaas.Login{}, fmt.Errorf("%s=%s: %w", config.LoginFileKey, file, err)
	}
	sections, err := jaas.ReadFile(file)
	if err != nil {
		return refuse(err)
	}
	i := slices.IndexFunc(sections[section], func(l jaas.Login) bool { return fits(l.Module, mechanism) })
	if i < 0 {
		return refuse(fmt.Errorf("its section %s has no login module %s", section, module))
	}
	return sections[section][i], nil
}

// fits reports whether a login module has what a mechanism presents. In Java, PLAIN also uses the module for SCRAM, and
// there are several for Kerberos.
func fits(module, mechanism string) bool {
	switch mechanism {
	case "PLAIN":
		return module == jaas.PlainModule || module == jaas.ScramModule
	case gssapi:
		return strings.HasSuffix(module, ".Krb5LoginModule")
	}
	return module == config.LoginModules()[mechanism]
}

// mechanismOf returns the mechanism of a client that logs in.
func mechanismOf(p properties) string { return strings.ToUpper(cmp.Or(p["sasl.mechanism"], gssapi)) }

func saslOption(ctx context.Context, env *Env, p properties) (kgo.Opt, error) {
	mechanism := mechanismOf(p)
	modules := config.LoginModules()
	module, known := modules[mechanism]
	if !known {
		return nil, invalidValue(mechanism, "sasl.mechanism", "it must be one of "+strings.Join(slices.Sorted(maps.Keys(modules)), ", "))
	}
	login, err := clientLogin(env, p, mechanism, module)
	if err != nil {
		return nil, err
	}
	switch mechanism {
	case gssapi:
		return kerberosOption(p, login.Options, env.Properties)
	case oauthBearer:
		return oauthOption(ctx, p, login.Options)
	}
	user, pass := login.Options["username"], login.Options["password"]
	token := strings.EqualFold(login.Options["tokenauth"], "true") // the user is a delegation token's id
	switch mechanism {
	case "SCRAM-SHA-256":
		return kgo.SASL(scram.Auth{User: user, Pass: pass, IsToken: token}.AsSha256Mechanism()), nil
	case "SCRAM-SHA-512":
		return kgo.SASL(scram.Auth{User: user, Pass: pass, IsToken: token}.AsSha512Mechanism()), nil
	}
	return kgo.SASL(plain.Auth{User: user, Pass: pass}.AsMechanism()), nil
}
