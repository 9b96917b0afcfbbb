package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Request is a request as received. Body and the bytes of ClientID are valid until Handle returns.
type Request struct {
	Conn        *Conn
	Key         int16
	Version     int16
	Correlation int32
	ClientID    *string
	Body        []byte
	Arrived     time.Time
}

// Route says how to read the requests of an API and how to answer them.
type Route struct {
	FlexibleRequest  bool // request header version 2: tagged fields
	FlexibleResponse bool // response header version 1
	Overlap          bool // later requests may be handled while this one's answer waits
	NoClientID       bool // request header version 0
	// Together, unless nil, does the first half of the work of one or more requests of one version that have arrived
	// together, in their order. It may leave the last ones, which are then handled later: it returns the answers of those
	// it has handled, at least one, or an error that is about the request after those. It is only for APIs with Overlap.
	Together func(ctx context.Context, requests []*Request) ([]Answer, error)
}

// Dispatcher knows the APIs. Its methods are called concurrently by many connections.
type Dispatcher interface {
	// Route says how to read a request; an error closes the connection.
	Route(c *Conn, key, version int16) (Route, error)
	// Handle does the first half of a request's work. An error closes the connection. The context ends when the
	// connection is closed.
	Handle(ctx context.Context, r *Request) (Answer, error)
	// Refuse answers a request that must not come during a login; why has the error code. The connection is closed
	// after the answer or, if Refuse returns an error, at once.
	Refuse(r *Request, why error) (Answer, error)
}

var errShort = errors.New("the request is truncated")

// parseHeader fills r from a frame, whose key and version it passes to route. Layout: int16 key, int16 version, int32
// correlation id, nullable string client id, tagged fields (v2).
func (r *Request) parseHeader(frame []byte, route func(key, version int16) (Route, error)) (Route, error) {
	if len(frame) < 8 {
		return Route{}, errShort
	}
	r.Key = int16(binary.BigEndian.Uint16(frame))
	r.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	r.Correlation = int32(binary.BigEndian.Uint32(frame[4:]))
	way, err := route(r.Key, r.Version)
	if err != nil {
		return way, err
	}
	rest := frame[8:]
	if !way.NoClientID {
		if rest, err = r.parseClientID(rest); err != nil {
			return way, err
		}
	}
	if way.FlexibleRequest {
		if rest, err = skipTags(rest); err != nil {
			return way, err
		}
	}
	r.Body = rest
	return way, nil
}

func (r *Request) parseClientID(b []byte) ([]byte, error) {
	if len(b) < 2 {
		return nil, errShort
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	switch {
	case n == -1:
		r.ClientID = nil
		return b, nil
	case n < -1 || n > len(b):
		return nil, errShort
	}
	// Clients send the same id in every request on a connection: keep the string.
	if r.ClientID == nil || *r.ClientID != string(b[:n]) {
		id := string(b[:n])
		r.ClientID = &id
	}
	return b[n:], nil
}

// skipTags skips a tagged field section (KIP-482): varint count, then varint tag, varint size, bytes.
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)) {
		return nil, errShort
	}
	b = b[n:]
	for range count {
		if _, n = binary.Uvarint(b); n <= 0 {
			return nil, errShort
		}
		b = b[n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, errShort
		}
		b = b[n+int(size):]
	}
	return b, nil
}

// sizeError reports a frame size that is not allowed here.
type sizeError struct {
	size, max int32
	setting   string // that limits it
}

func (e sizeError) Error() string {
	if e.size < 0 {
		return fmt.Sprintf("a request of negative size %d was announced", e.size)
	}
	return fmt.Sprintf("a request of %d bytes was announced, %s=%d", e.size, e.setting, e.max)
}

func (c *Conn) sizeError(size int32) error {
	if c.secure == nil && tlsToPlaintext(size) {
		return errTLSToPlaintext
	}
	setting := "socket.request.max.bytes"
	if c.frameMax != c.server.cfg.RequestMaxBytes {
		setting = "sasl.server.max.receive.size"
	}
	return sizeError{size, c.frameMax, setting}
}
