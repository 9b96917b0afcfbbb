package zkserver

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The protocol is a sequence of frames: a length of four bytes, big-endian, and that many bytes. A client's first frame
// is its connect request, answered with the session; each later one is a header (xid, operation) with the operation's
// body, answered with a header (xid, zxid, code) and, if the code is OK, the response's body. Events come between
// responses, with xid -1.
//
// Numbers are big-endian. Buffers, strings and lists begin with their length as four bytes; -1 is null.

// The operations.
const (
	opCreate               = 1
	opDelete               = 2
	opExists               = 3
	opGetData              = 4
	opSetData              = 5
	opGetACL               = 6
	opSetACL               = 7
	opGetChildren          = 8
	opSync                 = 9
	opPing                 = 11
	opGetChildren2         = 12
	opCheck                = 13
	opMulti                = 14
	opCreate2              = 15
	opReconfig             = 16
	opCheckWatches         = 17
	opRemoveWatches        = 18
	opCreateContainer      = 19
	opCreateTTL            = 21
	opMultiRead            = 22
	opAuth                 = 100
	opSetWatches           = 101
	opGetEphemerals        = 103
	opGetAllChildrenNumber = 104
	opSetWatches2          = 105
	opAddWatch             = 106
	opWhoAmI               = 107
	opCloseSession         = -11
	opError                = -1
)

// eventXid is the xid of events.
const eventXid = -1

// stateConnected is the state in events.
const stateConnected = 3

var errShort = errors.New("zkserver: a length goes past the end of the frame")

// reader decodes values from a frame; after an error it returns zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		if r.err == nil {
			r.err = errShort
		}
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) bool() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

// buffer returns bytes of the frame, nil for null.
func (r *reader) buffer() []byte {
	n := r.int32()
	if n == -1 {
		return nil
	}
	return r.take(int(n))
}

func (r *reader) text() string { return string(r.buffer()) }

// count decodes the length of a list whose elements take at least size bytes each.
func (r *reader) count(size int) int {
	n := r.int32()
	if n < 0 {
		return 0
	}
	if int(n) > len(r.b)/size {
		r.err = errShort
		return 0
	}
	return int(n)
}

func (r *reader) texts() []string {
	list := make([]string, r.count(4))
	for i := range list {
		list[i] = r.text()
	}
	return list
}

func (r *reader) acls() []ACL {
	list := make([]ACL, r.count(12))
	for i := range list {
		list[i] = ACL{Perms: Perms(r.int32()), ID: ID{r.text(), r.text()}}
	}
	return list
}

// Encoding.

