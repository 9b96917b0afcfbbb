package integration

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"barnabas/kafkatest"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMessagesAreLaidOutAsInApacheKafka lets Apache Kafka read a request and a response of every API and version that
// our broker offers, filled with random values and encoded by us. It must read all the bytes, find the same values, and
// encode them to the same bytes.
func TestMessagesAreLaidOutAsInApacheKafka(t *testing.T) {
	var samples []layoutSample
	for _, api := range offered(t) {
		for version := api.MinVersion; version <= api.MaxVersion; version++ {
			samples = append(samples, sampleRequest(api.ApiKey, version), sampleResponse(api.ApiKey, version))
		}
	}
	for i, answer := range readByApacheKafka(t, samples) {
		samples[i].compare(t, answer)
	}
}

func offered(t *testing.T) []kmsg.ApiVersionsResponseApiKey {
	t.Helper()
	w := dialWire(t, kafkatest.Run(t).Addrs()[0])
	resp := w.call(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse)
	if len(resp.ApiKeys) < 50 {
		t.Fatalf("only %d APIs are offered", len(resp.ApiKeys))
	}
	return resp.ApiKeys
}

// layoutSample is an encoded message.
type layoutSample struct {
	key, version int16
	kind         string
	body         []byte
	values       []string // the values in it that differ from all others
}

// layoutDefaults are large numbers that are in no message: they are the defaults of fields that a version does not
// have.
var layoutDefaults = []string{"30000", strconv.Itoa(math.MaxInt32), strconv.Itoa(math.MaxInt64)}

func sampleRequest(key, version int16) layoutSample {
	req, read := kmsg.RequestForKey(key), kmsg.RequestForKey(key)
	fillLayout(reflect.ValueOf(req).Elem(), rand.New(rand.NewPCG(uint64(key), uint64(version))))
	if fetch, is := req.(*kmsg.FetchRequest); is {
		leaveOutLaterTags(fetch, version)
	}
	req.SetVersion(version)
	read.SetVersion(version)
	body := network.LaidOut(req).AppendTo(nil)
	_ = network.LaidOut(read).ReadFrom(body)
	return layoutSample{key, version, "request", body, distinctive(reflect.ValueOf(read).Elem())}
}

func sampleResponse(key, version int16) layoutSample {
	resp, read := kmsg.ResponseForKey(key), kmsg.ResponseForKey(key)
	fillLayout(reflect.ValueOf(resp).Elem(), rand.New(rand.NewPCG(uint64(key), uint64(version))))
	switch resp := resp.(type) { // see leaveOutLaterTags
	case *kmsg.ProduceResponse:
		if version < 10 {
			resp.Brokers = nil
			for _, topic := range resp.Topics {
				for i := range topic.Partitions {
					topic.Partitions[i].CurrentLeader = kmsg.NewProduceResponseTopicPartitionCurrentLeader()
				}
			}
		}
	case *kmsg.FetchResponse:
		if version < 16 {
			resp.Brokers = nil
		}
	}
	resp.SetVersion(version)
	read.SetVersion(version)
	body := resp.AppendTo(nil)
	_ = read.ReadFrom(body)
	return layoutSample{key, version, "response", body, distinctive(reflect.ValueOf(read).Elem())}
}

// leaveOutLaterTags clears fields whose tags were introduced after the first version with any tags: the wire library
// would encode them, and Apache Kafka accepts no message with a tag that its version does not have. Our code that fills
// them checks the version.
func leaveOutLaterTags(req *kmsg.FetchRequest, version int16) {
	if version < 15 {
		req.ReplicaState = kmsg.NewFetchRequestReplicaState()
	}
	for _, topic := range req.Topics {
		for i := range topic.Partitions {
			if version < 17 {
				topic.Partitions[i].ReplicaDirectoryID = [16]byte{}
			}
			if version < 18 {
				topic.Partitions[i].HighWatermark = kmsg.NewFetchRequestTopicPartition().HighWatermark
			}
		}
	}
}

