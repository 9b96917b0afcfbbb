package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/internal/javaprops"

	"github.com/google/go-cmp/cmp"
)

// base is a valid file.
var base = map[string]string{
	"zookeeper.connect": "localhost:2181",
	"broker.id":         "1",
	"listeners":         "PLAINTEXT://127.0.0.1:9092",
	"log.dirs":          "/data",
}

// over adds key=value pairs to base; -key= removes a key.
func over(pairs ...string) map[string]string {
	props := maps.Clone(base)
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		if name, out := strings.CutPrefix(key, "-"); out {
			delete(props, name)
			continue
		}
		props[key] = value
	}
	return props
}

func mustParse(t *testing.T, pairs ...string) *Broker {
	t.Helper()
	b, err := Parse(over(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStart compares errors and effects with those of Apache Kafka for about 90 files.
func TestStart(t *testing.T) {
	for _, row := range golden(t, "start.tsv") {
		t.Run(row[0], func(t *testing.T) {
			b, err := Parse(over(strings.Split(row[0], ";")...))
			if want := row[1]; want == "refused" {
				if err == nil {
					t.Fatal("accepted")
				}
				var e *Error
				if !errors.As(err, &e) || e.Key == "" || strings.Contains(err.Error(), "\n") {
					t.Fatalf("not one line that names a key: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, effect, ok := strings.Cut(row[1], ", ")
			if !ok {
				return
			}
			if got := effects(b, effect); got != effect {
				t.Errorf("got %s, want %s", got, effect)
			}
		})
	}
}

// effects returns the settings of b that the recorded effect is about, in the same form.
func effects(b *Broker, recorded string) string {
	switch subject, _, _ := strings.Cut(recorded, " "); subject {
	case "broker.id/node.id":
		return subject + " " + format(int64(b.BrokerID)) + "/" + format(int64(b.Int("node.id")))
	case "dirs":
		return subject + " " + strings.Join(b.LogDirs, ", ")
	case "advertised":
		list := make([]string, len(b.AdvertisedListeners))
		for i, l := range b.AdvertisedListeners {
			host := l.Host
			if host == "" {
				host = "<canonical host name>"
			}
			list[i] = l.Name + "://" + host + ":" + format(int64(l.Port)) + " (" + l.Protocol.String() + ")"
		}
		return subject + " " + strings.Join(list, ", ")
	}
	switch words := strings.Fields(recorded); words[1] {
	case "log.retention.ms":
		return "effective log.retention.ms " + format(b.LogRetention.Milliseconds())
	case "before.max.ms":
		topic, err := b.Topic(nil)
		if err != nil {
			return err.Error()
		}
		return "effective before.max.ms " + format(topic.TimestampBeforeMax.Milliseconds())
	case "zookeeper.connection.timeout.ms":
		return "effective zookeeper.connection.timeout.ms " + format(b.ZookeeperConnectionTimeout.Milliseconds())
	}
	return "effective " + b.InterBrokerProtocolVersion.String()
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct{ pair, want string }{
		{"log.segment.bytes=12", "config: log.segment.bytes=12: must be at least 14"},
		{"num.partitions=x", "config: num.partitions=x: not a number of the type INT"},
		{"compression.type=lzo", "config: compression.type=lzo: must be one of uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"listeners=PLAINTEXT://0.0.0.0:9092", "config: listeners=PLAINTEXT://0.0.0.0:9092: cannot advertise 0.0.0.0: no client can connect to it; set advertised.listeners"},
		{"-zookeeper.connect=", "config: zookeeper.connect: must be set"},
		{"log.retention.hours=0", "config: log.retention.hours=0: must be at least 1, or negative for no limit"},
	} {
		_, err := Parse(over(c.pair))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.pair, err, c.want)
		}
	}
}

func TestOldKeys(t *testing.T) {
	for _, c := range []struct {
		name             string
		pairs            []string
		listen, announce string
	}{
		{"port", []string{"port=7000"}, "PLAINTEXT://:7000", "PLAINTEXT://:7000"},
		{"host", []string{"host.name=h"}, "PLAINTEXT://h:9092", "PLAINTEXT://h:9092"},
		{"listeners win", []string{"listeners=PLAINTEXT://a:1", "port=7000"}, "PLAINTEXT://a:1", "PLAINTEXT://a:1"},
		{"advertised host", []string{"port=7000", "advertised.host.name=out"}, "PLAINTEXT://:7000", "PLAINTEXT://out:7000"},
		{"advertised port", []string{"listeners=PLAINTEXT://a:1", "advertised.port=2"}, "PLAINTEXT://a:1", "PLAINTEXT://a:2"},
		{"advertised listeners win", []string{"advertised.listeners=PLAINTEXT://b:3", "advertised.port=2"}, "PLAINTEXT://:9092", "PLAINTEXT://b:3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := mustParse(t, append([]string{"-listeners="}, c.pairs...)...)
			if got := b.Listeners[0].String(); got != c.listen {
				t.Errorf("listens on %s, want %s", got, c.listen)
			}
			if got := b.AdvertisedListeners[0].String(); got != c.announce {
				t.Errorf("advertises %s, want %s", got, c.announce)
			}
		})
	}
}

func TestTimesByUnit(t *testing.T) {
	for _, c := range []struct {
		pairs     string
		retention time.Duration
		roll      time.Duration
	}{
		{"", 168 * time.Hour, 168 * time.Hour},
		{"log.retention.hours=2;log.roll.hours=3", 2 * time.Hour, 3 * time.Hour},
		{"log.retention.hours=2;log.retention.minutes=5", 5 * time.Minute, 168 * time.Hour},
		{"log.retention.hours=2;log.retention.minutes=5;log.retention.ms=7", 7 * time.Millisecond, 168 * time.Hour},
		{"log.retention.hours=-1;log.roll.ms=9;log.roll.hours=1", -time.Millisecond, 9 * time.Millisecond},
	} {
		b := mustParse(t, strings.Split(c.pairs, ";")...)
		if b.LogRetention != c.retention || b.LogRoll != c.roll {
			t.Errorf("%s: retention %v roll %v, want %v %v", c.pairs, b.LogRetention, b.LogRoll, c.retention, c.roll)
		}
	}
}

func TestLookUp(t *testing.T) {
	b := mustParse(t, "super.users=User:a; User:b", "listener.name.plaintext.max.connections=5", "foo.bar=1", "num.partitions= 3 ")
	if diff := cmp.Diff([]string{"User:a", "User:b"}, b.SuperUsers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"foo.bar"}, b.Unknown()); diff != "" {
		t.Error(diff)
	}
	if b.Int("num.partitions") != 3 || b.String("foo.bar") != "1" || !b.Set("foo.bar") || b.Set("num.io.threads") {
		t.Error("look-up by name")
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown number must have no value")
		}
	}()
	b.Int("foo.bar")
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.properties")
	file := "# comment\n! comment\nbroker.id=0\nzookeeper.connect = h:1,\\\n    h:2/ch${x}root\nlisteners : PLAINTEXT\\://\\:9092\nlog.dirs /a\\u0062,/c\\ d\nnum.partitions=1\nnum.partitions=2\nrack\\q=1\n"
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Load(path, map[string]string{"broker.rack": "c", "broker.id": "9", "num.network.threads": "5"}, []string{"broker.rack=a=b", "num.io.threads=3"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{"connect": b.ZookeeperConnect, "dirs": b.LogDirs, "partitions": b.NumPartitions, "rack": b.Rack,
		"threads": b.Int("num.io.threads"), "listen": b.Listeners[0].String(), "unknown": b.Unknown(), "id": b.BrokerID, "default": b.Int("num.network.threads")}
	want := map[string]any{"connect": "h:1,h:2/ch${x}root", "dirs": []string{"/ab", "/c d"}, "partitions": 2, "rack": "a=b",
		"threads": 3, "listen": "PLAINTEXT://:9092", "unknown": []string{"rackq"}, "id": 0, "default": 5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Load(path+".missing", nil, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Load(path, nil, []string{"novalue"}); err == nil {
		t.Error("an override without a value was accepted")
	}
}

// FuzzProperties looks for files that cause a panic or invalid values.
func FuzzProperties(f *testing.F) {
	f.Add([]byte("broker.id=1\nzookeeper.connect=localhost\nlisteners=PLAINTEXT://[::1]:9092,SSL://:9093\n"))
	f.Add([]byte("a\\\n  b : c\\u00e9\\t\n#x\n!y\nlog.cleaner.io.max.bytes.per.second=1e400\n"))
	f.Add([]byte("zookeeper.connect=\nmax.connections.per.ip.overrides=::1:3,h:4\nlog.retention.ms=-9223372036854775808\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		props, err := javaprops.Parse(data)
		if err != nil {
			return
		}
		b, err := Parse(props)
		if err != nil {
			if strings.Contains(err.Error(), "\x00") {
				t.Errorf("cannot be printed: %q", err)
			}
			return
		}
		if len(b.Listeners) == 0 || len(b.LogDirs) == 0 || b.LogRetention == 0 {
			t.Errorf("accepted without a required setting: %q", data)
		}
		if _, err := b.Topic(nil); err != nil {
			t.Errorf("a topic without settings: %v", err)
		}
	})
}
