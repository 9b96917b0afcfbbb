package network

import (
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watchPeer closes the connection if its peer does so before stop is called. It is for the reader while it waits for
// something else than requests: nobody else would notice.
func (c *Conn) watchPeer() (stop func()) {
	var watcher sync.WaitGroup
	watcher.Go(func() {
		gone := false
		_ = c.raw.Read(func(fd uintptr) bool { // called again after each change of what can be read
			gone = hungUp(int(fd))
			return gone
		})
		if gone {
			c.close(io.EOF)
		}
	})
	c.in.idle()
	return func() {
		c.in.busy()
		_ = c.tcp.SetReadDeadline(longAgo) // wakes the watcher
		watcher.Wait()
		_ = c.tcp.SetReadDeadline(time.Time{})
		if c.ctx.Err() != nil { // close may have set the deadline to end the reader
			_ = c.tcp.SetReadDeadline(longAgo)
		}
	}
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// hungUp reports whether the peer of a socket has closed the connection. What it has sent before may still be unread.
func hungUp(fd int) bool {
	state := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	for {
		_, err := unix.Poll(state, 0)
		if err != unix.EINTR {
			return err == nil && state[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
		}
	}
}