func appendInt32(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }
func appendInt64(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendBuffer(b, data []byte) []byte {
	if data == nil {
		return appendInt32(b, -1)
	}
	return append(appendInt32(b, int32(len(data))), data...)
}

func appendText(b []byte, text string) []byte {
	return append(appendInt32(b, int32(len(text))), text...)
}

func appendTexts(b []byte, list []string) []byte {
	b = appendInt32(b, int32(len(list)))
	for _, text := range list {
		b = appendText(b, text)
	}
	return b
}

func appendACLs(b []byte, list []ACL) []byte {
	b = appendInt32(b, int32(len(list)))
	for _, a := range list {
		b = appendInt32(b, int32(a.Perms))
		b = appendText(b, a.Scheme)
		b = appendText(b, a.ID.ID)
	}
	return b
}

func appendStat(b []byte, s Stat) []byte {
	b = appendInt64(b, s.Czxid)
	b = appendInt64(b, s.Mzxid)
	b = appendInt64(b, s.CtimeMs)
	b = appendInt64(b, s.MtimeMs)
	b = appendInt32(b, s.Version)
	b = appendInt32(b, s.Cversion)
	b = appendInt32(b, s.Aversion)
	b = appendInt64(b, s.EphemeralOwner)
	b = appendInt32(b, s.DataLength)
	b = appendInt32(b, s.NumChildren)
	return appendInt64(b, s.Pzxid)
}

// connectRequest requests a new session, or an existing one by its id and password.
type connectRequest struct {
	lastZxid  int64
	timeoutMs int32
	session   int64
	password  []byte
	hasFlag   bool // clients since 3.4 say whether they accept a read-only server
	readOnly  bool
}

func decodeConnect(frame []byte) (connectRequest, error) {
	r := reader{b: frame}
	r.int32() // the version of the protocol, always 0
	c := connectRequest{lastZxid: r.int64(), timeoutMs: r.int32(), session: r.int64(), password: r.buffer()}
	if len(r.b) > 0 {
		c.hasFlag, c.readOnly = true, r.bool()
	}
	return c, r.err
}

// connectResponse returns the session; id 0 means that the requested one no longer exists.
type connectResponse struct {
	timeoutMs int32
	session   int64
	password  []byte
	hasFlag   bool // only for clients that sent it
}

func appendConnectResponse(b []byte, c connectResponse) []byte {
	b = appendInt32(b, 0)
	b = appendInt32(b, c.timeoutMs)
	b = appendInt64(b, c.session)
	b = appendBuffer(b, c.password)
	if c.hasFlag {
		b = appendBool(b, false)
	}
	return b
}

// request is a decoded request. Slices point into the frame.
type request struct {
	xid  int32
	op   int32
	body any // by operation; nil for those without one and for unknown ones
}

// The bodies.
type (
	createBody struct {
		path  string
		data  []byte
		acl   []ACL
		flags int32
	}
	createTTLBody struct {
		createBody
		ttlMs int64
	}
	pathBody        struct{ path string }
	pathVersionBody struct {
		path    string
		version int32
	}
	pathWatchBody struct {
		path  string
		watch bool
	}
	setDataBody struct {
		path    string
		data    []byte
		version int32
	}
	setACLBody struct {
		path    string
		acl     []ACL
		version int32
	}
	authBody struct {
		kind   int32
		scheme string
		secret []byte
	}
	setWatchesBody struct {
		relativeZxid                                 int64
		data, exist, children, persistent, recursive []string
	}
	pathKindBody struct { // of checkWatches, removeWatches and addWatch
		path string
		kind int32
	}
	multiBody []multiOp
	multiOp   struct {
		op   int32
		body any
	}
)

// decodeRequest decodes a request. An unknown operation is not an error here.
func decodeRequest(frame []byte) (request, error) {
	r := reader{b: frame}
	q := request{xid: r.int32(), op: r.int32()}
	if q.op == opMulti || q.op == opMultiRead {
		q.body = decodeMulti(&r)
	} else {
		q.body = decodeBody(&r, q.op)
	}
	return q, r.err
}

func decodeBody(r *reader, op int32) any {
	switch op {
	case opCreate, opCreate2, opCreateContainer:
		return decodeCreate(r)
	case opCreateTTL:
		return createTTLBody{decodeCreate(r), r.int64()}
	case opDelete, opCheck:
		return pathVersionBody{r.text(), r.int32()}
	case opExists, opGetData, opGetChildren, opGetChildren2:
		return pathWatchBody{r.text(), r.bool()}
	case opSetData:
		return setDataBody{r.text(), r.buffer(), r.int32()}
	case opGetACL, opSync, opGetEphemerals, opGetAllChildrenNumber:
		return pathBody{r.text()}
	case opSetACL:
		return setACLBody{r.text(), r.acls(), r.int32()}
	case opAuth:
		return authBody{r.int32(), r.text(), r.buffer()}
	case opSetWatches:
		return setWatchesBody{r.int64(), r.texts(), r.texts(), r.texts(), nil, nil}
	case opSetWatches2:
		return setWatchesBody{r.int64(), r.texts(), r.texts(), r.texts(), r.texts(), r.texts()}
	case opCheckWatches, opRemoveWatches, opAddWatch:
		return pathKindBody{r.text(), r.int32()}
	}
	return nil
}

func decodeCreate(r *reader) createBody {
	return createBody{r.text(), r.buffer(), r.acls(), r.int32()}
}

// decodeMulti decodes operations, each after a header of its own, up to the header that marks the end.
func decodeMulti(r *reader) multiBody {
	ops := multiBody{}
	for {
		op, done := r.int32(), r.bool()
		r.int32() // an error code, in responses
		if done || r.err != nil {
			return ops
		}
		body := decodeBody(r, op)
		if body == nil {
			r.err = fmt.Errorf("zkserver: operation %d in a multi", op)
			return ops
		}
		ops = append(ops, multiOp{op, body})
	}
}

func appendMultiHeader(b []byte, op int32, done bool, code Code) []byte {
	b = appendInt32(b, op)
	b = appendBool(b, done)
	return appendInt32(b, int32(code))
}
