package broker

import (
	"crypto/tls"
	"fmt"

	"barnabas/config"
	"barnabas/network/kerberos"
	"barnabas/network/ssl"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zklogin"
)

// zooKeeperAccess returns the settings of this broker's ZooKeeper sessions: where to connect, how they are encrypted and
// authenticated, and whether the nodes that they create are restricted to that user.
func (s *Server) zooKeeperAccess() (zkcoord.Config, error) {
	encryption, certified, err := zooKeeperTLS(s.static)
	if err != nil {
		return zkcoord.Config{}, err
	}
	login, err := s.zooKeeperLogin()
	if err != nil {
		return zkcoord.Config{}, err
	}
	s.onStop(login.Close)
	c := s.static
	if c.ZookeeperSetACL && login == nil && !certified {
		return zkcoord.Config{}, fmt.Errorf("zookeeper.set.acl=true: ZooKeeper would not know for whom to keep nodes: %s must name a file "+
			"with a section %s, or zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location a certificate",
			config.LoginFileKey, c.ZookeeperLoginSection)
	}
	return zkcoord.Config{
		Connect: c.ZookeeperConnect, SessionTimeout: c.ZookeeperSessionTimeout, ConnectionTimeout: c.ZookeeperConnectionTimeout,
		MaxInFlight: c.ZookeeperMaxInFlight, MaxRequestBytes: c.ZookeeperMaxRequestBytes, NoTopicIDs: !s.since(config.IBP28IV0),
		TLS: encryption, Login: login, SecureNodes: c.ZookeeperSetACL, Answered: s.metrics.ZooKeeper, Logger: s.loggers.Entry(config.ZooKeeperLogger),
	}, nil
}

// zooKeeperTLS returns how connections to ZooKeeper are encrypted, nil for plaintext, and whether this broker has a
// certificate to present.
func zooKeeperTLS(c *config.Broker) (encryption func(host string) *tls.Config, certified bool, err error) {
	if !c.Bool("zookeeper.ssl.client.enable") {
		return nil, false, nil
	}
	made, err := ssl.ForZooKeeper(c.Setting)
	if err != nil {
		return nil, false, refusedTLS(err)
	}
	return made.Client, c.String("zookeeper.ssl.keystore.location") != "", nil
}

// zooKeeperLogin returns the login for ZooKeeper sessions, or nil for none. A server without logins is accepted unless
// nodes are to be restricted, so that the brokers can be given a login first and the ZooKeeper servers afterwards.
func (s *Server) zooKeeperLogin() (*zklogin.Login, error) {
	c := s.static
	login, err := zklogin.Read(zklogin.Config{File: c.ZookeeperLoginFile, Section: c.ZookeeperLoginSection, Krb5: kerberos.Source(c.Krb5),
		Service: c.ZookeeperService, Principal: c.ZookeeperPrincipal, Aliases: c.ZookeeperAliases, Failed: s.kerberos.warn})
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", config.LoginFileKey, c.ZookeeperLoginFile, err)
	}
	if login != nil {
		login.Optional = !c.ZookeeperSetACL
	}
	return login, nil
}
