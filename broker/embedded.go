package broker

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"barnabas/config"
	"barnabas/zkcoord/zkserver"
)

// startEmbedded serves ZooKeeper from this process, for development (zookeeper.embedded).
func (s *Server) startEmbedded(context.Context) error {
	if !s.static.ZookeeperEmbedded {
		return nil
	}
	dir, from := s.static.ZookeeperEmbeddedDir, "zookeeper.embedded.dir="+s.static.ZookeeperEmbeddedDir
	if dir == "" {
		dir = filepath.Join(filepath.Dir(s.static.LogDirs[0]), "zookeeper")
		from = fmt.Sprintf("log.dirs=%s: the embedded ZooKeeper keeps its data beside it, in %s, unless zookeeper.embedded.dir says another place", s.static.LogDirs[0], dir)
	}
	address, _, _ := strings.Cut(s.static.ZookeeperConnect, "/")
	if strings.Contains(address, ",") {
		return fmt.Errorf("zookeeper.embedded=true serves one address, zookeeper.connect=%s names several", s.static.ZookeeperConnect)
	}
	zk, err := zkserver.Open(zkserver.Config{Dir: dir, ForgetSessions: true, Logger: s.loggers.Entry(config.EmbeddedLogger)})
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	s.onStop(func() {
		if err := zk.Close(); err != nil {
			s.log.WithError(err).Warn("the embedded ZooKeeper did not stop cleanly")
		}
	})
	if err := zk.Listen(address); err != nil {
		return fmt.Errorf("zookeeper.embedded=true cannot serve zookeeper.connect=%s: %w", address, err)
	}
	s.log.Infof("serving an embedded ZooKeeper at %s, for development only", address)
	return nil
}
