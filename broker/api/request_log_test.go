package api

import (
	"testing"
	"time"

	"barnabas/network"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRequestsAreLoggedAtDebug of the request logger alone, with who and what.
func TestRequestsAreLoggedAtDebug(t *testing.T) {
	log, lines := test.NewNullLogger()
	h := &Handlers{Deps: Deps{RequestLogger: logrus.NewEntry(log)}}
	client := "c"
	c := &Call{Request: &network.Request{Key: int16(kmsg.Metadata), Version: 9, ClientID: &client, Arrived: time.Now()}}
	answer := network.Ready(kmsg.NewPtrMetadataResponse())
	h.logged(c, answer)
	if n := len(lines.AllEntries()); n != 0 {
		t.Errorf("%d lines without DEBUG", n)
	}
	log.SetLevel(logrus.DebugLevel)
	h.logged(c, answer)
	entry := lines.LastEntry()
	if entry == nil || entry.Data["api"] != "Metadata" || entry.Data["version"] != int16(9) || entry.Data["client"] != "c" {
		t.Errorf("the line is %v", entry)
	}
}
