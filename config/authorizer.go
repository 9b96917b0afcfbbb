package config

import (
	"strconv"
	"strings"
	"time"
)

// ACLAuthorizer is the only supported authorizer: ACLs in ZooKeeper.
const ACLAuthorizer = "kafka.security.authorizer.AclAuthorizer"

// AuthorizerZookeeper says where the ACLs are, if not in the broker's ZooKeeper (authorizer.zookeeper.*). Apache Kafka
// has no schema for these keys.
type AuthorizerZookeeper struct {
	Connect           string
	SessionTimeout    time.Duration
	ConnectionTimeout time.Duration
	MaxInFlight       int
}

// AuthorizerZookeeperURL is the key for the ZooKeeper with the ACLs.
const AuthorizerZookeeperURL = "authorizer.zookeeper.url"

// The other keys that AclAuthorizer reads itself.
const (
	superUsersKey     = "super.users"
	allowEveryoneKey  = "allow.everyone.if.no.acl.found"
	authorizerConnKey = "authorizer.zookeeper.connection.timeout.ms"
	authorizerSessKey = "authorizer.zookeeper.session.timeout.ms"
	authorizerMaxKey  = "authorizer.zookeeper.max.in.flight.requests"
)

func (b *Broker) fillAuthorizer() {
	b.AuthorizerClass = b.String("authorizer.class.name")
	for user := range strings.SplitSeq(b.String(superUsersKey), ";") {
		if user = strings.TrimSpace(user); user != "" {
			b.SuperUsers = append(b.SuperUsers, user)
		}
	}
	b.AllowEveryoneIfNoACL = strings.EqualFold(strings.TrimSpace(b.String(allowEveryoneKey)), "true")
	if b.Set(AuthorizerZookeeperURL) || b.Set(authorizerConnKey) || b.Set(authorizerSessKey) || b.Set(authorizerMaxKey) {
		b.AuthorizerZookeeper = b.authorizerZookeeper()
	}
}

// authorizerZookeeper takes what is not set from the broker's own settings. checkAuthorizer has checked the numbers.
func (b *Broker) authorizerZookeeper() *AuthorizerZookeeper {
	z := &AuthorizerZookeeper{Connect: b.ZookeeperConnect, SessionTimeout: b.ZookeeperSessionTimeout,
		ConnectionTimeout: b.ZookeeperConnectionTimeout, MaxInFlight: b.ZookeeperMaxInFlight}
	if url := strings.TrimSpace(b.String(AuthorizerZookeeperURL)); url != "" {
		z.Connect = url
	}
	for key, into := range map[string]*time.Duration{authorizerConnKey: &z.ConnectionTimeout, authorizerSessKey: &z.SessionTimeout} {
		if n, err := positive(b.String(key)); err == nil {
			*into = time.Duration(n) * time.Millisecond
		}
	}
	if n, err := positive(b.String(authorizerMaxKey)); err == nil {
		z.MaxInFlight = n
	}
	return z
}

func positive(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err == nil && n <= 0 {
		err = strconv.ErrRange
	}
	return n, err
}

// checkAuthorizer refuses unsupported authorizers and invalid settings: without them others could do more, or nobody
// anything.
func (b *Broker) checkAuthorizer() error {
	switch b.AuthorizerClass {
	case "", ACLAuthorizer:
	case "org.apache.kafka.metadata.authorizer.StandardAuthorizer":
		return b.refuse("authorizer.class.name", "that authorizer keeps its ACLs in KRaft's metadata log; use %s with ZooKeeper", ACLAuthorizer)
	default:
		return b.refuse("authorizer.class.name", "no class can be loaded here, only %s is available", ACLAuthorizer)
	}
	if b.AuthorizerClass == "" {
		return nil
	}
	for _, user := range b.SuperUsers {
		if !strings.Contains(user, ":") {
			return b.refuse(superUsersKey, "%q is not a principal; write User:alice;User:bob", user)
		}
	}
	if text := strings.ToLower(strings.TrimSpace(b.String(allowEveryoneKey))); text != "" && text != "true" && text != "false" {
		return b.refuse(allowEveryoneKey, "must be true or false")
	}
	for key := range b.given {
		if strings.HasPrefix(key, "authorizer.zookeeper.ssl.") {
			return b.refuse(key, "the authorizer's connection to ZooKeeper uses the TLS settings of the broker, zookeeper.ssl.*")
		}
	}
	for _, key := range []string{authorizerConnKey, authorizerSessKey, authorizerMaxKey} {
		if text := b.String(key); b.Set(key) {
			if _, err := positive(text); err != nil {
				return b.refuse(key, "must be a whole number of at least 1")
			}
		}
	}
	return nil
}
