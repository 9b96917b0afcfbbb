package network

import (
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// bufferSize is that of the pooled read buffers: a few requests of the usual producer, whose batches have 16 KiB.
const bufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// input is the read side of a plaintext socket: a window [start, end) of unread bytes in buf.
// buf is nil while nothing is buffered, so that an idle connection costs no buffer.
type input struct {
	raw        syscall.RawConn
	buf        []byte
	pooled     *[bufferSize]byte
	start, end int
	err        error
	readable   func(fd uintptr) bool // in.onReadable, made once
}

func newInput(raw syscall.RawConn) *input {
	in := &input{raw: raw}
	in.readable = in.onReadable
	return in
}

func (in *input) unread() []byte { return in.buf[in.start:in.end] }

// fill waits for bytes and reads what there is, at least one byte.
func (in *input) fill() error {
	if in.start > 0 {
		if in.start == in.end {
			in.start, in.end = 0, 0
		} else if in.end == len(in.buf) {
			in.end = copy(in.buf, in.unread())
			in.start = 0
		}
	}
	in.err = nil
	if err := in.raw.Read(in.readable); err != nil {
		return err
	}
	return in.err
}

// onReadable reads once. The runtime calls it again when the socket is readable, if it returns false.
func (in *input) onReadable(fd uintptr) bool {
	if in.buf == nil {
		in.pooled = buffers.Get().(*[bufferSize]byte)
		in.buf = in.pooled[:]
	}
	for {
		n, err := unix.Read(int(fd), in.buf[in.end:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			if in.start == in.end {
				in.release()
			}
			return false
		case err != nil:
			in.err = err
		case n == 0:
			in.err = io.EOF
			if in.start != in.end {
				in.err = io.ErrUnexpectedEOF
			}
		default:
			in.end += n
		}
		return true
	}
}

// reserve makes room for size bytes from start on.
func (in *input) reserve(size int) {
	if in.start+size <= len(in.buf) {
		return
	}
	if size <= len(in.buf) {
		in.end = copy(in.buf, in.unread())
		in.start = 0
		return
	}
	grown := make([]byte, size)
	n := copy(grown, in.unread())
	in.release()
	in.buf, in.start, in.end = grown, 0, n
}

// consume drops n bytes; a buffer that was grown for one large request goes with it.
func (in *input) consume(n int) {
	in.start += n
	if in.start == in.end && in.pooled == nil {
		in.release()
	}
}

func (in *input) release() {
	if in.pooled != nil {
		buffers.Put(in.pooled)
	}
	in.buf, in.pooled, in.start, in.end = nil, nil, 0, 0
}

// writeOut sends everything that out holds and empties it.
func writeOut(c *net.TCPConn, raw syscall.RawConn, out *Out) error {
	defer out.reset()
	sent := 0
	for i := range out.files {
		f := &out.files[i]
		if err := sendMore(raw, out.Buf[sent:f.at]); err != nil {
			return err
		}
		sent = f.at
		position, size := f.after.Range()
		if err := sendFile(raw, f.after.Fd(), position, size); err != nil {
			return err
		}
		f.after.Close()
		f.after = nil
	}
	if sent == len(out.Buf) {
		return nil
	}
	_, err := c.Write(out.Buf[sent:])
	return err
}

// sendMore writes b and tells the kernel that more follows, so that it doesn't send a short packet.
func sendMore(raw syscall.RawConn, b []byte) error {
	var failed error
	err := raw.Write(func(fd uintptr) bool {
		for len(b) > 0 {
			n, err := unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_MORE)
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				return false
			case err != nil:
				failed = err
				return true
			default:
				b = b[n:]
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	return failed
}

// maxSendfile bounds one sendfile(2), so that a closed connection is noticed between calls.
const maxSendfile = 16 << 20

// sendFile sends size bytes of a file from a position on, without taking them through this process.
func sendFile(raw syscall.RawConn, file uintptr, position, size int64) error {
	var failed error
	err := raw.Write(func(fd uintptr) bool {
		for size > 0 {
			n, err := unix.Sendfile(int(fd), int(file), &position, int(min(size, maxSendfile)))
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				return false
			case err != nil:
				failed = err
				return true
			case n == 0:
				failed = io.ErrUnexpectedEOF // the file is shorter than the range
				return true
			default:
				size -= int64(n)
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	return failed
}
