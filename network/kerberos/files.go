package kerberos

import (
	"fmt"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
)

// read lets the library read a file. The library panics on incomplete files, such as one that is just being written.
func read[T any](file string, by func(string) (T, error)) (content T, err error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			err = fmt.Errorf("%s is malformed or truncated", file)
		}
	}()
	return by(file)
}

// path returns the path in the name of a keytab or ticket cache, which may have its type before it, as in Java.
func path(name string) string {
	const file = "FILE:"
	if len(name) >= len(file) && strings.EqualFold(name[:len(file)], file) {
		return name[len(file):]
	}
	return name
}

// Configuration is the Kerberos configuration (krb5.conf).
type Configuration struct{ config *config.Config }

// ReadConfiguration reads the configuration from a file and those that it includes.
func ReadConfiguration(file string) (*Configuration, error) {
	c, err := read(file, loadConf)
	if err != nil {
		return nil, err
	}
	return &Configuration{c}, nil
}

// Realm returns the default realm.
func (c *Configuration) Realm() string { return c.config.LibDefaults.DefaultRealm }

// skew returns the maximum clock difference between client and server.
func (c *Configuration) skew() time.Duration { return c.config.LibDefaults.Clockskew }
