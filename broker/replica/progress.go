package replica

// FollowerEnds gives what the leader knows of its followers' log ends, by broker; -1 where one has not fetched yet. On
// another broker than the leader there are none.
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
