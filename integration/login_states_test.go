package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// loginStatesFile contains what Apache Kafka 3.9.2 does with requests during a login. LOGIN_STATES=record records it
// again; this needs PEER.
const loginStatesFile = "testdata/login-states.txt"

// TestRequestsAmidALogin sends each request in each state of a login, and compares the result with Apache Kafka's: a
// response or none, and whether the connection remains open.
func TestRequestsAmidALogin(t *testing.T) {
	settings := []string{"listener.name.secure.plain.connections.max.reauth.ms=60000"}
	if os.Getenv("LOGIN_STATES") == "record" {
		got := loginStates(t, startGuardedPeer(t, 0, zookeeper(t), settings...))
		if err := os.WriteFile(loginStatesFile, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(loginStatesFile)
	if err != nil {
		t.Fatal(err)
	}
	got := loginStates(t, startGuarded(t, zookeeper(t), settings...))
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Error(diff)
	}
}

// loginState is a state, and the requests that bring a connection into it; the last login was more than a second ago.
type loginState struct {
	name  string
	steps []kmsg.Request
}

func loginStatesOf() []loginState {
	versions := kmsg.NewPtrApiVersionsRequest()
	hello, hello0, other := kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLHandshakeRequest()
	hello.Mechanism, hello.Version, hello0.Mechanism, other.Mechanism, other.Version = "PLAIN", 1, "PLAIN", "NOSUCH", 1
	login := kmsg.NewPtrSASLAuthenticateRequest()
	login.Version, login.SASLAuthBytes = 2, []byte("\x00alice\x00pw")
	return []loginState{
		{"new", nil},
		{"after ApiVersions", []kmsg.Request{versions}},
		{"after SaslHandshake v0", []kmsg.Request{hello0}},
		{"after SaslHandshake v1", []kmsg.Request{hello}},
		{"after SaslHandshake of an unknown mechanism", []kmsg.Request{other}},
		{"logged in", []kmsg.Request{hello, login}},
		{"logging in again", []kmsg.Request{hello, login, hello}},
		{"logged in again", []kmsg.Request{hello, login, hello, login}},
	}
}

// amidLogin returns requests that are out of place there, in their lowest and highest versions.
func amidLogin() []kmsg.Request {
	topic := "t"
	data := batch("value").MustBuild()
	metadata, produce, mute := kmsg.NewPtrMetadataRequest(), producing(9, topic, data), producing(9, topic, data)
	metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	mute.Acks = 0
	produce.TimeoutMillis, mute.TimeoutMillis = 100, 100
	hello, login, wrong := kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLAuthenticateRequest(), kmsg.NewPtrSASLAuthenticateRequest()
	hello.Mechanism, login.SASLAuthBytes, wrong.SASLAuthBytes = "PLAIN", []byte("\x00alice\x00pw"), []byte("\x00alice\x00no")
	fetch := fetching(11, topic, 0)
	fetch.MaxWaitMillis = 1
	group, commit := kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrOffsetCommitRequest()
	group.Group, group.MemberID, group.Generation = "g", "m", 1
	commit.Group, commit.Generation = "g", -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}}}
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.ValidateOnly, create.Topics = true, []kmsg.CreateTopicsRequestTopic{{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g"}
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}}}}
	return []kmsg.Request{kmsg.NewPtrApiVersionsRequest(), metadata, hello, login, wrong, produce, mute, fetch, group, commit,
		kmsg.NewPtrListGroupsRequest(), kmsg.NewPtrDescribeClusterRequest(), configs, create, find, offsets}
}

// versionsAmid returns the versions in which a request is sent.
func versionsAmid(req kmsg.Request) []int16 {
	switch req.Key() {
	case int16(kmsg.Produce):
		return []int16{3, 9}
	case int16(kmsg.Fetch):
		return []int16{4, 12}
	case int16(kmsg.ApiVersions):
		return []int16{0, 3, 99}
	case int16(kmsg.Metadata):
		return []int16{0, 12}
	case int16(kmsg.OffsetCommit):
		return []int16{2, 8}
	case int16(kmsg.DescribeConfigs), int16(kmsg.CreateTopics), int16(kmsg.FindCoordinator):
		return []int16{0, 4}
	case int16(kmsg.DescribeCluster):
		return []int16{0, 1}
	}
	return slices.Compact([]int16{0, min(req.MaxVersion(), 2)})
}

