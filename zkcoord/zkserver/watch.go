package zkserver

import (
	"maps"
	"slices"
)

// WatchKind says what a watch waits for.
type WatchKind uint8

// The kinds. Data watches come from exists and getData, Children ones from getChildren; both
// end when they fire. The others stay: Persistent ones hear of the node and its children,
// Recursive ones of the node and of all below it, but not of lists of children.
const (
	WatchData WatchKind = iota
	WatchChildren
	WatchPersistent
	WatchRecursive
	watchKinds
)

// Watches says whom a change is told. W stands for a client. The zero value is ready; it is
// not safe for concurrent use.
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

// Add makes the client wait for a change of path.
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

// Has reports whether the client waits so.
func (w *Watches[W]) Has(kind WatchKind, path string, client W) bool {
	_, ok := w.byPath[kind][path][client]
	return ok
}

// Remove ends a watch and reports whether there was one.
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

// Forget ends all watches of a client.
func (w *Watches[W]) Forget(client W) {
	for key := range maps.Clone(w.byClient[client]) {
		w.Remove(key.kind, key.path, client)
	}
}

// Len is the number of watches, and of paths that are watched.
func (w *Watches[W]) Len() (watches, paths int) {
	for _, keys := range w.byClient {
		watches += len(keys)
	}
	for _, byPath := range w.byPath {
		paths += len(byPath)
	}
	return watches, paths
}

// Fire returns the events of a change and ends the watches that fire once. A client hears of
// one change of one path once, whatever it waits for there.
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

// fire tells those who watch path in one of the ways.
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
