package logstore

// DirInfo describes one of log.dirs.
type DirInfo struct {
	Path   string
	Online bool
	// Total and Usable are the size of the volume and its free space, in bytes; -1 if offline.
	Total, Usable int64
	// Refuses: clients' records are rejected, since there is too little room (log.dir.min.free.bytes).
	Refuses bool
	Logs    []LogInfo
}

// LogInfo describes a log in a directory.
type LogInfo struct {
	TopicPartition
	Size int64 // bytes
	// OffsetLag is the distance of the log end from the high watermark or, for a copy, from the end of the log.
	OffsetLag int64
	// Future: this is the copy of a log that is being moved to this directory.
	Future bool
}

// Dirs describes all of log.dirs, in their order.
func (m *Manager) Dirs() []DirInfo {
	infos := make([]DirInfo, 0, len(m.disks))
	for _, v := range m.disks {
		info := DirInfo{Path: v.path, Total: -1, Usable: -1}
		if !v.failed.Load() {
			total, usable, err := m.cfg.FS.Usage(v.path)
			if err = v.fail("ask for free space", err); err == nil {
				info.Online, info.Total, info.Usable, info.Refuses = true, total, usable, v.space.low.Load()
				info.Logs = m.describe(v)
			}
		}
		infos = append(infos, info)
	}
	return infos
}

func (m *Manager) describe(v *volume) []LogInfo {
	logs := m.logsIf(func(l *Log) bool { return l.disk == &v.disk })
	infos := make([]LogInfo, 0, len(logs))
	for _, l := range logs {
		infos = append(infos, LogInfo{l.tp, l.Size(), max(0, l.HighWatermark()-l.LogEndOffset()), false})
	}
	for _, f := range m.futuresOn(v) {
		if lag, ok := m.moveLag(f); ok {
			infos = append(infos, LogInfo{f.tp, f.Size(), lag, true})
		}
	}
	return append(infos, m.unloadedIn(v)...)
}

// FarthestMove returns the maximum lag in offsets of all copies of logs that are being moved.
func (m *Manager) FarthestMove() (lag int64) {
	for _, v := range m.disks {
		for _, f := range m.futuresOn(v) {
			if lacks, ok := m.moveLag(f); ok {
				lag = max(lag, lacks)
			}
		}
	}
	return lag
}

// moveLag returns the lag of a copy behind the log that it is to replace, which may be gone.
func (m *Manager) moveLag(copied *Log) (lag int64, ok bool) {
	l, ok := m.Log(copied.tp)
	if !ok {
		return 0, false
	}
	return max(0, l.LogEndOffset()-copied.LogEndOffset()), true
}
