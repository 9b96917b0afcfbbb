package network

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSendFile sends a file with raw calls, and where there is no processor for them.
func TestSendFile(t *testing.T) {
	content := strings.Repeat("0123456789", 1<<17)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, processors := range []int{1, 2} {
		from, to := tcpPair(t)
		raw, err := from.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		calls := newRawCalls(processors)
		sent := make(chan error, 1)
		go func() {
			sent <- sendFile(raw, f.Fd(), 7, int64(len(content)-7), calls, func() {})
			_ = from.Close()
		}()
		got, err := io.ReadAll(to)
		if err := errors.Join(err, <-sent); err != nil || string(got) != content[7:] {
			t.Errorf("%d processors: %d bytes, %v", processors, len(got), err)
		}
		if n := calls.running.Load(); n != 0 {
			t.Errorf("%d processors: %d raw calls still count", processors, n)
		}
	}
}

func tcpPair(t *testing.T) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	from := dial(t, l.Addr().(*net.TCPAddr))
	to, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	return from, to
}

// TestInPageCache: what has just been written is in the page cache, if the file system tells, and nothing is beyond the
// end of the file.
func TestInPageCache(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(make([]byte, 100000)); err != nil {
		t.Fatal(err)
	}
	if tells := inPageCache(f.Fd(), 0); inPageCache(f.Fd(), 99999) != tells {
		t.Errorf("the first byte is in the page cache: %v; the last one is not the same", tells)
	}
	for _, position := range []int64{100000, 1 << 40} {
		if inPageCache(f.Fd(), position) {
			t.Errorf("byte %d of 100000 is in the page cache", position)
		}
	}
	if inPageCache(^uintptr(0), 0) {
		t.Error("a file that is not open is in the page cache")
	}
}

// TestRawCallsAreBounded: at most half of the processors are in raw calls.
func TestRawCallsAreBounded(t *testing.T) {
	for processors, most := range []int{0, 0, 1, 1, 2} {
		calls := newRawCalls(processors)
		begun := 0
		for range 10 {
			if calls.begin() {
				begun++
			}
		}
		if begun != most {
			t.Errorf("%d processors: %d raw calls", processors, begun)
		}
		for range begun {
			calls.end()
		}
		if n := calls.running.Load(); n != 0 {
			t.Errorf("%d processors: %d raw calls still count", processors, n)
		}
	}
}
