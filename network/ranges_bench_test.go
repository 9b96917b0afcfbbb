package network

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The load of BenchmarkRanges: catch-up readers that ask for a range of a log, and for the next as soon as the
// answer begins.
const (
	rangeBytes  = 1 << 20
	rangedBytes = 128 << 20
	batchBytes  = 16300 // appended at once, as a producer's batches are
)

// BenchmarkRanges compares how ranges of a file leave through the server with the least that can be done for the same
// requests: a loop of read(2) and sendfile(2). The file is written as a log is, batch by batch, since the page cache
// keeps a file that was written in one go in larger pieces, which are cheaper to send. Reported are the CPU of both
// ends and the throughput.
func BenchmarkRanges(b *testing.B) {
	file := appended(b)
	for _, readers := range []int{1, 6} {
		b.Run(fmt.Sprintf("bare/%d", readers), func(b *testing.B) {
			benchmarkRanges(b, bareRanges(b, file), readers)
		})
		b.Run(fmt.Sprintf("server/%d", readers), func(b *testing.B) {
			s := NewServer(Config{RequestMaxBytes: 1 << 10}, &ranges{file: file}, quiet())
			addr, err := s.Bind(Listener{Name: "PLAINTEXT", Addr: "127.0.0.1:0"})
			if err != nil {
				b.Fatal(err)
			}
			s.Serve()
			b.Cleanup(s.Close)
			benchmarkRanges(b, addr, readers)
		})
	}
}

func benchmarkRanges(b *testing.B, addr *net.TCPAddr, readers int) {
	b.SetBytes(rangeBytes)
	before := cpuSeconds()
	b.ResetTimer()
	var wg sync.WaitGroup
	for reader := range readers {
		wg.Go(func() {
			if err := drainRanges(addr, b.N/readers+min(1, b.N%readers/(reader+1))); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.ReportMetric((cpuSeconds()-before)*(1<<30)/(float64(b.N)*rangeBytes), "cpu-s/GiB")
}

// drainRanges asks for that many ranges. What comes is dropped in the kernel, so that the reader costs little.
func drainRanges(addr *net.TCPAddr, count int) error {
	c, err := net.DialTCP("tcp", nil, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	ask := frame(echoFile, 0, 1, "")
	const head = 8 // size and correlation id
	for i := range count + 1 {
		if i > 0 {
			if err := drop(raw, head); err != nil {
				return err
			}
		}
		if i < count {
			if _, err := c.Write(ask); err != nil {
				return err
			}
		}
		if i > 0 {
			if err := drop(raw, rangeBytes); err != nil {
				return err
			}
		}
	}
	return nil
}

func drop(raw syscall.RawConn, size int) (err error) {
	if e := raw.Read(func(fd uintptr) bool {
		for size > 0 && err == nil {
			n, _, e := unix.Recvfrom(int(fd), nowhere[:min(size, len(nowhere))], unix.MSG_TRUNC|unix.MSG_DONTWAIT)
			switch {
			case e == unix.EAGAIN:
				return false
			case e == unix.EINTR:
			case e != nil:
				err = e
			case n == 0:
				err = io.ErrUnexpectedEOF
			default:
				size -= n
			}
		}
		return true
	}); e != nil {
		return e
	}
	return err
}

// nowhere only bounds what one recvfrom(2) takes: with MSG_TRUNC nothing is copied.
var nowhere = make([]byte, 1<<20)

// bareRanges answers every request with the next range, whatever it asks.
func bareRanges(b *testing.B, file *os.File) *net.TCPAddr {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			go serveBare(c, file)
		}
	}()
	return l.Addr().(*net.TCPAddr)
}

func serveBare(c *net.TCPConn, file *os.File) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	ask := make([]byte, len(frame(echoFile, 0, 1, "")))
	head := binary.BigEndian.AppendUint32(nil, 4+rangeBytes)
	head = append(head, 0, 0, 0, 1)
	for at := int64(0); ; at = (at + rangeBytes) % rangedBytes {
		if _, err := io.ReadFull(c, ask); err != nil {
			return
		}
		if send(raw, head, unix.MSG_MORE, func() {}) != nil || sendFile(raw, file.Fd(), at, rangeBytes, func() {}) != nil {
			return
		}
	}
}

// ranges is the server's side: each connection gets one range after the other.
type ranges struct {
	file *os.File
	next sync.Map // *Conn → where its next range begins
}

func (*ranges) Route(*Conn, int16, int16) (Route, error) { return Route{}, nil }

func (r *ranges) Handle(_ context.Context, req *Request) (Answer, error) {
	at, _ := r.next.LoadOrStore(req.Conn, new(int64))
	from := at.(*int64)
	answer := fileRange{r.file, *from}
	*from = (*from + rangeBytes) % rangedBytes
	return Ready(answer), nil
}

type fileRange struct {
	file *os.File
	from int64
}

func (f fileRange) AppendTo(b []byte) []byte { return b }
func (f fileRange) AppendParts(o *Out)       { o.File(f) }
func (f fileRange) Fd() uintptr              { return f.file.Fd() }
func (f fileRange) Range() (int64, int64)    { return f.from, rangeBytes }
func (f fileRange) Close()                   {}

// appended makes the file.
func appended(b *testing.B) *os.File {
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	batch := make([]byte, batchBytes)
	for n := 0; n < rangedBytes; n += batchBytes {
		if _, err := f.Write(batch); err != nil {
			b.Fatal(err)
		}
	}
	return f
}

func cpuSeconds() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
