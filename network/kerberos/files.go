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

// Source says where the configuration is, as the system properties java.security.krb5.* of Java do.
type Source struct {
	File string // krb5.conf
	// Realm and KDC are the default realm and the hosts of its key distribution centers, separated by colons: both are
	// set or neither. They take precedence over the file, which then need not exist.
	Realm, KDC string
}

// readConfiguration reads the configuration from a file and those that it includes.
func readConfiguration(from Source) (*Configuration, error) {
	c, err := read(from.File, func(string) (*config.Config, error) { return loadConf(from) })
	if err != nil {
		return nil, err
	}
	return &Configuration{c}, nil
}

// Realm returns the default realm.
func (c *Configuration) Realm() string { return c.config.LibDefaults.DefaultRealm }

// skew returns the maximum clock difference between client and server.
func (c *Configuration) skew() time.Duration { return c.config.LibDefaults.Clockskew }
