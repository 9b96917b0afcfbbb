package api

import (
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
	cfg, err := config.Parse(map[string]string{"zookeeper.connect": "z:2181", "broker.id": "0"})
	if err != nil {
		t.Fatal(err)
	}
	logger, lines := test.NewNullLogger()
	logger.SetOutput(io.Discard)
	log := logrus.NewEntry(logger)
	h := &Handlers{Deps: Deps{Metadata: metadata.NewCache(), Config: config.NewDynamic(cfg, log), Logger: log}, lines: logx.Sampler{Interval: time.Hour}}
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
