package zkcoord

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// alicesToken is a node that Apache Kafka 3.9.2 has written.
const alicesToken = `{"issueTimestamp":1795961787841,"renewers":["User%3Abob"],"tokenRequester":"User%3Aalice","tokenId":"ZSTkj5CFRp6lW2KPbUgDTw",` +
	`"owner":"User%3Aalice","expiryTimestamp":1796048187841,"maxTimestamp":1796566587841,"version":3}`

func TestTokenNode(t *testing.T) {
	want := DelegationToken{ID: "ZSTkj5CFRp6lW2KPbUgDTw", Owner: "User:alice", Requester: "User:alice", Renewers: []string{"User:bob"},
		IssuedMs: 1795961787841, ExpiresMs: 1796048187841, MaxMs: 1796566587841}
	got, err := DecodeToken([]byte(alicesToken))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if text := string(encodeToken(got)); text != alicesToken {
		t.Errorf("encoded as %s", text)
	}
	want.Renewers = nil
	if text := string(encodeToken(want)); !cmp.Equal(text, `{"issueTimestamp":1795961787841,"renewers":[],"tokenRequester":"User%3Aalice","tokenId":"ZSTkj5CFRp6lW2KPbUgDTw",`+
		`"owner":"User%3Aalice","expiryTimestamp":1796048187841,"maxTimestamp":1796566587841,"version":3}`) {
		t.Errorf("without renewers it is encoded as %s", text)
	}
	old, err := DecodeToken([]byte(`{"version":1,"owner":"User%3Aa%2Cb","renewers":[],"issueTimestamp":1,"expiryTimestamp":2,"maxTimestamp":3,"tokenId":"x"}`))
	if err != nil || old.Owner != "User:a,b" || old.Requester != old.Owner {
		t.Errorf("%+v, %v", old, err)
	}
	for _, bad := range []string{"", "{", `{"version":0}`, `{"version":4}`, `[]`} {
		if _, err := DecodeToken([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzDecodeToken(f *testing.F) {
	f.Add([]byte(alicesToken))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := DecodeToken(data)
		if err != nil {
			return
		}
		again, err := DecodeToken(encodeToken(first))
		if diff := cmp.Diff(first, again); err != nil || diff != "" {
			t.Error(err, diff)
		}
	})
}
