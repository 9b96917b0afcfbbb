package network

import (
	"crypto/tls"
	"strings"
)

// Software is what a client says that it is, in ApiVersions (KIP-511).
type Software struct{ Name, Version string }

// Encryption is what a TLS handshake has led to, as Java names it.
type Encryption struct{ Protocol, Cipher string }

// A Census counts the connections of a listener.
type Census struct {
	Software   map[Software]int   // those whose client has said what it is
	Encryption map[Encryption]int // those with TLS
}

// Census counts what is known of open connections, by listener.
func (s *Server) Census() map[string]Census {
	all := make(map[string]Census)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.mu.listeners {
		all[b.Name] = Census{make(map[Software]int), make(map[Encryption]int)}
	}
	for c := range s.mu.conns {
		of, ok := all[c.Listener]
		if !ok { // it was unbound
			continue
		}
		if software := c.software.Load(); software != nil {
			of.Software[*software]++
		}
		if encryption := c.encryption.Load(); encryption != nil {
			of.Encryption[*encryption]++
		}
	}
	return all
}

// Identify tells what the client says that it is.
func (c *Conn) Identify(software Software) { c.software.Store(&software) }

// Software is what the client says that it is; empty, where it does not.
func (c *Conn) Software() Software {
	if s := c.software.Load(); s != nil {
		return *s
	}
	return Software{}
}

func encryptionOf(state tls.ConnectionState) *Encryption {
	return &Encryption{Protocol: strings.Replace(tls.VersionName(state.Version), "TLS ", "TLSv", 1), Cipher: tls.CipherSuiteName(state.CipherSuite)}
}
