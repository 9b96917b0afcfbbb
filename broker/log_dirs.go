package broker

import (
	"context"
	"fmt"
	"slices"

	"barnabas/config"
	"barnabas/logstore"
)

// openLogs begins to load the logs. Those that were not closed cleanly are recovered while the start goes on.
func (s *Server) openLogs(ctx context.Context) error {
	c := s.config.Current()
	logs, err := logstore.Begin(ctx, logstore.ManagerConfig{
		Dirs: c.LogDirs, Default: logConfig(s.topics.defaults()), Topic: s.topics.logConfig,
		BrokerID: s.id, ClusterID: s.clusterID, RecoveryThreadsPerDir: c.NumRecoveryThreadsPerDataDir,
		RetentionCheckInterval: c.LogRetentionCheckInterval, FlushCheckInterval: c.LogFlushSchedulerInterval,
		RecoveryPointInterval: c.LogFlushOffsetCheckpoint, LogStartInterval: c.LogFlushStartOffsetCheckpoint,
		HighWatermarkInterval: c.ReplicaHighWatermarkCheckpoint, SegmentDeleteDelay: c.LogDeleteDelay,
		Cleaner: cleanerConfig(c), MinFreeBytes: c.LogDirMinFreeBytes, MaxOpenFiles: maxOpenFiles(),
		ProducerExpiry: c.ProducerIDExpiration, ProducerExpiryInterval: c.ProducerIDExpirationCheck,
		Logger: s.loggers.Entry(config.LogLogger), CleanerLogger: s.loggers.Entry(config.CleanerLogger),
		OnDirFailure: s.directoryFailed, OnSpaceFreed: s.diskSpaceFreed, OnLoaded: s.logLoaded, OnFlushed: s.metrics.Flushed, Loading: s.collector.loadingLogs(),
	})
	if err != nil {
		return err
	}
	s.logs = logs
	s.found = slices.DeleteFunc(logs.Partitions(), func(tp logstore.TopicPartition) bool { return !s.topics.has(tp.Topic) })
	s.onStop(func() {
		if err := logs.Close(); err != nil {
			s.log.WithError(err).Error("cannot close a log directory cleanly")
		}
	})
	return nil
}

// cleanerConfig translates the settings for compaction.
func cleanerConfig(c *config.Broker) logstore.CleanerConfig {
	return logstore.CleanerConfig{Enable: c.LogCleanerEnable, Threads: c.LogCleanerThreads, DedupeBytes: c.LogCleanerDedupeBufferBytes,
		LoadFactor: c.LogCleanerIOBufferLoadFactor, BufferBytes: c.LogCleanerIOBufferBytes,
		MaxBytesPerSec: c.LogCleanerIOMaxBytesPerSecond, Backoff: c.LogCleanerBackoff}
}

// directoryFailed takes the partitions of a failed directory out of service and notifies the controller. If a directory
// fails while the logs are being loaded, that happens when the broker's parts are created; if none is left, the start
// fails with that error.
func (s *Server) directoryFailed(dir string, err error) {
	select {
	case <-s.built:
	case <-s.ctx.Done():
		return
	}
	s.replicas.DirectoryFailed(dir)
	if len(s.logs.OfflineDirs()) == len(s.static.LogDirs) {
		s.fail(fmt.Errorf("log.dirs: every directory has failed, the last one %s: %w", dir, err))
		return
	}
	s.reportLostLogs()
}

// diskSpaceFreed makes the controller repeat the requests that failed while a directory was full.
func (s *Server) diskSpaceFreed(string) {
	select {
	case <-s.built:
		s.replicas.SpaceFreed()
	case <-s.ctx.Done():
	}
}

// reportLostLogs makes the controller find out which partitions are lost.
func (s *Server) reportLostLogs() {
	if err := s.zk.NotifyLogDirFailure(s.ctx, s.id); err != nil && s.ctx.Err() == nil {
		s.log.WithError(err).Error("cannot notify the controller of a failed log directory")
	}
}
