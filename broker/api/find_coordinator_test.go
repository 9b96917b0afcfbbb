package api

import (
	"context"
	"io"
	"testing"
	"time"

	"barnabas/broker/metadata"
	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/network"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestInternalTopicThatCannotBeCreated: clients ask for a coordinator again and again, and for many at once. That must not
// fill the log.
func TestInternalTopicThatCannotBeCreated(t *testing.T) {
	h, lines := newFinder(t)
	for range 3 {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKeys = make([]string, 100)
		resp := h.findCoordinator(t.Context(), &Call{Request: &network.Request{Key: req.Key(), Version: 4}}, req).(*kmsg.FindCoordinatorResponse)
		for _, found := range resp.Coordinators {
			if found.ErrorCode != kerr.CoordinatorNotAvailable.Code {
				t.Fatalf("%+v", found)
			}
		}
	}
	if n := len(lines.AllEntries()); n != 1 {
		t.Errorf("%d lines are logged", n)
	}
}

// TestInternalTopicOfACancelledRequest: a broker that stops does not complain about topics that it can no longer create.
func TestInternalTopicOfACancelledRequest(t *testing.T) {
	h, lines := newFinder(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{"group"}
	resp := h.findCoordinator(ctx, &Call{Request: &network.Request{Key: req.Key(), Version: 4}}, req).(*kmsg.FindCoordinatorResponse)
	if code := resp.Coordinators[0].ErrorCode; code != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("code %d", code)
	}
	if got := lines.AllEntries(); len(got) != 0 {
		t.Errorf("it is logged: %s", got[0].Message)
	}
}

// newFinder returns the handlers of a broker that knows no other, and what they log.
func newFinder(t *testing.T) (*Handlers, *test.Hook) {
	t.Helper()
	cfg, err := config.Parse(map[string]string{"zookeeper.connect": "z:2181", "broker.id": "0"})
	if err != nil {
		t.Fatal(err)
	}
	logger, lines := test.NewNullLogger()
	logger.SetOutput(io.Discard)
	log := logrus.NewEntry(logger)
	return &Handlers{Deps: Deps{Metadata: metadata.NewCache(), Config: config.NewDynamic(cfg, log), Logger: log}, lines: logx.Sampler{Interval: time.Hour}}, lines
}