// requestsAmidLogin returns the requests in the versions in which they are sent.
func requestsAmidLogin() (all []kmsg.Request) {
	for i, req := range amidLogin() {
		for _, version := range versionsAmid(req) {
			sent := amidLogin()[i]
			sent.SetVersion(version)
			all = append(all, sent)
		}
	}
	return all
}

func loginStates(t *testing.T, g guarded) string {
	states, asked := loginStatesOf(), requestsAmidLogin()
	lines := make([][]string, len(states))
	var all errgroup.Group
	all.SetLimit(32) // they mostly wait
	for i, state := range states {
		lines[i] = make([]string, len(asked)) // before the first goroutine writes to it
		for j := range asked {
			all.Go(func() error {
				req := requestsAmidLogin()[j] // a copy of its own
				came := outcome(t, g.secure, state.name, req)
				lines[i][j] = fmt.Sprintf("%s v%d%s: %s\n", kmsg.NameForKey(req.Key()), req.GetVersion(), remark(req), came)
				return nil
			})
		}
	}
	_ = all.Wait()
	var b strings.Builder
	b.WriteString("# What Apache Kafka 3.9.2 does with requests amid a login. TestRequestsAmidALogin records it.\n")
	for i, state := range states {
		fmt.Fprintf(&b, "\n%s\n%s", state.name, strings.Join(lines[i], ""))
	}
	return b.String()
}

// remark distinguishes requests of one kind.
func remark(req kmsg.Request) string {
	switch q := req.(type) {
	case *kmsg.ProduceRequest:
		return fmt.Sprint(", acks ", q.Acks)
	case *kmsg.SASLAuthenticateRequest:
		return fmt.Sprintf(", %q", q.SASLAuthBytes)
	}
	return ""
}

// outcome brings a connection into a state and describes the result of a request there.
func outcome(t *testing.T, addr, state string, req kmsg.Request) string {
	w := dialWire(t, addr)
	defer func() { _ = w.conn.Close() }()
	all := loginStatesOf()
	steps := all[slices.IndexFunc(all, func(s loginState) bool { return s.name == state })].steps
	for i, step := range steps {
		if i == 2 {
			time.Sleep(1100 * time.Millisecond) // an earlier re-authentication would be refused
		}
		if _, err := request(w, step, time.Minute); err != nil {
			return "does not get there: " + err.Error()
		}
	}
	body, err := request(w, req, amidWait)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer"
	case err != nil:
		return "closed"
	}
	answer := amidAnswer(req, body, w.next)
	_ = w.conn.SetReadDeadline(time.Now().Add(amidWait))
	if _, err = w.frame(); !errors.Is(err, os.ErrDeadlineExceeded) {
		answer += ", closed"
	}
	return answer
}

// amidWait is how long a response is waited for, in addition to connection.failed.authentication.delay.ms.
const amidWait = 2 * time.Second

// request sends a request and reads the response.
func request(w *wire, req kmsg.Request, limit time.Duration) ([]byte, error) {
	w.next++
	if _, err := w.conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, req, w.next)); err != nil {
		return nil, err
	}
	_ = w.conn.SetReadDeadline(time.Now().Add(limit))
	return w.frame()
}

// amidAnswer formats a response without what is of no interest here.
func amidAnswer(req kmsg.Request, body []byte, correlation int32) string {
	if len(body) < 4 || int32(binary.BigEndian.Uint32(body)) != correlation {
		return fmt.Sprintf("bare %x", body)
	}
	body = body[4:]
	resp := req.ResponseKind()
	if req.Key() == int16(kmsg.ApiVersions) && req.GetVersion() > 4 {
		resp.SetVersion(0)
	} else if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return err.Error()
	}
	if v, is := resp.(*kmsg.ApiVersionsResponse); is {
		return fmt.Sprintf("error %d, %t", v.ErrorCode, len(v.ApiKeys) > 1)
	}
	return shown(reflect.ValueOf(resp), "")
}
