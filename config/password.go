package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"barnabas/config/password"

	"github.com/twmb/franz-go/pkg/kerr"
)

// dynamicPasswords are the passwords that may be set at run time. They are encoded in ZooKeeper.
var dynamicPasswords = []string{
	"sasl.jaas.config",
	"ssl.key.password",
	"ssl.keystore.certificate.chain",
	"ssl.keystore.key",
	"ssl.keystore.password",
	"ssl.truststore.certificates",
	"ssl.truststore.password",
}

// IsDynamicPassword reports whether a broker's setting with that name is encoded in ZooKeeper: any name with the suffix
// of one of those passwords, with or without a listener's prefix (DynamicBrokerConfig.isPasswordConfig, 3.9).
func IsDynamicPassword(name string) bool {
	return slices.ContainsFunc(dynamicPasswords, func(p string) bool { return strings.HasSuffix(name, p) })
}

const (
	secretKey    = "password.encoder.secret"
	oldSecretKey = "password.encoder.old.secret"
)

// encoder returns the encoder with the secret in that key, if it is set. These settings are only read from the file.
func (b *Broker) encoder(key string) (password.Encoder, bool) {
	if b.null(key) {
		return password.Encoder{}, false
	}
	return password.Encoder{
		Secret:     b.String(key),
		KeyFactory: b.String("password.encoder.keyfactory.algorithm"),
		Cipher:     b.String("password.encoder.cipher.algorithm"),
		KeyBits:    b.Int("password.encoder.key.length"),
		Iterations: b.Int("password.encoder.iterations"),
	}, true
}

// encode returns the form in which ZooKeeper stores a password.
func (b *Broker) encode(name, value string) (string, error) {
	e, ok := b.encoder(secretKey)
	if !ok {
		return "", &Error{Key: name, Reason: "passwords are stored encrypted, for which " + secretKey + " must be set in the broker's file", Code: kerr.InvalidConfig}
	}
	encoded, err := e.Encode(value)
	if err != nil {
		return "", &Error{Key: name, Reason: fmt.Sprintf("cannot be encrypted as password.encoder.* say: %v", err), Code: kerr.InvalidConfig}
	}
	return encoded, nil
}

// decode returns the password that ZooKeeper stores.
func (b *Broker) decode(name, encoded string) (string, error) {
	e, ok := b.encoder(secretKey)
	if !ok {
		return "", &Error{Key: name, Reason: "the stored password cannot be read: " + secretKey + " is not set"}
	}
	value, err := e.Decode(encoded)
	if err != nil {
		return "", &Error{Key: name, Reason: fmt.Sprintf("the stored password cannot be read with %s: %v", secretKey, err)}
	}
	return value, nil
}

// EncodeBroker returns the form in which ZooKeeper stores this broker's settings, as returned by AlterBroker: passwords
// are encoded (DynamicBrokerConfig.toPersistentProps, 3.9).
func (d *Dynamic) EncodeBroker(settings map[string]string) (map[string]string, error) {
	stored := maps.Clone(settings)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !IsDynamicPassword(name) {
			continue
		}
		encoded, err := d.Current().encode(name, settings[name])
		if err != nil {
			return nil, err
		}
		stored[name] = encoded
	}
	return stored, nil
}

// EncodeCluster is EncodeBroker for the settings of all brokers, which contain no passwords: each broker may have its
// own secret.
func (d *Dynamic) EncodeCluster(settings map[string]string) (map[string]string, error) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if IsDynamicPassword(name) {
			return nil, &Error{Key: name, Reason: "a password can be set only for one broker, not for all", Code: kerr.InvalidConfig}
		}
	}
	return settings, nil
}

// Reencode returns this broker's settings for ZooKeeper after password.encoder.secret has changed: passwords that
// password.encoder.old.secret decodes are encoded with the new one, the others, which already are, stay as they are
// (DynamicBrokerConfig.maybeReEncodePasswords, 3.9). changed reports whether there were any.
func (d *Dynamic) Reencode(stored map[string]string) (next map[string]string, changed bool, err error) {
	b := d.Current()
	old, ok := b.encoder(oldSecretKey)
	if !ok {
		return stored, false, nil
	}
	next = maps.Clone(stored)
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if !IsDynamicPassword(name) {
			continue
		}
		value, err := old.Decode(stored[name])
		if err != nil {
			continue
		}
		if next[name], err = b.encode(name, value); err != nil {
			return nil, false, err
		}
		changed = true
	}
	return next, changed, nil
}
