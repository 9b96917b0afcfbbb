package broker

import (
	"context"
	"fmt"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handOver asks the controller to move this broker's leaderships to others before it stops (with the retries and pauses
// of KIP-143). It gives up if ZooKeeper, to which the controller writes the changes, does not answer.
func (s *Server) handOver() {
	if !s.static.ControlledShutdown {
		return
	}
	s.replicas.StopFollowing()
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	s.tasks.Go(func() { s.cancelWithoutZooKeeper(ctx, cancel) })
	tries, pause := max(s.static.ControlledShutdownMaxRetries, 1), min(s.static.ControlledShutdownRetryBackoff, s.static.ControllerSocketTimeout)
	for try := 1; ; try++ {
		left, err := s.askToShutDown(ctx)
		if err == nil && left == 0 {
			return
		}
		if ctx.Err() != nil {
			s.log.WithError(context.Cause(ctx)).Warn("stopping without handing leaderships over, since ZooKeeper does not answer: other leaders are elected when this broker's session has expired")
			return
		}
		log := s.log.WithField(logx.Count, left)
		if err != nil {
			log = s.log.WithError(err)
		}
		if try == tries {
			log.Warn("stopping although not all leaderships were moved")
			return
		}
		log.Infof("the controller has not moved all leaderships yet, try %d of %d, %v until the next", try, tries, pause)
		await.Pause(ctx, pause)
	}
}

// longestSilence is how long ZooKeeper may be silent during the handover.
const longestSilence = 5 * time.Second

var errSilence = fmt.Errorf("ZooKeeper has not answered for %v", longestSilence)

// cancelWithoutZooKeeper cancels the context when ZooKeeper is unavailable, for whatever reason.
func (s *Server) cancelWithoutZooKeeper(ctx context.Context, cancel context.CancelCauseFunc) {
	const pause = time.Second // between checks
	for ctx.Err() == nil {
		ask, done := context.WithTimeoutCause(ctx, longestSilence, errSilence)
		err := s.zk.Answers(ask)
		done()
		if err != nil {
			cancel(err)
			return
		}
		await.Pause(ctx, pause)
	}
}

func (s *Server) askToShutDown(ctx context.Context) (left int, err error) {
	req := kmsg.NewPtrControlledShutdownRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = s.controlledShutdownVersion(), s.id, s.epoch.Load()
	ctx, cancel := context.WithTimeout(ctx, s.static.ControllerSocketTimeout)
	defer cancel()
	answer, err := s.peers.ToController(ctx, req)
	if err != nil {
		return 0, err
	}
	resp := answer.(*kmsg.ControlledShutdownResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, err
	}
	return len(resp.PartitionsRemaining), nil
}
