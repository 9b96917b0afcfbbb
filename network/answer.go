package network

import (
	"context"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Response is the body of an answer. Every kmsg.Response is one.
type Response interface {
	AppendTo(dst []byte) []byte
}

// PartsResponse is a Response that is sent in parts, some of which are ranges of files.
type PartsResponse interface {
	Response
	// AppendParts adds the body to out. The file ranges then belong to out, which closes them after they have been sent
	// or dropped.
	AppendParts(out *Out)
}

// Answer is the part of a request's handling that remains after its first half. The zero Answer sends nothing.
type Answer struct {
	ready Response
	later func(context.Context) Response
	hang  bool
}

// Ready returns an Answer whose response is complete.
func Ready(r Response) Answer { return Answer{ready: r} }

// Later returns an Answer that may block; f runs when its turn comes. The context ends with the connection. A nil
// Response sends nothing.
func Later(f func(context.Context) Response) Answer { return Answer{later: f} }

// HangUp returns an Answer that closes the connection, which is how Produce with acks=0 reports an error.
func HangUp() Answer { return Answer{hang: true} }

// Then returns the Answer with f called on its response before that is sent. f is not called if nothing is sent.
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

// Wait returns the response, waiting for it if necessary.
func (a Answer) Wait(ctx context.Context) Response {
	if a.later != nil {
		return a.later(ctx)
	}
	return a.ready
}

// FileRange is a range of bytes in an open file. Close releases the file.
type FileRange interface {
	// Fd returns the file's descriptor, valid until Close.
	Fd() uintptr
	// Range returns the position of the first byte and the size in bytes.
	Range() (position, size int64)
	Close()
}

// Out collects encoded answers until they are written: bytes, with file ranges between them.
type Out struct {
	Buf    []byte
	files  []filePart
	sender sender
}

type filePart struct {
	at    int // index in Buf that the range comes before
	after FileRange
	size  int64
}

// maxCopied is the size in bytes up to which a file range is copied into the answer. For so few bytes, pread(2) costs
// less than sendfile(2) and the separate send(2) of what comes before the range. Buf does not outgrow what is kept.
const maxCopied = 16 << 10

// File adds a file range after the current content of Buf.
func (o *Out) File(r FileRange) {
	position, size := r.Range()
	if size <= maxCopied && int64(len(o.Buf))+size <= keepOutBytes/2 && o.copyFile(r.Fd(), position, int(size)) {
		r.Close()
		return
	}
	o.files = append(o.files, filePart{len(o.Buf), r, size})
}

// copyFile appends a file range to Buf. It reports whether all of it could be read.
func (o *Out) copyFile(fd uintptr, position int64, size int) bool {
	at := len(o.Buf)
	o.Buf = slices.Grow(o.Buf, size)
	for read := 0; read < size; {
		n, err := unix.Pread(int(fd), o.Buf[at+read:at+size], position+int64(read))
		if err != nil && err != unix.EINTR || err == nil && n == 0 {
			return false
		}
		read += max(n, 0)
	}
	o.Buf = o.Buf[:at+size]
	return true
}

// reset drops everything and closes the ranges.
func (o *Out) reset() {
	for i := range o.files {
		if o.files[i].after != nil {
			o.files[i].after.Close()
		}
		o.files[i] = filePart{}
	}
	o.Buf, o.files = o.Buf[:0], o.files[:0]
}

// appendAnswer adds a whole frame (size, response header, body) and returns its size in bytes.
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
