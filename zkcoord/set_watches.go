package zkcoord

import (
	"bytes"
	"encoding/binary"
)

// When a session goes on with another connection, the library sets its watches again from the last zxid that it has
// seen, so that the server reports what has changed since. It takes that zxid too late: a response on the new
// connection may have raised it, and then changes before it are never reported. The zxid in the request for the session
// is the right one.

// sessionRequest returns the last zxid that a client has seen, according to its request for a session, and whether
// that session exists already. Layout: length, protocol version (int32), last zxid (int64), timeout (int32), session id
// (int64), ...
func sessionRequest(frame []byte) (seen int64, continues bool) {
	const zxidAt, idAt = 8, 20
	if len(frame) < idAt+8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(frame[zxidAt:])), binary.BigEndian.Uint64(frame[idAt:]) != 0
}

// watchedFrom returns a request; if it sets watches from a later zxid, then from this one. Layout: length, xid (int32),
// operation (int32), zxid (int64), paths.
func watchedFrom(frame []byte, zxid int64) []byte {
	const operationAt, zxidAt, setWatches = 8, 12, 101
	if len(frame) < zxidAt+8 || binary.BigEndian.Uint32(frame[operationAt:]) != setWatches || int64(binary.BigEndian.Uint64(frame[zxidAt:])) <= zxid {
		return frame
	}
	corrected := bytes.Clone(frame)
	binary.BigEndian.PutUint64(corrected[zxidAt:], uint64(zxid))
	return corrected
}
