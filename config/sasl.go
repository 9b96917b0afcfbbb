package config

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"barnabas/internal/jaas"
	"barnabas/internal/scram"
)

// SASL says how the clients of a listener authenticate. It contains secrets.
type SASL struct {
	Mechanisms      []SASLMechanism // in the order of sasl.enabled.mechanisms
	MaxReceiveBytes int
}

// SASLMechanism is one of a listener's mechanisms.
type SASLMechanism struct {
	Name      string
	MaxReauth time.Duration     // connections.max.reauth.ms; not positive: sessions do not end
	Options   map[string]string // of the login module
	Signed    *SignedTokens     // for OAUTHBEARER; nil: unsigned tokens
	Kerberos  *Kerberos         // for GSSAPI
}

// SASLLogin says how this broker logs in to others.
type SASLLogin struct {
	Mechanism, User, Password string
	Token                     bool           // the user is a delegation token's id
	Claims                    map[string]any // of the OAUTHBEARER token
	ClaimsLifetime            time.Duration  // of that token
	Source                    *TokenSource   // of signed OAUTHBEARER tokens; nil: this broker creates unsigned ones
	Kerberos                  *Kerberos      // for GSSAPI
}

const (
	jaasKey       = "sasl.jaas.config"
	mechanismsKey = "sasl.enabled.mechanisms"
	betweenKey    = "sasl.mechanism.inter.broker.protocol"

	oauthBearer = "OAUTHBEARER"
	gssapi      = "GSSAPI"
)

// LoginFileKey is the setting for a file of login configurations, named like the corresponding Java system property.
const LoginFileKey = "java.security.auth.login.config"

// onlyThese are the supported mechanisms.
const onlyThese = "only GSSAPI, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER"

var loginModules = LoginModules()

// LoginModules returns the login modules that the mechanisms need, by mechanism.
func LoginModules() map[string]string {
	modules := map[string]string{"PLAIN": jaas.PlainModule, oauthBearer: jaas.OAuthModule, gssapi: jaas.Krb5Module}
	for _, m := range scram.Mechanisms() {
		modules[m.Name] = jaas.ScramModule
	}
	return modules
}

// classKeys are classes that would decide about logins. They cannot be loaded, and without them other clients would be
// accepted.
var classKeys = []string{serverHandlerKey, "sasl.client.callback.handler.class", loginHandlerKey, "sasl.login.class"}

// ListenerSASL says how the clients of a listener with SASL authenticate, or what is wrong with its settings.
func (b *Broker) ListenerSASL(l Listener) (SASL, error) {
	var s SASL
	receive, err := b.listenerInt(l, "", "sasl.server.max.receive.size")
	if err != nil {
		return s, err
	}
	s.MaxReceiveBytes = receive
	key, text := b.listenerText(l, "", mechanismsKey)
	mechanisms := parseList(text)
	if len(mechanisms) == 0 {
		return s, &Error{Key: key, Reason: fmt.Sprintf("listener %s needs a mechanism to authenticate by", l.Name)}
	}
	for _, name := range mechanisms {
		if loginModules[name] == "" {
			return s, &Error{Key: key, Value: text, Reason: fmt.Sprintf(
				"listener %s: there is no mechanism %s here, %s", l.Name, name, onlyThese)}
		}
		m, err := b.mechanism(l, name)
		if err != nil {
			return s, err
		}
		s.Mechanisms = append(s.Mechanisms, m)
	}
	return s, nil
}

func (b *Broker) mechanism(l Listener, name string) (SASLMechanism, error) {
	m := SASLMechanism{Name: name}
	signed, fetched := b.wantsSigned(l, name, serverHandlerKey, validatorHandlers), b.wantsSigned(l, name, loginHandlerKey, loginHandlers)
	for _, class := range classKeys {
		if signed && class == serverHandlerKey || fetched && class == loginHandlerKey {
			continue
		}
		if key, text := b.listenerText(l, name, class); text != "" {
			return m, &Error{Key: key, Value: text, Reason: "no class can be loaded here, and without it others might log in than it lets in"}
		}
	}
	reauth, err := b.listenerInt(l, name, "connections.max.reauth.ms")
	if err != nil {
		return m, err
	}
	m.MaxReauth = millis(int64(reauth))
	login, err := b.login(l, name)
	m.Options = login.Options
	if err == nil && name == gssapi {
		m.Kerberos, err = b.kerberos(l, login.Options)
		return m, err
	}
	if err == nil && signed {
		m.Signed, err = b.signedTokens(l, login.Options)
		return m, err
	}
	if err == nil && name == oauthBearer {
		if _, err := m.TokenRules(); err != nil {
			return m, &Error{Key: mechanismPrefix(l, name) + jaasKey, Value: "[hidden]", Reason: err.Error()}
		}
	}
	return m, err
}

