package replica

// FollowerEnds returns the log end offsets of the followers, by broker, as known to the leader; -1 if a follower has
// not fetched yet. There are none unless this broker is the leader.
func (p *Partition) FollowerEnds() map[int32]int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.mu.role != Leader {
		return nil
	}
	p.progress.Lock()
	defer p.progress.Unlock()
	ends := make(map[int32]int64, len(p.progress.of))
	for id, f := range p.progress.of {
		ends[id] = f.end
	}
	return ends
}
