package broker

import (
	"maps"
	"strings"
	"sync"
	"time"

	"barnabas/broker/quota"
	"barnabas/broker/token"
	"barnabas/internal/logx"
	"barnabas/internal/scram"

	"github.com/sirupsen/logrus"
)

// credentials holds the users' SCRAM credentials from ZooKeeper. Safe for concurrent use.
type credentials struct {
	log    *logrus.Entry
	tokens *token.Manager // set before the first login; nil: no delegation tokens
	mu     struct {
		sync.RWMutex
		of map[credentialKey]scram.Credential
	}
}

type credentialKey struct{ mechanism, user string }

func newCredentials(log *logrus.Entry) *credentials {
	c := &credentials{log: log}
	c.mu.of = make(map[credentialKey]scram.Credential)
	return c
}

// User implements sasl.Credentials.
func (c *credentials) User(mechanism, user string) (scram.Credential, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found, ok := c.mu.of[credentialKey{mechanism, user}]
	return found, ok
}

// Token implements sasl.Credentials. The owner is the user's name without its type.
func (c *credentials) Token(mechanism, id string) (credential scram.Credential, owner string, expires time.Time, ok bool) {
	if c.tokens == nil {
		return scram.Credential{}, "", time.Time{}, false
	}
	credential, principal, expires, ok := c.tokens.Credential(mechanism, id)
	_, owner, _ = strings.Cut(principal, ":")
	return credential, owner, expires, ok
}

// set applies a user's node in ZooKeeper, which also holds quotas. Credentials that cannot be parsed are logged and
// ignored.
func (c *credentials) set(user string, stored map[string]string) {
	found := make(map[credentialKey]scram.Credential)
	for _, m := range scram.Mechanisms() {
		text, ok := stored[m.Name]
		if !ok {
			continue
		}
		credential, err := m.ParseCredential(text)
		if err != nil {
			c.log.WithError(err).WithFields(logrus.Fields{logx.User: user, logx.Mechanism: m.Name}).Error("a user cannot log in")
			continue
		}
		found[credentialKey{m.Name, user}] = credential
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range scram.Mechanisms() {
		delete(c.mu.of, credentialKey{m.Name, user})
	}
	maps.Copy(c.mu.of, found)
}

// users lists the users that have credentials, some more than once.
func (c *credentials) users() []quota.Entity {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var users []quota.Entity
	for key := range c.mu.of {
		users = append(users, quota.Entity{User: quota.Named(key.user)})
	}
	return users
}

// setCredentials applies the stored settings of an entity if it is a user.
func (s *Server) setCredentials(e quota.Entity, stored map[string]string) {
	if e.User.Given && !e.User.Default && !e.Client.Given {
		s.credentials.set(e.User.Value, stored)
	}
}
