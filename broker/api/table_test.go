package api

import (
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"barnabas/broker/quota"
	"barnabas/config"
	"barnabas/internal/testlog"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func newHandlers(t *testing.T) *Handlers {
	t.Helper()
	cfg, err := config.Parse(map[string]string{"zookeeper.connect": "localhost:2181"})
	if err != nil {
		t.Fatal(err)
	}
	log := testlog.To(t)
	return New(Deps{Config: config.NewDynamic(cfg, log), Logger: log,
		Quotas: quota.NewManager(quota.Config{Now: time.Now})})
}

// TestVersionsAreThoseOfApacheKafka compares the table with the versions that Apache Kafka 3.9.2 offers.
func TestVersionsAreThoseOfApacheKafka(t *testing.T) {
	data, err := os.ReadFile("testdata/api_versions.tsv")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			want[strings.TrimSpace(line)] = true
		}
	}
	got := make(map[string]bool)
	for key, r := range newHandlers(t).rows {
		line := strings.Join([]string{itoa(key), itoa(r.min), itoa(r.max)}, "\t")
		got[line] = true
		if !want[line] {
			t.Errorf("%s: versions %d to %d are not those of Apache Kafka", kmsg.NameForKey(key), r.min, r.max)
		}
	}
	for line := range want {
		if !got[line] {
			t.Errorf("key, lowest and highest version %q are missing", line)
		}
	}
}

func itoa(n int16) string { return strconv.Itoa(int(n)) }

// TestEveryAPIIsServed: every API in the table has a handler, and only Envelope, which Apache Kafka's brokers offer but
// do not serve with ZooKeeper, closes the connection.
func TestEveryAPIIsServed(t *testing.T) {
	for key, r := range newHandlers(t).rows {
		closing := r.handle != nil && reflect.ValueOf(r.handle).Pointer() == reflect.ValueOf(handler(closeConnection)).Pointer()
		if r.handle == nil || closing != (kmsg.Key(key) == kmsg.Envelope) {
			t.Errorf("%s is offered but has no handler", kmsg.NameForKey(key))
		}
	}
}

// FuzzDecode feeds bytes to the decoder of every API and version.
func FuzzDecode(f *testing.F) {
	for key := range int16(70) {
		if req := kmsg.RequestForKey(key); req != nil {
			for v := range req.MaxVersion() + 1 {
				req.SetVersion(v)
				f.Add(key, v, network.LaidOut(req).AppendTo(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		req := kmsg.RequestForKey(key)
		if req == nil || version < 0 || version > req.MaxVersion() {
			return
		}
		req.SetVersion(version)
		if err := network.LaidOut(req).ReadFrom(body); err != nil {
			return
		}
		again := kmsg.RequestForKey(key)
		again.SetVersion(version)
		if err := network.LaidOut(again).ReadFrom(network.LaidOut(req).AppendTo(nil)); err != nil {
			t.Fatalf("%s v%d: what was encoded cannot be decoded: %v", kmsg.NameForKey(key), version, err)
		}
	})
}
