package network

import (
	"context"
	"encoding/binary"
)

// Response is the body of an answer; every kmsg.Response is one.
type Response interface {
	AppendTo(dst []byte) []byte
}

// PartsResponse is a Response that is sent in parts, some of them ranges of files.
type PartsResponse interface {
	Response
	// AppendParts adds the body to out. Ownership of the file ranges goes to out,
	// which closes them after they have been sent or dropped.
	AppendParts(out *Out)
}

// Answer is what the first half of a request's handling leaves to be done.
// The zero Answer sends nothing.
type Answer struct {
	ready Response
	later func(context.Context) Response
	hang  bool
}

// Ready is an Answer whose response is complete.
func Ready(r Response) Answer { return Answer{ready: r} }

// Later is an Answer that may block; it runs when its turn comes. The context ends with the connection.
// A nil Response sends nothing.
func Later(f func(context.Context) Response) Answer { return Answer{later: f} }

// HangUp is an Answer that closes the connection: what a client of Produce with acks=0 gets for an error.
func HangUp() Answer { return Answer{hang: true} }

// Then is the Answer with f called on its response before that is sent. f is not called where nothing is sent.
func (a Answer) Then(f func(Response)) Answer {
	if a.ready != nil {
		f(a.ready)
	}
	if later := a.later; later != nil {
		a.later = func(ctx context.Context) Response {
			resp := later(ctx)
			if resp != nil {
				f(resp)
			}
			return resp
		}
	}
	return a
}

func (a Answer) waits() bool { return a.later != nil }

// Wait returns the response, waiting for it where it must.
func (a Answer) Wait(ctx context.Context) Response {
	if a.later != nil {
		return a.later(ctx)
	}
	return a.ready
}

// FileRange is a range of bytes of an open file. Close releases the file.
type FileRange interface {
	// Fd is the file's descriptor, valid until Close.
	Fd() uintptr
	// Range returns the position of the first byte and the size in bytes.
	Range() (position, size int64)
	Close()
}

// Out collects encoded answers until they are written: bytes, and ranges of files between them.
type Out struct {
	Buf   []byte
	files []filePart
}

type filePart struct {
	at    int // index in Buf that the range comes before
	after FileRange
	size  int64
}

// File adds a range of a file behind what Buf holds now.
func (o *Out) File(r FileRange) {
	_, size := r.Range()
	o.files = append(o.files, filePart{len(o.Buf), r, size})
}

// reset drops what is left, closing the ranges.
func (o *Out) reset() {
	for i := range o.files {
		if o.files[i].after != nil {
			o.files[i].after.Close()
		}
		o.files[i] = filePart{}
	}
	o.Buf, o.files = o.Buf[:0], o.files[:0]
}

// appendAnswer adds a whole frame: size, response header, body. It gives the frame's bytes.
func (o *Out) appendAnswer(correlation int32, flexible bool, r Response) int64 {
	start, firstFile := len(o.Buf), len(o.files)
	o.Buf = append(o.Buf, 0, 0, 0, 0)
	o.Buf = binary.BigEndian.AppendUint32(o.Buf, uint32(correlation))
	if flexible {
		o.Buf = append(o.Buf, 0) // no tagged fields
	}
	if p, ok := r.(PartsResponse); ok {
		p.AppendParts(o)
	} else {
		o.Buf = r.AppendTo(o.Buf)
	}
	size := int64(len(o.Buf) - start - 4)
	for _, f := range o.files[firstFile:] {
		size += f.size
	}
	binary.BigEndian.PutUint32(o.Buf[start:], uint32(size))
	return 4 + size
}