// login finds the login module of a mechanism: in the listener's own setting, otherwise in the file named by Java's
// system property, in the section of the listener or the common one (JaasContext.loadServerContext, 3.9).
func (b *Broker) login(l Listener, mechanism string) (jaas.Login, error) {
	key, wanted := mechanismPrefix(l, mechanism)+jaasKey, loginModules[mechanism]
	if text, ok := b.given[key]; ok {
		login, err := jaas.Parse(text)
		switch {
		case err != nil:
			return login, &Error{Key: key, Value: "[hidden]", Reason: err.Error()}
		case login.Module != wanted:
			return login, &Error{Key: key, Value: "[hidden]", Reason: fmt.Sprintf("its login module is %s, %s needs %s", login.Module, mechanism, wanted)}
		}
		return login, nil
	}
	file := b.String(LoginFileKey)
	if file == "" {
		return jaas.Login{}, &Error{Key: key, Reason: fmt.Sprintf("must be set for listener %s, for example: %s required;", l.Name, wanted)}
	}
	refuse := func(reason string) error { return &Error{Key: LoginFileKey, Value: file, Reason: reason} }
	sections, err := b.logins.read(file)
	if err != nil {
		return jaas.Login{}, refuse(err.Error())
	}
	own := strings.ToLower(l.Name) + ".KafkaServer"
	logins, ok := sections[own]
	if !ok {
		logins = sections["KafkaServer"]
	}
	i := slices.IndexFunc(logins, func(login jaas.Login) bool { return login.Module == wanted })
	if i < 0 {
		return jaas.Login{}, refuse(fmt.Sprintf("neither its section KafkaServer or %s nor %s has the login module %s", own, key, wanted))
	}
	return logins[i], nil
}

// loginFile is the content of the file of login configurations, which is read once, as by Java: what becomes of it later
// does not affect a running broker, its logins at others and its other settings.
type loginFile struct {
	mu struct {
		sync.Mutex
		sections map[string][]jaas.Login // nil: not read yet
	}
}

func (f *loginFile) read(name string) (map[string][]jaas.Login, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.sections != nil {
		return f.mu.sections, nil
	}
	sections, err := jaas.ReadFile(name)
	if err == nil {
		f.mu.sections = sections
	}
	return sections, err
}

// BrokersSASL says how this broker logs in at other brokers' listener with the same name as one of its own.
func (b *Broker) BrokersSASL(l Listener) (SASLLogin, error) {
	login := SASLLogin{Mechanism: b.String(betweenKey)}
	if loginModules[login.Mechanism] == "" {
		return login, b.refuse(betweenKey, "this mechanism is not supported, %s", onlyThese)
	}
	found, err := b.login(l, login.Mechanism)
	if err != nil {
		return login, err
	}
	if login.Mechanism == gssapi {
		login.Kerberos, err = b.kerberos(l, found.Options)
		return login, err
	}
	if b.wantsSigned(l, login.Mechanism, loginHandlerKey, loginHandlers) {
		login.Source, err = b.tokenSource(l, found.Options)
		return login, err
	}
	if login.Mechanism == oauthBearer {
		if login.Claims, login.ClaimsLifetime, err = UnsecuredClaims(found.Options); err != nil {
			return login, &Error{Key: mechanismPrefix(l, login.Mechanism) + jaasKey, Value: "[hidden]", Reason: err.Error()}
		}
		return login, nil
	}
	login.User, login.Password = found.Options["username"], found.Options["password"]
	login.Token = strings.EqualFold(found.Options["tokenauth"], "true")
	if login.User == "" || login.Password == "" {
		return login, &Error{Key: mechanismPrefix(l, login.Mechanism) + jaasKey, Value: "[hidden]",
			Reason: "brokers log in at each other with its username and password, which are not both there"}
	}
	return login, nil
}

// UserPasswords returns the passwords for the mechanism PLAIN: the options that begin with user_.
func (m SASLMechanism) UserPasswords() map[string]string {
	passwords := make(map[string]string)
	for key, value := range m.Options {
		if user, ok := strings.CutPrefix(key, "user_"); ok {
			passwords[user] = value
		}
	}
	return passwords
}

// checkLogins refuses listeners whose clients could not log in.
func (b *Broker) checkLogins() error {
	const builder = "principal.builder.class"
	for _, l := range b.Listeners {
		if !l.Protocol.SASL() {
			continue
		}
		if given, usual := b.String(builder), brokerKey(builder); !usual.isDefault(given) {
			return b.refuse(builder, "no class can be loaded here, and without it the users of listener %s would have other names", l.Name)
		}
		if _, err := b.ListenerSASL(l); err != nil {
			return err
		}
		if l.Name != b.InterBrokerListener && l.Name != b.ControlPlaneListener {
			continue
		}
		if _, err := b.BrokersSASL(l); err != nil {
			return err
		}
	}
	return nil
}

// jaasWithoutMechanism reports whether a setting is a login configuration without a mechanism, which has no effect in a
// broker.
func jaasWithoutMechanism(name string) bool {
	if rest, ok := strings.CutPrefix(name, "listener.name."); ok {
		_, base, _ := strings.Cut(rest, ".")
		return base == jaasKey
	}
	return name == jaasKey
}

func mechanismPrefix(l Listener, mechanism string) string {
	return l.ConfigPrefix() + strings.ToLower(mechanism) + "."
}

// listenerText returns the effective value of a setting for a listener and, if one is given, a mechanism, and the key
// under which it was set.
func (b *Broker) listenerText(l Listener, mechanism, key string) (name, text string) {
	if name = mechanismPrefix(l, mechanism) + key; mechanism != "" {
		if text, ok := b.given[name]; ok {
			return name, trimmed(key, text)
		}
	}
	name, text, _ = b.ListenerSetting(l, key)
	return name, text
}

func (b *Broker) listenerInt(l Listener, mechanism, key string) (int, error) {
	name, text := b.listenerText(l, mechanism, key)
	value, err := brokerKey(key).parse(text)
	if err != nil {
		return 0, &Error{Key: name, Value: text, Reason: err.(*Error).Reason}
	}
	return int(value.(int64)), nil
}
