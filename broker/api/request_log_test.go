package api

import (
	"testing"
	"time"

	"barnabas/network"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRequestsAreLoggedAtDebug: each request is logged at DEBUG only, with a line that identifies the request and its
// client.
func TestRequestsAreLoggedAtDebug(t *testing.T) {
	log, lines := test.NewNullLogger()
	h := &Handlers{Deps: Deps{RequestLogger: logrus.NewEntry(log)}}
	client := "c"
	c := &Call{Request: &network.Request{Key: int16(kmsg.Metadata), Version: 9, Correlation: 41, ClientID: &client, Arrived: time.Now()}}
	answer := network.Ready(kmsg.NewPtrMetadataResponse())
	h.logged(c, answer)
	if n := len(lines.AllEntries()); n != 0 {
		t.Errorf("%d lines although the level is not DEBUG", n)
	}
	log.SetLevel(logrus.DebugLevel)
	h.logged(c, answer)
	entry := lines.LastEntry()
	if entry == nil {
		t.Fatal("no line at DEBUG")
	}
	for field, want := range map[string]any{"api": "Metadata", "version": int16(9), "correlation": int32(41), "client": "c"} {
		if got := entry.Data[field]; got != want {
			t.Errorf("field %s is %v, want %v", field, got, want)
		}
	}
}
