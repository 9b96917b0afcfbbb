package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testport"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// The log of BenchmarkCatchUp, and how it is read.
const (
	catchUpPartitions = 6
	catchUpBatches    = 4000 // per partition
	catchUpRecords    = 16   // per batch
	catchUpBytes      = 1 << 20
	// fetchedHead is the size of a response to Fetch v11 for one partition of topic t, without the records; its last
	// four bytes contain their size.
	fetchedHead = 71
)

// BenchmarkCatchUp reads a log from the page cache, 1 MiB per request, and sends the next request as soon as a response
// begins: from the broker, and from a process that does nothing for the same requests but read(2) and sendfile(2) of
// the broker's own files. It must be the broker's files: a file that was written batch by batch is kept in smaller
// pieces by the page cache, which cost more to send, than one that was written at once. CPU is that of the serving
// process.
func BenchmarkCatchUp(b *testing.B) {
	p := newProcess(b, 1, zookeeper(b))
	p.start()
	batchBytes := fillForCatchUp(b, p.addr())
	addr, pid := startBare(b, p.logDir())
	for _, consumers := range []int{1, 6} {
		b.Run(fmt.Sprintf("bare/%d", consumers), func(b *testing.B) {
			benchmarkCatchUp(b, addr, pid, consumers, batchBytes, askBare(batchBytes))
		})
		b.Run(fmt.Sprintf("broker/%d", consumers), func(b *testing.B) {
			benchmarkCatchUp(b, p.addr(), p.cmd.Process.Pid, consumers, batchBytes, askBroker)
		})
	}
}

// ask encodes a request for the records of a partition from a batch on.
type ask func(partition, batch int) []byte

func askBroker(partition, batch int) []byte {
	req := fetching(11, "t", int64(batch*catchUpRecords))
	req.Topics[0].Partitions[0].Partition = int32(partition)
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
}

func askBare(batchBytes int) ask {
	return func(partition, batch int) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(partition)), uint64(batch*batchBytes))
	}
}

func fillForCatchUp(b *testing.B, addr string) (batchBytes int) {
	b.Helper()
	cl := newClient(b, kgo.SeedBrokers(addr))
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(b.Context(), catchUpPartitions, 1, nil, "t"); err != nil {
		b.Fatal(err)
	}
	w := record.NewBuilder()
	for range catchUpRecords {
		w.Add(1_790_000_000_000, nil, make([]byte, 1000))
	}
	data := w.MustBuild()
	var all sync.WaitGroup
	for partition := range int32(catchUpPartitions) {
		all.Go(func() {
			req := producing(8, "t", data)
			req.Topics[0].Partitions[0].Partition = partition
			to := dialWire(b, addr)
			for range catchUpBatches {
				if code := to.call(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
					b.Errorf("producing: error %d", code)
					return
				}
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return len(data)
}

func benchmarkCatchUp(b *testing.B, addr string, pid, consumers, batchBytes int, ask ask) {
	b.SetBytes(catchUpBytes)
	used := processSeconds(b, pid)
	b.ResetTimer()
	var all sync.WaitGroup
	for consumer := range consumers {
		all.Go(func() {
			c := catchUp{ask: ask, batchBytes: batchBytes, consumer: consumer, consumers: consumers}
			if err := c.read(addr, int64(b.N)*catchUpBytes/int64(consumers)); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	b.ReportMetric((processSeconds(b, pid)-used)*(1<<30)/(float64(b.N)*catchUpBytes), "cpu-s/GiB")
}

// catchUp is a consumer of every partition whose number, modulo the number of consumers, is its own.
type catchUp struct {
	ask                 ask
	batchBytes          int
	consumer, consumers int
	partition, batch    int
}

func (c *catchUp) read(addr string, want int64) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	c.partition = c.consumer
	if _, err := conn.Write(c.ask(c.partition, c.batch)); err != nil {
		return err
	}
	head := make([]byte, fetchedHead)
	for want > 0 {
		if _, err := io.ReadFull(conn, head); err != nil {
			return err
		}
		size := int(binary.BigEndian.Uint32(head[fetchedHead-4:]))
		if size < c.batchBytes || size > catchUpBytes {
			return fmt.Errorf("an answer with %d bytes of records", size)
		}
		want -= int64(size)
		c.advance(size / c.batchBytes)
		if want > 0 {
			if _, err := conn.Write(c.ask(c.partition, c.batch)); err != nil {
				return err
			}
		}
		if err := drop(raw, size); err != nil {
			return err
		}
	}
	return nil
}

// advance continues after the given number of whole batches, with the next partition after the last batch.
func (c *catchUp) advance(batches int) {
	if c.batch += batches; c.batch < catchUpBatches {
		return
	}
	if c.batch, c.partition = 0, c.partition+c.consumers; c.partition >= catchUpPartitions {
		c.partition = c.consumer
	}
}

// drop discards bytes in the kernel, so that the consumer itself costs little.
func drop(raw syscall.RawConn, size int) (err error) {
	waited := raw.Read(func(fd uintptr) bool {
		for size > 0 && err == nil {
			n, _, e := unix.Recvfrom(int(fd), nowhere[:size], unix.MSG_TRUNC|unix.MSG_DONTWAIT)
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
	})
	return errors.Join(waited, err)
}

// nowhere limits what one recvfrom(2) takes: with MSG_TRUNC nothing is copied.
var nowhere = make([]byte, catchUpBytes)

// startBare runs the bare server in a separate process.
func startBare(b *testing.B, logs string) (addr string, pid int) {
	b.Helper()
	port := testport.Reserve(b)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), bareServer+"="+strconv.Itoa(port)+" "+logs)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	addr = "127.0.0.1:" + strconv.Itoa(port)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return addr, cmd.Process.Pid
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
	}
}

// bareServer is the environment variable that makes this program the other process of BenchmarkCatchUp: a port, and a
// log directory.
const bareServer = "BENCHMARK_BARE_SERVER"

func TestMain(m *testing.M) {
	if port, logs, ok := strings.Cut(os.Getenv(bareServer), " "); ok {
		fmt.Fprintln(os.Stderr, serveAllBare(port, logs))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveAllBare serves until the process is killed.
func serveAllBare(port, logs string) error {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { _ = serveBare(conn, logs) }()
	}
}

func serveBare(conn net.Conn, logs string) error {
	defer func() { _ = conn.Close() }()
	var files [catchUpPartitions]*os.File
	for partition := range files {
		f, err := os.Open(filepath.Join(logs, fmt.Sprint("t-", partition), "00000000000000000000.log"))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		files[partition] = f
	}
	var asked [16]byte
	head := make([]byte, fetchedHead)
	for {
		if _, err := io.ReadFull(conn, asked[:]); err != nil {
			return err
		}
		f, position := files[binary.BigEndian.Uint64(asked[:])], int64(binary.BigEndian.Uint64(asked[8:]))
		end, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		size := min(end-position, catchUpBytes)
		binary.BigEndian.PutUint32(head[fetchedHead-4:], uint32(size))
		if _, err := conn.Write(head); err != nil {
			return err
		}
		if _, err := f.Seek(position, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(conn, f, size); err != nil { // by sendfile(2), since it copies from a file to a socket
			return err
		}
	}
}
