package zkcoord

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
)

// recorder records what is written to it.
type recorder struct {
	net.Conn
	written bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) { return r.written.Write(p) }

// TestWatchesAreSetFromWhatWasSeen: after a reconnection, watches are set again as of the zxid seen before the
// connection broke, not as of what the new connection has brought already.
func TestWatchesAreSetFromWhatWasSeen(t *testing.T) {
	framed := func(fields ...any) []byte {
		var body bytes.Buffer
		for _, f := range fields {
			if err := binary.Write(&body, binary.BigEndian, f); err != nil {
				t.Fatal(err)
			}
		}
		return append(binary.BigEndian.AppendUint32(nil, uint32(body.Len())), body.Bytes()...)
	}
	session := func(id, seen int64) []byte { return framed(int32(0), seen, int32(6000), id, int32(0), false) }
	watches := func(zxid int64) []byte {
		return framed(int32(7), int32(101), zxid, int32(1), int32(2), []byte("/a"), int32(0), int32(0))
	}
	other := framed(int32(7), int32(3), int64(99), false)
	for _, row := range []struct {
		name           string
		session, write []byte
		want           []byte
	}{
		{"what a response has raised", session(5, 10), watches(12), watches(10)},
		{"the same", session(5, 10), watches(10), watches(10)},
		{"a new session", session(0, 0), watches(12), watches(12)},
		{"another request", session(5, 10), other, other},
		{"a short one", session(5, 10), framed(int32(-2), int32(11)), framed(int32(-2), int32(11))},
	} {
		var r recorder
		c := &libraryConn{Conn: &r}
		given := bytes.Clone(row.write)
		for _, frame := range [][]byte{row.session, given} {
			if n, err := c.Write(frame); n != len(frame) || err != nil {
				t.Fatal(n, err)
			}
		}
		if want := append(bytes.Clone(row.session), row.want...); !bytes.Equal(r.written.Bytes(), want) || !bytes.Equal(given, row.write) {
			t.Errorf("%s: %x, want %x", row.name, r.written.Bytes(), want)
		}
	}
}
