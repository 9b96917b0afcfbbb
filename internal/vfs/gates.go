package vfs

import (
	"path/filepath"
	"sync"
)

// Gates is a file system that holds whoever opens a file in a directory that is shut, until it is opened again. So a test decides
// what is slow.
type Gates struct {
	FS

	mu struct {
		sync.Mutex
		shut map[string]chan struct{} // by directory
	}
}

// NewGates is a file system with all gates open.
func NewGates(fsys FS) *Gates {
	g := &Gates{FS: fsys}
	g.mu.shut = make(map[string]chan struct{})
	return g
}

// Shut holds who opens a file right in a directory, from now on.
func (g *Gates) Shut(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.shut[dir] == nil {
		g.mu.shut[dir] = make(chan struct{})
	}
}

// Open lets all of them go on. A directory that isn't shut is no error.
func (g *Gates) Open(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gate := g.mu.shut[dir]; gate != nil {
		close(gate)
		delete(g.mu.shut, dir)
	}
}

// OpenFile implements FS.
func (g *Gates) OpenFile(name string, flag int) (File, error) {
	g.mu.Lock()
	gate := g.mu.shut[filepath.Dir(name)]
	g.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return g.FS.OpenFile(name, flag)
}
