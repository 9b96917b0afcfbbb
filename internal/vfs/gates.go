package vfs

import (
	"path/filepath"
	"sync"
)

// Gates is a file system that blocks opening files in directories that are shut, until they are opened again. With it a
// test decides what is slow.
type Gates struct {
	FS

	mu struct {
		sync.Mutex
		shut map[string]chan struct{} // by directory
	}
}

// NewGates returns a file system with no directory shut.
func NewGates(fsys FS) *Gates {
	g := &Gates{FS: fsys}
	g.mu.shut = make(map[string]chan struct{})
	return g
}

// Shut blocks every later attempt to open a file directly in a directory.
func (g *Gates) Shut(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.shut[dir] == nil {
		g.mu.shut[dir] = make(chan struct{})
	}
}

// Open lets them all proceed. It is not an error if the directory is not shut.
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
