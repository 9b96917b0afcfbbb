package replica

// DirectoryFailed takes the partitions of a failed log directory out of service: they answer KAFKA_STORAGE_ERROR.
func (m *Manager) DirectoryFailed(dir string) {
	for _, p := range m.Partitions() {
		if copied, ok := m.cfg.Logs.Future(p.TP); ok && copied.Dir() == dir {
			m.dropMove(p)
		}
		if p.Log().Dir() == dir {
			m.takeOffline(p)
		}
	}
}

// takeOffline takes a partition out of service whose log is in a failed directory.
func (m *Manager) takeOffline(p *Partition) {
	m.fetchers.remove(p.TP)
	p.goOffline()
	m.cfg.LeadershipChanged(p.TP, p.State().LeaderEpoch, false)
}

// movedInto takes a partition out of service whose log was moved into a directory while that failed: DirectoryFailed
// may have looked before, and so may the controller.
func (m *Manager) movedInto(p *Partition) {
	m.takeOffline(p)
	m.cfg.StorageFailed()
}
