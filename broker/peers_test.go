package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/broker/metadata"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSetupTimeout(t *testing.T) {
	const first, longest = 10 * time.Second, 30 * time.Second
	for _, test := range []struct {
		failures int
		random   float64
		want     time.Duration
	}{{0, 0.5, first}, {1, 0.5, 20 * time.Second}, {2, 0.5, longest}, {100, 0.5, longest}, {0, 0, 8 * time.Second}, {0, 1, 12 * time.Second}} {
		if got := setupTimeout(first, longest, test.failures, test.random); got.Round(time.Millisecond) != test.want {
			t.Errorf("after %d failures, at %v: %v, want %v", test.failures, test.random, got, test.want)
		}
	}
	if got := setupTimeout(longest, first, 0, 0.5); got != longest {
		t.Errorf("a first timeout longer than the longest: %v", got)
	}
}

// TestFailuresAreForgotten: failures of addresses that are no longer tried are forgotten, others are kept.
func TestFailuresAreForgotten(t *testing.T) {
	f, now := make(failures), time.UnixMilli(1_790_000_000_000)
	for i := range 10000 {
		f.add(fmt.Sprint("gone:", i), now.Add(time.Duration(i)*time.Second))
		f.add("there:1", now.Add(time.Duration(i)*time.Second))
	}
	if most := int(forgetFailures/time.Second) + 2; len(f) > most {
		t.Errorf("%d addresses are kept, want %d at most", len(f), most)
	}
	if got := f["there:1"].times; got != 10000 {
		t.Errorf("%d failures are known, of 10000", got)
	}
}

// TestWhileItHolds: a request is given up when there is another controller, or the broker is gone.
func TestWhileItHolds(t *testing.T) {
	for name, test := range map[string]struct {
		holds func(*metadata.Snapshot) error
		want  error
	}{"controller": {isController(1), kerr.NotController}, "live broker": {isLive(1), kerr.BrokerNotAvailable}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := metadata.NewCache()
				from := func(controller int32, brokers ...int32) {
					req := &kmsg.UpdateMetadataRequest{Version: 8, ControllerID: controller}
					for _, id := range brokers {
						req.LiveBrokers = append(req.LiveBrokers, kmsg.UpdateMetadataRequestLiveBroker{ID: id})
					}
					m.Update(req)
				}
				from(1, 1, 2)
				ctx, end := whileItHolds(t.Context(), m, test.holds)
				defer end()
				from(1, 1)
				synctest.Wait()
				if ctx.Err() != nil {
					t.Error("given up although it still holds")
				}
				from(2, 2)
				synctest.Wait()
				if err := context.Cause(ctx); !errors.Is(err, test.want) {
					t.Errorf("afterwards: %v", err)
				}
				late, end := whileItHolds(t.Context(), m, test.holds)
				defer end()
				synctest.Wait()
				if late.Err() == nil {
					t.Error("begun although it did not hold any more")
				}
				from(1, 1)
				_, end = whileItHolds(t.Context(), m, test.holds)
				end() // leaves no goroutine behind, which synctest checks
			})
		})
	}
}
