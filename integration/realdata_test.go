package integration

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/sarama"
)

// packageIndex returns Debian's package index, tens of megabytes of text: real data for a broker.
func packageIndex(t *testing.T) (path string, lines int) {
	t.Helper()
	need(t, "apt-cache", hasProgram("apt-cache"))
	data, err := exec.Command("apt-cache", "dumpavail").Output()
	need(t, "a package index (apt-get update)", err == nil && len(data) > 1<<20)
	if os.Getenv("FULL_INDEX") == "" { // all of it takes minutes, most of them for kafka-python
		data = data[:min(len(data), 8<<20)]
		data = data[:bytes.LastIndexByte(data, '\n')+1]
	}
	data = bytes.ReplaceAll(data, []byte("\n\n"), []byte("\n")) // kcat does not send empty lines
	path = filepath.Join(t.TempDir(), "index")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, bytes.Count(data, []byte{'\n'})
}

func digestOf(t *testing.T, data []byte) string {
	t.Helper()
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

func fileDigest(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return digestOf(t, data)
}

// tool runs one of our command-line tools with a file as input and returns its output.
func tool(t *testing.T, stdin string, args ...string) []byte {
	t.Helper()
	return pipe(t, stdin, exec.Command(brokerBinary(t), args...))
}

func pipe(t *testing.T, stdin string, cmd *exec.Cmd) []byte {
	t.Helper()
	if stdin != "" {
		in, err := os.Open(stdin)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = in.Close() }()
		cmd.Stdin = in
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	giveUp := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer giveUp.Stop()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return out
}

// writer fills a topic with one record per line; reader returns the lines of a topic.
type (
	writer func(t *testing.T, addr, topic, file string)
	reader func(t *testing.T, addr, topic string, lines int) []byte
)

const pythonProducer = `
import sys
from kafka import KafkaProducer
p = KafkaProducer(bootstrap_servers=sys.argv[1], linger_ms=50, batch_size=131072, acks=1)
for line in open(sys.argv[3], 'rb'):
    p.send(sys.argv[2], line[:-1])
p.flush()
`

const pythonConsumer = `
import sys
from kafka import KafkaConsumer, TopicPartition
c = KafkaConsumer(bootstrap_servers=sys.argv[1], enable_auto_commit=False, check_crcs=True)
tp = TopicPartition(sys.argv[2], 0)
c.assign([tp])
c.seek_to_beginning(tp)
end = c.end_offsets([tp])[tp]
out = sys.stdout.buffer
while c.position(tp) < end:
    for batch in c.poll(timeout_ms=1000).values():
        for r in batch:
            out.write(r.value + b'\n')
`

func writers() map[string]writer {
	w := map[string]writer{
		"console-producer": func(t *testing.T, addr, topic, file string) {
			tool(t, file, "console-producer", "--bootstrap-server", addr, "--topic", topic)
		},
		"sarama": saramaProduce,
		"kafka-python": func(t *testing.T, addr, topic, file string) {
			pipe(t, "", exec.Command("/usr/bin/python3", "-c", pythonProducer, addr, topic, file))
		},
		"Java console producer": func(t *testing.T, addr, topic, file string) {
			peerTool(t, file, "kafka.tools.ConsoleProducer", "--bootstrap-server", addr, "--topic", topic)
		},
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		w["kcat "+codec] = func(t *testing.T, addr, topic, file string) {
			pipe(t, file, exec.Command("kcat", "-P", "-b", addr, "-t", topic, "-p", "0", "-z", codec, "-X", "max.in.flight=1"))
		}
	}
	return w
}

func readers() map[string]reader {
	return map[string]reader{
		"console-consumer": func(t *testing.T, addr, topic string, lines int) []byte {
			return tool(t, "", "console-consumer", "--bootstrap-server", addr, "--topic", topic, "--partition", "0", "--offset", "earliest",
				"--max-messages", fmt.Sprint(lines))
		},
		"kcat": func(t *testing.T, addr, topic string, lines int) []byte {
			return pipe(t, "", exec.Command("kcat", "-C", "-b", addr, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"))
		},
		"sarama": saramaConsume,
		"kafka-python": func(t *testing.T, addr, topic string, lines int) []byte {
			return pipe(t, "", exec.Command("/usr/bin/python3", "-c", pythonConsumer, addr, topic))
		},
		"Java console consumer": func(t *testing.T, addr, topic string, lines int) []byte {
			return []byte(peerTool(t, "", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", addr, "--topic", topic,
				"--partition", "0", "--offset", "earliest", "--max-messages", fmt.Sprint(lines)))
		},
	}
}

func saramaConfig() *sarama.Config {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V3_3_0_0
	cfg.Producer.Return.Successes = true
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	cfg.Net.MaxOpenRequests = 1 // to keep the order
	return cfg
}

func saramaProduce(t *testing.T, addr, topic, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sarama.NewAsyncProducer([]string{addr}, saramaConfig())
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\n'})
	go func() {
		for _, line := range lines {
			p.Input() <- &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(line)}
		}
	}()
	for range lines {
		select {
		case <-p.Successes():
		case err := <-p.Errors():
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func saramaConsume(t *testing.T, addr, topic string, lines int) []byte {
	c, err := sarama.NewConsumer([]string{addr}, saramaConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	p, err := c.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	var out bytes.Buffer
	for range lines {
		select {
		case m := <-p.Messages():
			out.Write(m.Value)
			out.WriteByte('\n')
		case <-time.After(30 * time.Second):
			t.Fatal("no more records")
		}
	}
	return out.Bytes()
}

// TestRealDataThroughEveryClient writes a large real file with each client and reads it back with each of the others:
// the digest must be the same.
func TestRealDataThroughEveryClient(t *testing.T) {
	need(t, "kcat", hasProgram("kcat"))
	need(t, "python3-kafka", exec.Command("/usr/bin/python3", "-c", "import kafka").Run() == nil)
	file, lines := packageIndex(t)
	want := fileDigest(t, file)
	p := newProcess(t, 0, zookeeper(t))
	p.start()
	topics := make(map[string]string)
	for name, write := range writers() {
		if strings.HasPrefix(name, "Java") && os.Getenv("PEER") == "" {
			t.Logf("left out, for want of PEER: %s", name)
			continue
		}
		topic := "t-" + strings.ReplaceAll(name, " ", "-")
		topics[name] = topic
		began := time.Now()
		write(t, p.addr(), topic, file)
		t.Logf("%s wrote %d lines in %v", name, lines, time.Since(began).Round(time.Millisecond))
	}
	for name, read := range readers() {
		if strings.HasPrefix(name, "Java") && os.Getenv("PEER") == "" {
			t.Logf("left out, for want of PEER: %s", name)
			continue
		}
		for from, topic := range topics {
			if slow(name) && from != "console-producer" && from != "kcat gzip" {
				continue // Debian's kafka-python 2.0.2 does not support zstd
			}
			began := time.Now()
			if got := digestOf(t, read(t, p.addr(), topic, lines)); got != want {
				t.Errorf("%s does not read what %s has written", name, from)
			}
			t.Logf("%s read what %s wrote in %v", name, from, time.Since(began).Round(time.Millisecond))
		}
	}
	p.kill() // and again after a kill, from what was on disk
	p.start()
	for name, topic := range topics {
		if got := digestOf(t, readers()["kcat"](t, p.addr(), topic, lines)); got != want {
			t.Errorf("after a kill, what was read differs from what %s has written", name)
		}
	}
}

// slow reports whether a client reads fewer topics, to save time.
func slow(reader string) bool { return reader == "kafka-python" || strings.HasPrefix(reader, "Java") }