// fillLayout gives every field a value: numbers of more than one byte and texts are all different.
func fillLayout(v reflect.Value, random *rand.Rand) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Int8:
		v.SetInt(1 + random.Int64N(100))
	case reflect.Int16:
		v.SetInt(10000 + random.Int64N(20000))
	case reflect.Int32:
		v.SetInt(1<<24 + random.Int64N(1<<30))
	case reflect.Int64:
		v.SetInt(1<<40 + random.Int64N(1<<60))
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(1000 + random.Uint64N(10000))
	case reflect.Float64:
		v.SetFloat(random.Float64())
	case reflect.String:
		v.SetString(fmt.Sprintf("text%016x", random.Uint64()))
	case reflect.Array, reflect.Struct:
		fillParts(v, random)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillLayout(v.Elem(), random)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillParts(v, random)
	case reflect.Uint8:
		v.SetUint(random.Uint64N(256))
	default:
		panic(v.Type())
	}
}

func fillParts(v reflect.Value, random *rand.Rand) {
	if v.Type() == reflect.TypeFor[kmsg.Tags]() {
		return
	}
	if v.Kind() != reflect.Struct {
		for i := range v.Len() {
			fillLayout(v.Index(i), random)
		}
		return
	}
	for i := range v.NumField() {
		fillLayout(v.Field(i), random)
	}
}

// distinctive lists the large numbers and the texts in a message, sorted.
func distinctive(v reflect.Value) []string {
	var values []string
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Int16, reflect.Int32, reflect.Int64:
			if v.Int() >= 10000 {
				values = append(values, strconv.FormatInt(v.Int(), 10))
			}
		case reflect.String:
			if v.String() != "" {
				values = append(values, v.String())
			}
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Array, reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		}
	}
	walk(v)
	return withoutDefaults(values)
}

func withoutDefaults(values []string) []string {
	values = slices.DeleteFunc(values, func(v string) bool { return slices.Contains(layoutDefaults, v) })
	slices.Sort(values)
	return values
}

// readByApacheKafka returns Apache Kafka's result for each sample: bytes left, bytes encoded again, values.
func readByApacheKafka(t *testing.T, samples []layoutSample) [][]string {
	t.Helper()
	classpath, err := exec.Command(peer(t), "classpath").Output()
	if err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	for _, s := range samples {
		_, _ = fmt.Fprintf(&in, "%d %s %d %x\n", s.key, s.kind, s.version, s.body)
	}
	cmd := exec.Command("java", "-cp", strings.TrimSpace(string(classpath)), "layouts/Layouts.java") //nolint:gosec // a test's own
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(samples) {
		t.Fatalf("%d results for %d messages", len(lines), len(samples))
	}
	var answers [][]string
	for _, l := range lines {
		answers = append(answers, strings.SplitN(l, "\t", 3))
	}
	return answers
}

var distinctiveValue = regexp.MustCompile(`=(\d{5,})\b|[\[ ](\d{5,})\b|(text[0-9a-f]{16})`)

func (s layoutSample) compare(t *testing.T, answer []string) {
	t.Helper()
	name := fmt.Sprintf("%s %s, version %d", kmsg.NameForKey(s.key), s.kind, s.version)
	left, again, said := answer[0], answer[1], answer[2]
	if left != "0" || again != hex.EncodeToString(s.body) {
		t.Errorf("%s: Apache Kafka has %s bytes left and encodes %s for %x: %s", name, left, again, s.body, said)
		return
	}
	var values []string
	for _, m := range distinctiveValue.FindAllStringSubmatch(said, -1) {
		values = append(values, m[1]+m[2]+m[3])
	}
	if values = withoutDefaults(values); !slices.Equal(values, s.values) {
		t.Errorf("%s: Apache Kafka decodes %v, want %v: %s", name, values, s.values, said)
	}
}
