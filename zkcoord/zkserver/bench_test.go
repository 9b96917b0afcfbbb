package zkserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
)

// BenchmarkCreate pipelines creates over one connection, as a controller does for a new topic.
func BenchmarkCreate(b *testing.B) {
	for _, disk := range []string{"memory", "bbolt/sync=off", "bbolt/sync=on"} {
		b.Run(disk, func(b *testing.B) {
			cfg := Config{NoSync: disk != "bbolt/sync=on"}
			if disk != "memory" {
				cfg.Dir = b.TempDir()
			}
			s := start(b, cfg)
			nc, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			in, out := bufio.NewReader(nc), bufio.NewWriter(nc)
			send := func(frame []byte) {
				out.Write(appendInt32(nil, int32(len(frame))))
				out.Write(frame)
			}
			receive := func() {
				head := make([]byte, 4)
				if _, err := io.ReadFull(in, head); err != nil {
					b.Error(err)
					return
				}
				io.CopyN(io.Discard, in, int64((&reader{b: head}).int32()))
			}
			send(appendConnectRequest(nil, connectRequest{timeoutMs: 30000}))
			out.Flush()
			receive()
			data := []byte(`{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}`)
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				for i := range b.N {
					send(appendRequest(nil, request{int32(i), opCreate, createBody{fmt.Sprintf("/n%d", i), data, openACL, 0}}))
				}
				out.Flush()
			}()
			for range b.N {
				receive()
			}
		})
	}
}

// BenchmarkOpen starts and stops a server.
func BenchmarkOpen(b *testing.B) {
	for _, disk := range []string{"memory", "bbolt/sync=on"} {
		b.Run(disk, func(b *testing.B) {
			for range b.N {
				cfg := Config{}
				if disk != "memory" {
					cfg.Dir = b.TempDir()
				}
				s, err := Open(cfg)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Listen("127.0.0.1:0"); err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
}
