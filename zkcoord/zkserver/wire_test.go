package zkserver

import (
	"bytes"
	"reflect"
	"testing"
)

func requests() []request {
	stat := pathWatchBody{"/a", true}
	create := createBody{"/a", []byte("x"), openACL, 3}
	return []request{
		{1, opCreate, create}, {2, opCreate2, create}, {3, opCreateTTL, createTTLBody{create, 5}}, {4, opDelete, pathVersionBody{"/a", -1}},
		{5, opExists, stat}, {6, opGetData, stat}, {7, opGetChildren, stat}, {8, opGetChildren2, stat},
		{9, opSetData, setDataBody{"/a", nil, 1}}, {10, opGetACL, pathBody{"/a"}}, {11, opSetACL, setACLBody{"/a", readACL, 1}},
		{-4, opAuth, authBody{0, "digest", []byte("a:b")}}, {-2, opPing, nil}, {12, opCloseSession, nil},
		{-8, opSetWatches, setWatchesBody{9, []string{"/a"}, []string{}, []string{"/b", "/c"}, nil, nil}},
		{-8, opSetWatches2, setWatchesBody{9, []string{"/a"}, []string{}, []string{}, []string{"/d"}, []string{"/e"}}},
		{13, opAddWatch, pathKindBody{"/a", 1}}, {14, opSync, pathBody{"/"}},
		{15, opMulti, multiBody{{opCreate, create}, {opCheck, pathVersionBody{"/a", 1}}, {opSetData, setDataBody{"/a", []byte{}, 1}}}},
		{16, opMulti, multiBody{}}, {17, 999, nil},
	}
}

func TestRequestsThereAndBack(t *testing.T) {
	for _, q := range requests() {
		got, err := decodeRequest(appendRequest(nil, q))
		if err != nil {
			t.Errorf("operation %d: %v", q.op, err)
		}
		if !reflect.DeepEqual(got, q) {
			t.Errorf("operation %d: got %#v, want %#v", q.op, got, q)
		}
	}
}

func TestCutRequests(t *testing.T) {
	for _, q := range requests() {
		frame := appendRequest(nil, q)
		for cut := range frame {
			if cut >= 8 && q.body == nil {
				break
			}
			if _, err := decodeRequest(frame[:cut]); err == nil {
				t.Errorf("operation %d was decoded from %d of %d bytes", q.op, cut, len(frame))
			}
		}
	}
}

func FuzzRequest(f *testing.F) {
	for _, q := range requests() {
		f.Add(appendRequest(nil, q))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		q, err := decodeRequest(frame)
		if err != nil {
			return
		}
		again, err := decodeRequest(appendRequest(nil, q))
		if err != nil || !bytes.Equal(appendRequest(nil, again), appendRequest(nil, q)) {
			t.Errorf("%#v: encoded and decoded it is %#v, %v", q, again, err)
		}
	})
}

func FuzzConnect(f *testing.F) {
	f.Add(appendConnectRequest(nil, connectRequest{1, 2, 3, []byte("password"), true, false}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		c, err := decodeConnect(frame)
		if err != nil {
			return
		}
		if again, err := decodeConnect(appendConnectRequest(nil, c)); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%#v: encoded and decoded it is %#v, %v", c, again, err)
		}
	})
}

func FuzzNode(f *testing.F) {
	f.Add(encodeNode(&node{data: []byte("x"), acl: openACL, czxid: 1, owner: 2}))
	f.Fuzz(func(t *testing.T, value []byte) {
		n, err := decodeNode(value)
		if err != nil {
			return
		}
		if again, err := decodeNode(encodeNode(n)); err != nil || !reflect.DeepEqual(again, n) {
			t.Errorf("%#v: encoded and decoded it is %#v, %v", n, again, err)
		}
	})
}
