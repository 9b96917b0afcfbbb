package ssl

import (
	"crypto/x509"
	"errors"
	"os"
	"strings"

	"barnabas/internal/edition"
	"barnabas/network/keystore"
)

// The settings of the two stores.
const (
	keystoreLocation   = "ssl.keystore.location"
	keystorePassword   = "ssl.keystore.password"
	keystoreType       = "ssl.keystore.type"
	keystoreKey        = "ssl.keystore.key"
	keystoreChain      = "ssl.keystore.certificate.chain"
	keyPassword        = "ssl.key.password"
	truststoreLocation = "ssl.truststore.location"
	truststorePassword = "ssl.truststore.password"
	truststoreType     = "ssl.truststore.type"
	truststoreCerts    = "ssl.truststore.certificates"
)

// store is an opened keystore or truststore.
type store struct {
	*keystore.Store
	setting string          // name of the setting that holds or locates it, as it was set
	edition edition.Edition // of its file; zero if the store is in the settings themselves
}

// modified reports whether the file has changed since it was opened.
func (s *store) modified() bool { return s != nil && s.edition.Outdated() }

// openKeystore opens the store with this side's key; nil if there is none.
func (s Settings) openKeystore() (*store, error) {
	file, password := s.optional(keystoreLocation), s.optional(keystorePassword)
	key, chain := s.optional(keystoreKey), s.optional(keystoreChain)
	pem, err := s.isPEM(keystoreType)
	switch {
	case err != nil:
		return nil, err
	case key != nil:
		return s.inlineKeystore(*key, chain, pem)
	case chain != nil:
		return nil, s.refuse(keystoreChain, "%s must also be set", keystoreKey)
	case file == nil && password != nil:
		return nil, s.refuse(keystorePassword, "%s is not set", keystoreLocation)
	case file == nil:
		return nil, nil
	case pem && password != nil:
		return nil, s.refuse(keystorePassword, "a PEM keystore has no password of its own, only %s", keyPassword)
	case !pem && password == nil:
		return nil, s.refuse(keystoreLocation, "%s must also be set", keystorePassword)
	}
	return s.openFile(keystoreLocation, keystorePassword, func(data []byte) (*keystore.Store, error) {
		if pem {
			return keystore.OpenPEM(string(data), string(data), s.optional(keyPassword))
		}
		opened, err := keystore.Open(data, keystore.Passwords{Store: password, Key: s.optional(keyPassword)}, true)
		if err == nil && len(opened.Keys) == 0 {
			err = errors.New("there is no private key in it")
		}
		return opened, err
	})
}

func (s Settings) inlineKeystore(key string, chain *string, pem bool) (*store, error) {
	switch {
	case !pem:
		return nil, s.refuse(keystoreKey, "needs %s=PEM", keystoreType)
	case chain == nil:
		return nil, s.refuse(keystoreKey, "%s must also be set", keystoreChain)
	case s.optional(keystoreLocation) != nil:
		return nil, s.refuse(keystoreLocation, "cannot be set together with %s", keystoreKey)
	case s.optional(keystorePassword) != nil:
		return nil, s.refuse(keystorePassword, "a PEM keystore has no password of its own, only %s", keyPassword)
	}
	if _, err := keystore.OpenTrustedPEM(*chain); err != nil {
		return nil, s.refuse(keystoreChain, "%w", err)
	}
	opened, err := keystore.OpenPEM(key, *chain, s.optional(keyPassword))
	switch {
	case errors.As(err, new(*keystore.KeyPasswordError)):
		return nil, s.refuse(keyPassword, "%w", err)
	case err != nil:
		return nil, s.refuse(keystoreKey, "%w", err)
	}
	return &store{Store: opened, setting: s.name(keystoreKey)}, nil
}

// openTruststore opens the store of trusted certificates; nil if the system's apply.
func (s Settings) openTruststore() (*store, error) {
	file, password, certs := s.optional(truststoreLocation), s.optional(truststorePassword), s.optional(truststoreCerts)
	pem, err := s.isPEM(truststoreType)
	switch {
	case err != nil:
		return nil, err
	case certs != nil && !pem:
		return nil, s.refuse(truststoreCerts, "needs %s=PEM", truststoreType)
	case certs != nil && file != nil:
		return nil, s.refuse(truststoreLocation, "cannot be set together with %s", truststoreCerts)
	case pem && password != nil:
		return nil, s.refuse(truststorePassword, "a PEM truststore has no password")
	case certs != nil:
		opened, err := keystore.OpenTrustedPEM(*certs)
		if err != nil {
			return nil, s.refuse(truststoreCerts, "%w", err)
		}
		return &store{Store: opened, setting: s.name(truststoreCerts)}, nil
	case file == nil && password != nil:
		return nil, s.refuse(truststorePassword, "%s is not set", truststoreLocation)
	case file == nil:
		return nil, nil
	}
	return s.openFile(truststoreLocation, truststorePassword, func(data []byte) (*keystore.Store, error) {
		if pem {
			return keystore.OpenTrustedPEM(string(data))
		}
		opened, err := keystore.Open(data, keystore.Passwords{Store: password}, false)
		switch {
		case err != nil || len(opened.Keys)+len(opened.Trusted) > 0:
		case password == nil:
			err = errors.New("no trusted certificate can be read in it without " + truststorePassword)
		default:
			err = errors.New("it has no trusted certificate; in a PKCS12 truststore, only certificates imported with keytool are trusted")
		}
		return opened, err
	})
}

// isPEM reports whether a store's type is PEM.
func (s Settings) isPEM(key string) (bool, error) {
	switch strings.ToUpper(s.text(key)) {
	case "PEM":
		return true, nil
	case "", "JKS", "PKCS12":
		return false, nil
	}
	return false, s.refuse(key, "must be JKS, PKCS12 or PEM")
}

// openFile opens a store in a file. location and password are the names of its settings.
func (s Settings) openFile(location, password string, open func([]byte) (*keystore.Store, error)) (*store, error) {
	file := s.text(location)
	opened := &store{setting: s.name(location), edition: edition.Of(file)}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, s.refuse(location, "%w", err)
	}
	opened.Store, err = open(data)
	switch {
	case errors.As(err, new(*keystore.KeyPasswordError)):
		return nil, s.refuse(keyPassword, "%s: %w", file, err)
	case errors.Is(err, keystore.ErrPassword):
		return nil, s.refuse(password, "%s: %w", file, err)
	case err != nil:
		return nil, s.refuse(location, "%w", err)
	}
	return opened, nil
}

// anchors returns the certificates that a store makes trusted: its own entries, and the certificate of each key, but
// not those of its issuers. nil stands for the system's.
func (s *store) anchors() *x509.CertPool {
	if s == nil {
		return nil
	}
	pool := x509.NewCertPool()
	for _, c := range s.Trusted {
		pool.AddCert(c.Certificate)
	}
	for _, k := range s.Keys {
		if len(k.Chain) > 0 {
			pool.AddCert(k.Chain[0])
		}
	}
	return pool
}
