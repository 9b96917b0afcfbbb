package kerberos

import (
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
)

// read has the library read a file. It takes for granted that a file is whole, which one that is being written is not.
func read[T any](file string, by func(string) (T, error)) (content T, err error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			err = fmt.Errorf("%s is not of the form that it must have, or is cut short", file)
		}
	}()
	return by(file)
}

// Configuration is that of Kerberos (krb5.conf).
type Configuration struct{ config *config.Config }

// ReadConfiguration reads a file.
func ReadConfiguration(file string) (*Configuration, error) {
	c, err := read(file, config.Load)
	var unsupported config.UnsupportedDirective
	if errors.As(err, &unsupported) && c != nil { // it is told of what does not matter here
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &Configuration{c}, nil
}

// Realm is the default realm.
func (c *Configuration) Realm() string { return c.config.LibDefaults.DefaultRealm }

// skew is how far apart the clocks of client and server may be.
func (c *Configuration) skew() time.Duration { return c.config.LibDefaults.Clockskew }
