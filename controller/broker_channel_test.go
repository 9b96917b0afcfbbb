package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	"barnabas/internal/testlog"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answering is a Sender to brokers that answer at once.
type answering struct{}

func (answering) Send(_ context.Context, _ zkcoord.BrokerInfo, req kmsg.Request) (kmsg.Response, error) {
	return req.ResponseKind(), nil
}

// TestChannelsAreWatched: metrics learn of each request that is sent, and of the end.
func TestChannelsAreWatched(t *testing.T) {
	var told []string
	answered := make(chan struct{})
	ch := openBrokerChannel(answering{}, zkcoord.BrokerInfo{ID: 7}, testlog.Quiet(), func(kmsg.Request, kmsg.Response) { answered <- struct{}{} }, channelWatch{
		sent: func(broker int32, _ time.Duration) {
			if broker == 7 {
				told = append(told, "sent")
			}
		},
		ended: func(broker int32) {
			if broker == 7 {
				told = append(told, "ended")
			}
		},
	})
	for range 2 {
		ch.Send(kmsg.NewPtrUpdateMetadataRequest())
		<-answered
	}
	ch.Close()
	if !slices.Equal(told, []string{"sent", "sent", "ended"}) {
		t.Error(told)
	}
}
