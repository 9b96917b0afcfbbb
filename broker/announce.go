package broker

import (
	"fmt"
	"strings"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
)

// announce logs in one line what is served from now on: the listeners, the cluster, and the number of partitions in
// each log directory.
func (s *Server) announce() {
	endpoints := s.listening.endpoints()
	listeners := make([]string, len(endpoints))
	for i, e := range endpoints {
		listeners[i] = fmt.Sprintf("%s://%s:%d", e.Name, e.Host, e.Port)
	}
	s.log.WithFields(logrus.Fields{
		logx.Broker: s.id, logx.Listener: strings.Join(listeners, ","), logx.Dir: strings.Join(s.static.LogDirs, ","), logx.Count: len(s.logs.Logs()),
	}).Infof("serving partitions of cluster %s", s.clusterID)
	if left := len(s.logs.LoadingPartitions()); left > 0 {
		s.log.WithField(logx.Count, left).Info("logs are still being recovered: their partitions are served as soon as they are ready")
	}
}
