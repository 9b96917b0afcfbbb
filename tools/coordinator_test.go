package tools

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/testport"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestPatienceEndsAmidAQuestion: the last error from a coordinator is reported rather than the timeout.
func TestPatienceEndsAmidAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		err := whileCoordinatorComes(t.Context(), coordinatorPatience, func(ctx context.Context) error {
			if asked++; asked == 1 {
				return kerr.CoordinatorNotAvailable
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, kerr.CoordinatorNotAvailable) {
			t.Errorf("error %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = whileCoordinatorComes(ctx, coordinatorPatience, func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
	})
}

// TestGroupsWaitNoLongerThanTimeout: --timeout bounds each request, also to a broker that is not there or does not
// answer. Scripts look at standard output, since the exit code is 0.
func TestGroupsWaitNoLongerThanTimeout(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for _, addr := range []string{testport.Address(t), silent.Addr().String()} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // before: a minute
		out := runTool(t, ctx, "", "kafka-consumer-groups", "--bootstrap-server", addr, "--list", "--timeout", "200")
		if ctx.Err() != nil || out.code != 0 || !strings.HasPrefix(out.stdout, "\nError: Executing consumer group command failed due to ") {
			t.Errorf("%v: exit code %d, %q, standard error %q", ctx.Err(), out.code, out.stdout, out.stderr)
		}
		cancel()
	}
}

// TestRequestsTimeOut: request.timeout.ms bounds the wait for each response, so that a tool asks again.
func TestRequestsTimeOut(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	ctx, enough := context.WithTimeout(t.Context(), 30*time.Second)
	defer enough()
	again := make(chan struct{})
	go func() {
		for range 2 {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
		close(again)
		enough()
	}()
	file := commandConfig(t, map[string]string{"request.timeout.ms": "100", "default.api.timeout.ms": "5000"})
	runTool(t, ctx, "", "kafka-topics", "--bootstrap-server", silent.Addr().String(), "--command-config", file, "--list")
	select {
	case <-again:
	default:
		t.Error("the broker was asked only once")
	}
}
