package zkserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// The file zookeeper.db has three buckets:
//
//	nodes     path → node: acl, data, czxid, mzxid, pzxid, ctime, mtime (8 bytes each),
//	          version, created, aversion (4 each), owner (8); numbers and lists as in the protocol
//	sessions  id, 8 bytes big endian → timeout in ms, 4 bytes
//	meta      zxid → 8 bytes; secret → 16 bytes, from which passwords of sessions are made
const fileName = "zookeeper.db"

var (
	nodesBucket    = []byte("nodes")
	sessionsBucket = []byte("sessions")
	metaBucket     = []byte("meta")
	zxidKey        = []byte("zxid")
	secretKey      = []byte("secret")
)

// store is the file, or nothing for a server in memory.
type store struct {
	db *bbolt.DB // nil: in memory
}

// saved is the content of the file.
type saved struct {
	tree     *Tree
	sessions map[int64]time.Duration // timeouts
	secret   []byte
}

func openStore(dir string, noSync bool) (*store, *saved, error) {
	fresh := &saved{tree: NewTree(), sessions: map[int64]time.Duration{}, secret: newSecret()}
	if dir == "" {
		return &store{}, fresh, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("zkserver: %w", err)
	}
	path := filepath.Join(dir, fileName)
	db, err := bbolt.Open(path, 0o644, &bbolt.Options{Timeout: time.Second, NoSync: noSync, NoFreelistSync: true,
		FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, nil, fmt.Errorf("zkserver: %s is in use by another process", path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("zkserver: %s: %w", path, err)
	}
	s := &store{db: db}
	was, err := s.load(fresh)
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("zkserver: %s: %w", path, err)
	}
	return s, was, nil
}

func newSecret() []byte {
	secret := make([]byte, 16)
	rand.Read(secret) // never fails
	return secret
}

// load reads the file, or creates one with the state of a new server.
func (s *store) load(fresh *saved) (*saved, error) {
	was := &saved{tree: emptyTree(), sessions: map[int64]time.Duration{}}
	err := s.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return nil
		}
		was.secret = append([]byte{}, meta.Get(secretKey)...)
		was.tree.zxid = (&reader{b: meta.Get(zxidKey)}).int64()
		err := tx.Bucket(nodesBucket).ForEach(func(path, value []byte) error {
			n, err := decodeNode(value)
			if err != nil {
				return fmt.Errorf("znode %s: %w", path, err)
			}
			was.tree.link(string(path), n)
			return nil
		})
		if err != nil {
			return err
		}
		return tx.Bucket(sessionsBucket).ForEach(func(id, value []byte) error {
			timeout := time.Duration((&reader{b: value}).int32()) * time.Millisecond
			was.sessions[(&reader{b: id}).int64()] = timeout
			return nil
		})
	})
	if err != nil || was.secret != nil {
		return was, err
	}
	return fresh, s.create(fresh)
}

func (s *store) create(fresh *saved) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{nodesBucket, sessionsBucket, metaBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		if err := tx.Bucket(metaBucket).Put(secretKey, fresh.secret); err != nil {
			return err
		}
		return putNodes(tx, fresh.tree, fresh.tree.takeDirty())
	})
}

// batch is what has changed since the last commit.
type batch struct {
	opened map[int64]time.Duration // sessions and their timeouts
	closed map[int64]struct{}
}

// commit makes all changes durable, or none.
func (s *store) commit(tree *Tree, b batch) error {
	dirty := tree.takeDirty()
	if s.db == nil {
		return nil
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		sessions := tx.Bucket(sessionsBucket)
		for id, timeout := range b.opened {
			if err := sessions.Put(appendInt64(nil, id), appendInt32(nil, int32(timeout.Milliseconds()))); err != nil {
				return err
			}
		}
		for id := range b.closed {
			if err := sessions.Delete(appendInt64(nil, id)); err != nil {
				return err
			}
		}
		return putNodes(tx, tree, dirty)
	})
}

// putNodes writes the current nodes of the paths, in the order of the file.
func putNodes(tx *bbolt.Tx, tree *Tree, dirty map[string]struct{}) error {
	nodes := tx.Bucket(nodesBucket)
	for _, path := range slices.Sorted(maps.Keys(dirty)) {
		var err error
		if n := tree.nodes[path]; n != nil {
			err = nodes.Put([]byte(path), encodeNode(n))
		} else {
			err = nodes.Delete([]byte(path))
		}
		if err != nil {
			return err
		}
	}
	return tx.Bucket(metaBucket).Put(zxidKey, appendInt64(nil, tree.zxid))
}

func (s *store) close() error {
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}

func encodeNode(n *node) []byte {
	b := make([]byte, 0, len(n.data)+128)
	b = appendBuffer(appendACLs(b, n.acl), n.data)
	for _, v := range []int64{n.czxid, n.mzxid, n.pzxid, n.ctimeMs, n.mtimeMs} {
		b = appendInt64(b, v)
	}
	for _, v := range []int32{n.version, n.created, n.aversion} {
		b = appendInt32(b, v)
	}
	return appendInt64(b, n.owner)
}

// decodeNode decodes a node; nothing in it points into value.
func decodeNode(value []byte) (*node, error) {
	r := reader{b: value}
	n := &node{acl: r.acls()}
	if data := r.buffer(); data != nil {
		n.data = append([]byte{}, data...)
	}
	for _, v := range []*int64{&n.czxid, &n.mzxid, &n.pzxid, &n.ctimeMs, &n.mtimeMs} {
		*v = r.int64()
	}
	for _, v := range []*int32{&n.version, &n.created, &n.aversion} {
		*v = r.int32()
	}
	n.owner = r.int64()
	return n, r.err
}
