package network

import (
	"crypto/tls"
	"strings"
)

// Software is the client software as announced in ApiVersions (KIP-511).
type Software struct{ Name, Version string }

// Encryption is the outcome of a TLS handshake, in Java's names.
type Encryption struct{ Protocol, Cipher string }

// ClientCounts counts the open connections of a listener.
type ClientCounts struct {
	Software   map[Software]int   // connections whose client has announced its software
	Encryption map[Encryption]int // connections with TLS
}

// ClientCounts counts open connections by their properties, for each listener.
func (s *Server) ClientCounts() map[string]ClientCounts {
	all := make(map[string]ClientCounts)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.mu.listeners {
		all[b.Name] = ClientCounts{make(map[Software]int), make(map[Encryption]int)}
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

// Identify records the software that the client has announced.
func (c *Conn) Identify(software Software) { c.software.Store(&software) }

// Software returns the software that the client has announced, or the zero value if it has not.
func (c *Conn) Software() Software {
	if s := c.software.Load(); s != nil {
		return *s
	}
	return Software{}
}

func encryptionOf(state tls.ConnectionState) *Encryption {
	return &Encryption{Protocol: strings.Replace(tls.VersionName(state.Version), "TLS ", "TLSv", 1), Cipher: tls.CipherSuiteName(state.CipherSuite)}
}
