package logstore

import (
	"slices"
	"sync"
)

// Loading tells how far Open is, for who watches a start. The zero value is ready; its methods are safe for concurrent
// use, and on nil do nothing.
type Loading struct {
	mu   sync.Mutex // leaf; guards what follows
	dirs []DirLoading
}

// DirLoading is how far the loading of one of log.dirs is. A directory that is offline is not there.
type DirLoading struct {
	Dir           string
	Loaded, Total int  // logs
	Recovering    bool // the last stop was not clean: logs are checked, which takes longer
	Done          bool
}

// Dirs gives the directories in the order in which they began.
func (p *Loading) Dirs() []DirLoading {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.dirs)
}

// begin takes note of a directory. What it returns hears of each loaded log, and of the end.
func (p *Loading) begin(dir string, total int, recovering bool) (loaded, done func()) {
	if p == nil {
		return func() {}, func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := len(p.dirs)
	p.dirs = append(p.dirs, DirLoading{Dir: dir, Total: total, Recovering: recovering})
	change := func(f func(*DirLoading)) func() {
		return func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			f(&p.dirs[i])
		}
	}
	return change(func(d *DirLoading) { d.Loaded++ }), change(func(d *DirLoading) { d.Done = true })
}
