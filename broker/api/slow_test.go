package api

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"barnabas/internal/logx"
	"barnabas/network"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestLinesOfRequestsAreSampled: many slow or failed requests cause one line of each kind, which names the client and
// the request.
func TestLinesOfRequestsAreSampled(t *testing.T) {
	var out bytes.Buffer
	log := logrus.New()
	log.SetOutput(&out)
	h := &Handlers{Deps: Deps{Logger: logrus.NewEntry(log)}, lines: logx.Sampler{Interval: time.Hour}}
	client := "c"
	c := &Call{Request: &network.Request{Key: int16(kmsg.Produce), Version: 9, ClientID: &client, Body: make([]byte, 7)}}
	h.logSlow(c, slowRequest-1)
	if out.Len() > 0 {
		t.Errorf("a request that is not slow was logged: %s", &out)
	}
	for range 100 {
		h.logSlow(c, 2*time.Second)
		h.codeOf(errors.New("disk on fire"))
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2 {
		t.Errorf("%d lines: %s", lines, &out)
	}
	for _, want := range []string{"slow request", "api=Produce", "version=9", "client=c", "took_ms=2000", "size_bytes=7", "disk on fire"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, &out)
		}
	}
}
