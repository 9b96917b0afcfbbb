package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"barnabas/broker/acl"
	"barnabas/broker/group"
	"barnabas/broker/metadata"
	"barnabas/broker/metrics"
	"barnabas/broker/quota"
	"barnabas/broker/replica"
	"barnabas/broker/token"
	"barnabas/broker/txn"
	"barnabas/config"
	"barnabas/internal/errcode"
	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/network"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Controller is what the handlers need of this broker's controller. Each method answers NOT_CONTROLLER if another
// broker is the controller.
type Controller interface {
	Active() bool
	AlterPartition(context.Context, *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse
	ControlledShutdown(context.Context, *kmsg.ControlledShutdownRequest) *kmsg.ControlledShutdownResponse
	ElectLeaders(context.Context, *kmsg.ElectLeadersRequest) *kmsg.ElectLeadersResponse
	AlterPartitionReassignments(context.Context, *kmsg.AlterPartitionAssignmentsRequest) *kmsg.AlterPartitionAssignmentsResponse
	ListPartitionReassignments(context.Context, *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse
	AllocateProducerIDs(context.Context, *kmsg.AllocateProducerIDsRequest) *kmsg.AllocateProducerIDsResponse
	UpdateFeatures(context.Context, *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse
}

// Deps are the parts that the handlers work with.
type Deps struct {
	BrokerID     int32
	ClusterID    string
	BrokerEpoch  func() int64
	Config       *config.Dynamic
	Loggers      *config.Loggers
	TopicConfig  func(topic string) *config.Topic // the current settings; never nil
	Metadata     *metadata.Cache
	Features     func() zkcoord.Features // the finalized ones
	Replicas     *replica.Manager
	Logs         *logstore.Manager
	ZK           *zkcoord.Client
	Controller   Controller
	ProducerIDs  *txn.ProducerIDs
	Transactions *txn.Coordinator
	Groups       *group.Coordinator
	Quotas       *quota.Manager
	Tokens       *token.Manager   // nil: delegation tokens are disabled
	Metrics      *metrics.Metrics // nil: no metrics
	Authorizer   *acl.Authorizer  // nil: no authorization
	// Ready is closed when clients may be answered. Until then they wait: a broker that does not know the cluster yet
	// would describe one without brokers, topics and controller.
	Ready <-chan struct{}
	// ReloadStores reopens changed keystores and truststores before settings of this broker are stored that leave their
	// names as they are. An error, which has a code, prevents the settings from being stored.
	ReloadStores func(next *config.Broker) error
	// TopicsDeleted is called with the partitions of topics that are being deleted.
	TopicsDeleted func([]logstore.TopicPartition)
	// ControllerSpoke is called with the controller epoch of each accepted UpdateMetadata.
	ControllerSpoke func(epoch int32)
	Logger          *logrus.Entry
	RequestLogger   *logrus.Entry // at DEBUG, a line for each request; may be nil
}

// Handlers answers the requests of all connections. It implements network.Dispatcher.
type Handlers struct {
	Deps
	rows      map[int16]*row
	authorize authorizer
	sessions  *fetchSessions
	lines     logx.Sampler // for log lines that requests cause
}

// New returns the handlers of a broker.
func New(d Deps) *Handlers {
	h := &Handlers{Deps: d, authorize: authorizer{d.Authorizer}, sessions: newFetchSessions(d.Config.Current().FetchSessionCacheSlots), lines: logx.Sampler{Interval: sampleInterval}}
	h.rows = h.table()
	return h
}

// Call is a request being handled, except for its body.
type Call struct {
	*network.Request
	wait     time.Duration // that quotas impose before the next request
	follower bool          // a Fetch from another broker
	// unanswered: a Produce with acks=0.
	unanswered bool
	// creating: a FindCoordinator for which the internal topic is being created.
	creating bool
}

// row is an API: its offered versions and its handler.
type row struct {
	offer
	flexible int16    // first version with tagged fields (KIP-482)
	together together // nil: one request after the other
}

// offer is an API with the versions offered.
type offer struct {
	key      kmsg.Key
	min, max int16
	overlap  bool // the next request may be handled while this one's answer waits
	handle   handler
}

type handler func(ctx context.Context, c *Call) (network.Answer, error)

// on makes a handler from a function that takes the decoded request.
func on[T any, P interface {
	*T
	kmsg.Request
}](f func(context.Context, *Call, P) network.Answer) handler {
	return func(ctx context.Context, c *Call) (network.Answer, error) {
		req := P(new(T))
		if err := decode(req, c); err != nil {
			return network.Answer{}, err
		}
		return f(ctx, c, req), nil
	}
}

// now makes a handler from a function that answers without waiting for other events.
func now[T any, P interface {
	*T
	kmsg.Request
}](f func(context.Context, *Call, P) kmsg.Response) handler {
	return on(func(ctx context.Context, c *Call, req P) network.Answer { return ready(c, f(ctx, c, req)) })
}

// ready returns a complete answer in the version of the request.
func ready(c *Call, resp kmsg.Response) network.Answer {
	resp.SetVersion(c.Version)
	return network.Ready(resp)
}

// decode decodes a body. It recovers from panics, as only Kerberos logins do besides: a decoder that fails on outside
// bytes must cost a connection, not the broker.
func decode(req kmsg.Request, c *Call) (err error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			err = fmt.Errorf("%s v%d cannot be read: %v", kmsg.NameForKey(c.Key), c.Version, trouble)
		}
	}()
	req.SetVersion(c.Version)
	if err := network.LaidOut(req).ReadFrom(c.Body); err != nil {
		return fmt.Errorf("%s v%d cannot be read: %w", kmsg.NameForKey(c.Key), c.Version, err)
	}
	return nil
}

// firstFlexible returns the first version of an API with tagged fields (KIP-482), according to the wire library.
func firstFlexible(o *offer) int16 {
	req := kmsg.RequestForKey(o.key.Int16())
	version := o.min
	for ; version <= o.max; version++ {
		if req.SetVersion(version); req.IsFlexible() {
			break
		}
	}
	return version
}

var (
	errUnknownAPI = errors.New("this API is not offered")
	errNotOffered = errors.New("this version is not offered")
)

// Route says how to read a request. Only ApiVersions is answered in versions that are not offered (KIP-511).
func (h *Handlers) Route(_ *network.Conn, key, version int16) (network.Route, error) {
	r := h.rows[key]
	if r == nil {
		return network.Route{}, errUnknownAPI
	}
	if key == int16(kmsg.ApiVersions) {
		return network.Route{FlexibleRequest: version >= 3}, nil // its response header is never flexible
	}
	if version < r.min || version > r.max {
		return network.Route{}, errNotOffered
	}
	f := version >= r.flexible
	route := network.Route{
		FlexibleRequest: f, FlexibleResponse: f, Overlap: r.overlap,
		NoClientID: key == int16(kmsg.ControlledShutdown) && version == 0,
	}
	if r.together != nil && !h.Quotas.Any(quota.Produce) && !h.Quotas.Any(quota.Request) { // otherwise a client may have to wait after each
		route.Together = r.together
	}
	return route, nil
}

// Handle does the first half of a request's work.
func (h *Handlers) Handle(ctx context.Context, r *network.Request) (network.Answer, error) {
	if err := h.awaitReady(ctx, r.Key); err != nil {
		return network.Answer{}, err
	}
	c := &Call{Request: r}
	began := time.Now()
	answer, err := h.rows[r.Key].handle(ctx, c)
	took := time.Since(began)
	return h.handled(c, answer, took, began.Add(took)), err
}

// handled is the end of the first half of a request's work, which took a time and is done at another. The time is
// without what it has waited for earlier requests of its connection.
func (h *Handlers) handled(c *Call, answer network.Answer, took time.Duration, done time.Time) network.Answer {
	h.logSlow(c, took)
	h.chargeTime(c, took)
	return h.logged(c, h.measured(c, c.throttled(answer), done))
}

// together is the type of network.Route.Together.
type together func(context.Context, []*network.Request) ([]network.Answer, error)

// handleTogether is Handle for the first ones of several requests that have arrived together: as many as it returns
// answers. Each counts with its part of the time.
func (h *Handlers) handleTogether(handle func(context.Context, []*Call) ([]network.Answer, error)) together {
	return func(ctx context.Context, requests []*network.Request) ([]network.Answer, error) {
		if err := h.awaitReady(ctx, requests[0].Key); err != nil {
			return nil, err
		}
		calls := make([]*Call, len(requests))
		for i, r := range requests {
			calls[i] = &Call{Request: r}
		}
		began := time.Now()
		answers, err := handle(ctx, calls)
		took := time.Since(began)
		for i := range answers {
			answers[i] = h.handled(calls[i], answers[i], took/time.Duration(len(answers)), began.Add(took))
		}
		return answers, err
	}
}

// awaitReady waits until clients may be answered. Brokers are answered at once, since they are what makes this one
// ready.
func (h *Handlers) awaitReady(ctx context.Context, key int16) error {
	select {
	case <-h.Ready:
		return nil
	default:
	}
	if betweenBrokers(key) || beforeLogin(key) {
		return nil
	}
	select {
	case <-h.Ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// codeOf returns the error's code, and logs an error without one, which would otherwise be lost, unless the request was
// cancelled.
func (h *Handlers) codeOf(err error) int16 {
	c := errcode.Of(err)
	if c == kerr.UnknownServerError.Code && !errors.Is(err, kerr.UnknownServerError) && !errors.Is(err, context.Canceled) {
		if line, ok := h.lines.Line("failed", h.Logger); ok {
			line.WithError(err).Error("a request failed unexpectedly")
		}
	}
	return c
}

// message returns an error's text for a response with a field for it, or nil if the error is only a code. The text of
// the code itself is left out: clients have their own.
func message(err error) *string {
	if _, bare := err.(*kerr.Error); bare || err == nil {
		return nil
	}
	text := err.Error()
	var k *kerr.Error
	if errors.As(err, &k) {
		text = strings.TrimSuffix(text, ": "+k.Error())
	}
	return &text
}

// codeOnly returns an error's code only, for responses in which Apache Kafka gives no text.
func codeOnly(err error) error {
	var k *kerr.Error
	if errors.As(err, &k) {
		return k
	}
	return err
}

// noMessage is the message in responses where Apache Kafka's is empty rather than null if there is no error.
func noMessage() *string { return new(string) }

// messageOrEmpty is message for responses where Apache Kafka's is empty rather than null if there is nothing to say.
func messageOrEmpty(err error) *string {
	if text := message(err); text != nil {
		return text
	}
	return noMessage()
}

// deref returns a text that may be null; null is empty.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// deadline returns when the request's timeout expires.
func (c *Call) deadline(timeoutMillis int32) time.Time {
	return c.Arrived.Add(time.Duration(timeoutMillis) * time.Millisecond)
}

// waiting returns a context that ends with the cause REQUEST_TIMED_OUT when the request's timeout expires.
func (c *Call) waiting(ctx context.Context, timeoutMillis int32) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(ctx, c.deadline(timeoutMillis), kerr.RequestTimedOut)
}

// noTopicID is the id of a topic that has none.
var noTopicID [16]byte

// partition finds a hosted partition, or returns the reason why there is none: UNKNOWN_TOPIC_OR_PARTITION if the
// cluster has no such partition, NOT_LEADER_OR_FOLLOWER if it is elsewhere or its log is still being loaded,
// KAFKA_STORAGE_ERROR if its directory has failed.
func (h *Handlers) partition(topic string, number int32) (*replica.Partition, error) {
	if p, ok := h.Replicas.Partition(logstore.TopicPartition{Topic: topic, Partition: number}); ok {
		return p, nil
	}
	if _, ok := h.Metadata.Current().Partition(topic, number); ok {
		return nil, fmt.Errorf("%s-%d is not hosted here: %w", topic, number, kerr.NotLeaderForPartition)
	}
	return nil, fmt.Errorf("%s-%d: %w", topic, number, kerr.UnknownTopicOrPartition)
}
