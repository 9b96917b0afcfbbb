package zkserver

import (
	"maps"
	"slices"
)

// WatchKind is what a watch waits for.
type WatchKind uint8

// The kinds. Data watches come from exists and getData, Children watches from getChildren; both end when they fire. The
// others stay: Persistent watches cover a node and its children, Recursive ones a node and everything below it, but not
// lists of children.
const (
	WatchData WatchKind = iota
	WatchChildren
	WatchPersistent
	WatchRecursive
	watchKinds
)

// Watches determines who is told about a change. W identifies a client. The zero value is ready to use; it is not safe
// for concurrent use.
type Watches[W comparable] struct {
	byPath   [watchKinds]map[string]map[W]struct{}
	byClient map[W]map[watchKey]struct{}
}

type watchKey struct {
	kind WatchKind
	path string
}

// Fired is an event for one client.
type Fired[W comparable] struct {
	Client W
	Kind   EventKind
	Path   string
}

// Add makes the client watch path.
func (w *Watches[W]) Add(kind WatchKind, path string, client W) {
	if w.byPath[kind] == nil {
		w.byPath[kind] = map[string]map[W]struct{}{}
	}
	if w.byPath[kind][path] == nil {
		w.byPath[kind][path] = map[W]struct{}{}
	}
	w.byPath[kind][path][client] = struct{}{}
	if w.byClient == nil {
		w.byClient = map[W]map[watchKey]struct{}{}
	}
	if w.byClient[client] == nil {
		w.byClient[client] = map[watchKey]struct{}{}
	}
	w.byClient[client][watchKey{kind, path}] = struct{}{}
}

// Has reports whether the client has such a watch.
func (w *Watches[W]) Has(kind WatchKind, path string, client W) bool {
	_, ok := w.byPath[kind][path][client]
	return ok
}

// Remove removes a watch and reports whether there was one.
func (w *Watches[W]) Remove(kind WatchKind, path string, client W) bool {
	if !w.Has(kind, path, client) {
		return false
	}
	delete(w.byPath[kind][path], client)
	if len(w.byPath[kind][path]) == 0 {
		delete(w.byPath[kind], path)
	}
	delete(w.byClient[client], watchKey{kind, path})
	if len(w.byClient[client]) == 0 {
		delete(w.byClient, client)
	}
	return true
}

// Forget removes all watches of a client.
func (w *Watches[W]) Forget(client W) {
	for key := range maps.Clone(w.byClient[client]) {
		w.Remove(key.kind, key.path, client)
	}
}

// Len returns the number of watches, and of watched paths.
func (w *Watches[W]) Len() (watches, paths int) {
	for _, keys := range w.byClient {
		watches += len(keys)
	}
	for _, byPath := range w.byPath {
		paths += len(byPath)
	}
	return watches, paths
}

// Fire returns the events of a change and removes the watches that fire only once. A client is told about a change of a
// path once, whatever it watches there.
func (w *Watches[W]) Fire(c Change) []Fired[W] {
	fired := w.fire(nil, c.Kind, c.Path, WatchData, WatchPersistent)
	if c.Kind == NodeDeleted {
		fired = w.fire(fired, c.Kind, c.Path, WatchChildren)
	}
	for path := c.Path; ; path = parentOf(path) {
		fired = w.tell(fired, w.byPath[WatchRecursive][path], c.Kind, c.Path)
		if path == "/" {
			break
		}
	}
	if c.Kind == NodeCreated || c.Kind == NodeDeleted {
		fired = w.fire(fired, NodeChildrenChanged, parentOf(c.Path), WatchChildren, WatchPersistent)
	}
	return fired
}

// fire notifies the clients that watch path in one of the ways.
func (w *Watches[W]) fire(fired []Fired[W], kind EventKind, path string, ways ...WatchKind) []Fired[W] {
	for _, way := range ways {
		clients := w.byPath[way][path]
		fired = w.tell(fired, clients, kind, path)
		if way == WatchPersistent {
			continue
		}
		for client := range maps.Clone(clients) {
			w.Remove(way, path, client)
		}
	}
	return fired
}

// tell adds an event for each client that has not got it yet.
func (w *Watches[W]) tell(fired []Fired[W], clients map[W]struct{}, kind EventKind, path string) []Fired[W] {
	for client := range clients {
		event := Fired[W]{client, kind, path}
		if !slices.Contains(fired, event) {
			fired = append(fired, event)
		}
	}
	return fired
}
