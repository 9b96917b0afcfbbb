package network

import (
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// bufferSize is the usual size of read buffers: a few requests of a typical producer, whose batches are 16 KiB.
	bufferSize = 64 << 10
	// firstBufferSize is the size of a connection's first buffer: a client gets little until it has proved itself.
	firstBufferSize = 4 << 10
)

// bufferSizes are the sizes that are pooled. Larger buffers are allocated.
var bufferSizes = [...]int{firstBufferSize, bufferSize / 4, bufferSize, 4 * bufferSize, 16 * bufferSize, 64 * bufferSize}

// bufferPools pool read buffers by size. They are mere caches.
var bufferPools [len(bufferSizes)]sync.Pool

// buffer is a read buffer, and the pool that it returns to; class -1: none.
type buffer struct {
	bytes []byte
	class int
}

// pooledSize returns the size of the buffer that takeBuffer returns for size bytes.
func pooledSize(size int) int {
	for _, n := range bufferSizes {
		if size <= n {
			return n
		}
	}
	return size
}

// takeBuffer returns a buffer of at least size bytes.
func takeBuffer(size int) *buffer {
	for class, n := range bufferSizes {
		if size > n {
			continue
		}
		if b, ok := bufferPools[class].Get().(*buffer); ok {
			return b
		}
		return &buffer{make([]byte, n), class}
	}
	return &buffer{make([]byte, size), -1}
}

func (b *buffer) release() {
	if b.class >= 0 {
		bufferPools[b.class].Put(b)
	}
}

// input is the read side of a connection: a window [start, end) of unread bytes in a buffer. The buffer is nil while
// nothing is buffered, so that an idle connection holds none.
type input struct {
	raw        syscall.RawConn
	secure     *transport // nil: plaintext
	buf        *buffer
	start, end int
	least      int // smallest buffer to take
	usual      int // buffer size that the last requests needed
	err        error
	readable   func(fd uintptr) bool // the method value in.onReadable, created once
	yielder    *yielder              // the server's
	waits      bool                  // the reader is waiting, or has not begun: the yielder does not count it
}

// maxUsual bounds the buffer that a connection gets for its next request merely because the last ones were large.
const maxUsual = 16 * bufferSize

func newInput(raw syscall.RawConn, secure *transport, t *yielder) *input {
	in := &input{raw: raw, secure: secure, least: firstBufferSize, yielder: t, waits: true}
	in.readable = in.onReadable
	return in
}

func (in *input) unread() []byte {
	if in.buf == nil {
		return nil
	}
	return in.buf.bytes[in.start:in.end]
}

// fill waits for bytes and reads what is available, at least one byte.
func (in *input) fill() error {
	if in.start > 0 {
		if in.start == in.end {
			in.start, in.end = 0, 0
		} else if in.end == len(in.buf.bytes) {
			in.end = copy(in.buf.bytes, in.unread())
			in.start = 0
		}
	}
	in.yielder.yield()
	if in.secure != nil {
		in.idle()
		defer in.busy()
		return in.secure.fill(in)
	}
	in.err = nil
	if err := in.raw.Read(in.readable); err != nil {
		return err
	}
	return in.err
}

// onReadable reads once. If it returns false, the runtime calls it again when the socket is readable.
func (in *input) onReadable(fd uintptr) bool {
	if in.buf == nil {
		in.take()
	}
	for {
		n, err := receive(fd, in.buf.bytes[in.end:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			if in.start == in.end {
				in.release()
			}
			in.idle()
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
			in.busy()
		}
		return true
	}
}

// idle declares that the reader is about to wait or to return.
func (in *input) idle() {
	if !in.waits {
		in.waits = true
		in.yielder.end()
	}
}

// busy declares that the reader has work to do.
func (in *input) busy() {
	if in.waits {
		in.waits = false
		in.yielder.begin()
	}
}

// take gets a buffer of the size that the last requests needed.
func (in *input) take() {
	in.buf = takeBuffer(max(in.usual, in.least))
	in.usual = in.least
}

// useUsualBuffers allows buffers of the usual size from now on.
func (in *input) useUsualBuffers() { in.least = bufferSize }

// reserve makes room for size bytes from start on.
func (in *input) reserve(size int) {
	in.usual = max(in.usual, min(size, maxUsual))
	if in.start+size <= len(in.buf.bytes) {
		return
	}
	if size <= len(in.buf.bytes) {
		in.end = copy(in.buf.bytes, in.unread())
		in.start = 0
		return
	}
	grown := takeBuffer(max(size, in.least))
	n := copy(grown.bytes, in.unread())
	in.buf.release()
	in.buf, in.start, in.end = grown, 0, n
}

// consume drops n bytes.
func (in *input) consume(n int) { in.start += n }

func (in *input) release() {
	if in.buf != nil {
		in.buf.release()
	}
	in.buf, in.start, in.end = nil, 0, 0
}

// writeOut sends the content of out and empties it. alive is called for every part sent.
func writeOut(raw syscall.RawConn, out *Out, calls *rawCalls, alive func()) error {
	defer out.reset()
	sent := 0
	for i := range out.files {
		f := &out.files[i]
		if _, err := out.sender.send(raw, out.Buf[sent:f.at], unix.MSG_MORE, alive); err != nil {
			return err
		}
		sent = f.at
		position, size := f.after.Range()
		if err := sendFile(raw, f.after.Fd(), position, size, calls, alive); err != nil {
			return err
		}
		f.after.Close()
		f.after = nil
	}
	_, err := out.sender.send(raw, out.Buf[sent:], 0, alive)
	return err
}

// sender sends bytes on a socket. It can be used again, and then does not allocate. The zero value is ready to use.
type sender struct {
	rest     []byte // not sent yet
	flags    int
	alive    func()
	err      error
	writable func(fd uintptr) bool // the method value s.onWritable, created once
}

// send sends b and returns how many bytes were sent; alive is called for every part. The flag MSG_MORE tells the kernel
// that more follows, so that it does not send a short packet.
func (s *sender) send(raw syscall.RawConn, b []byte, flags int, alive func()) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if s.writable == nil {
		s.writable = s.onWritable
	}
	s.rest, s.flags, s.alive, s.err = b, flags, alive, nil
	err := raw.Write(s.writable)
	if err == nil {
		err = s.err
	}
	sent := len(b) - len(s.rest)
	s.rest, s.alive = nil, nil
	return sent, err
}

// onWritable sends what the socket takes. If it returns false, the runtime calls it again when the socket is writable.
func (s *sender) onWritable(fd uintptr) bool {
	for len(s.rest) > 0 {
		n, err := transmit(fd, s.rest, s.flags)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return false
		case err != nil:
			s.err = err
			return true
		default:
			s.rest = s.rest[n:]
			s.alive()
		}
	}
	return true
}
