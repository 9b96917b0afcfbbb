package zkserver

// What clients send.

func appendConnectRequest(b []byte, c connectRequest) []byte {
	b = appendInt32(b, 0)
	b = appendInt64(b, c.lastZxid)
	b = appendInt32(b, c.timeoutMs)
	b = appendInt64(b, c.session)
	b = appendBuffer(b, c.password)
	if c.hasFlag {
		b = appendBool(b, c.readOnly)
	}
	return b
}

// appendRequest encodes a request, as a client does.
func appendRequest(b []byte, q request) []byte {
	b = appendInt32(b, q.xid)
	b = appendInt32(b, q.op)
	ops, ok := q.body.(multiBody)
	if !ok {
		return appendBody(b, q.op, q.body)
	}
	for _, op := range ops {
		b = appendMultiHeader(b, op.op, false, -1)
		b = appendBody(b, op.op, op.body)
	}
	return appendMultiHeader(b, opError, true, -1)
}

func appendBody(b []byte, op int32, body any) []byte {
	switch v := body.(type) {
	case createBody:
		return appendCreate(b, v)
	case createTTLBody:
		return appendInt64(appendCreate(b, v.createBody), v.ttlMs)
	case pathVersionBody:
		return appendInt32(appendText(b, v.path), v.version)
	case pathWatchBody:
		return appendBool(appendText(b, v.path), v.watch)
	case setDataBody:
		return appendInt32(appendBuffer(appendText(b, v.path), v.data), v.version)
	case pathBody:
		return appendText(b, v.path)
	case setACLBody:
		return appendInt32(appendACLs(appendText(b, v.path), v.acl), v.version)
	case authBody:
		return appendBuffer(appendText(appendInt32(b, v.kind), v.scheme), v.secret)
	case pathKindBody:
		return appendInt32(appendText(b, v.path), v.kind)
	case setWatchesBody:
		b = appendInt64(b, v.relativeZxid)
		b = appendTexts(appendTexts(appendTexts(b, v.data), v.exist), v.children)
		if op == opSetWatches2 {
			b = appendTexts(appendTexts(b, v.persistent), v.recursive)
		}
	}
	return b
}

func appendCreate(b []byte, c createBody) []byte {
	b = appendBuffer(appendText(b, c.path), c.data)
	return appendInt32(appendACLs(b, c.acl), c.flags)
}
