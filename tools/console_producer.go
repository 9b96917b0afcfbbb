package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// producerOptions is the command line of kafka-console-producer.
type producerOptions struct {
	*options
	topic, reader        *string
	producerFile         *string
	readerFile           *string
	producerProps, props *[]string
	codec                *string
}

// producerNumbers are options that set the producer's settings under other names.
var producerNumbers = []struct{ option, setting, usage string }{
	{"message-send-max-retries", "retries", "`number` of retries for a record; without it, until delivery.timeout.ms"},
	{"request-timeout-ms", "request.timeout.ms", "`ms` that brokers have for a response"},
	{"retry-backoff-ms", "retry.backoff.ms", "`ms` to wait before a retry"},
	{"timeout", "linger.ms", "`ms` that a record may wait for its batch to fill (default 1000)"},
	{"max-memory-bytes", "buffer.memory", "`bytes` that may wait to be sent (default 33554432)"},
	{"max-block-ms", "max.block.ms", "`ms` to wait for the topic's metadata (default 60000)"},
	{"metadata-expiry-ms", "metadata.max.age.ms", "`ms` after which metadata is refreshed"},
	{"socket-buffer-size", "send.buffer.bytes", "accepted; the system sizes the buffers. `bytes`"},
	{"batch-size", "batch.size", "maximum size of a batch in `bytes`, except for a single larger record; without it, max.request.size"},
	{"max-partition-memory-bytes", "batch.size", "as --batch-size; `bytes`"},
}

func newProducerOptions() *producerOptions {
	o := &producerOptions{options: newOptions("kafka-console-producer", "write each line of standard input to a topic as a record.")}
	o.String("bootstrap-server", "", "brokers to connect to, `host:port,...` (required)")
	o.String("broker-list", "", "deprecated name of --bootstrap-server, `host:port,...`")
	o.topic = o.String("topic", "", "the `topic` to write to (required)")
	o.Bool("sync", false, "wait for each record's answer before the next")
	o.codec = o.String("compression-codec", "none", "none, gzip, snappy, lz4 or zstd: a `codec`")
	o.valueOptional("compression-codec", "gzip")
	o.String("request-required-acks", "-1", "-1 or all, 1, 0: the `acks` that make a record delivered")
	for _, n := range producerNumbers {
		o.Int64(n.option, 0, n.usage)
	}
	o.reader = o.String("line-reader", "org.apache.kafka.tools.LineMessageReader", "accepted for its default only; a `class`")
	o.props = o.StringArray("property", nil, "how lines are read, `name=value`; may be repeated. Names and defaults: parse.key=false,\n"+
		"key.separator=TAB, parse.headers=false, headers.delimiter=TAB, headers.separator=comma,\n"+
		"headers.key.separator=colon, ignore.error=false, null.marker (none).\n"+
		"A line with all of it: h1:v1,h2:v2 TAB key TAB value")
	o.readerFile = o.String("reader-config", "", "`file` with such properties")
	o.producerProps = o.StringArray("producer-property", nil, "a setting of the producer, `name=value`; may be repeated")
	o.producerFile = o.String("producer.config", "", "`file` of producer settings")
	return o
}

// bootstrapOf returns the value of --bootstrap-server, or of the old option.
func bootstrapOf(o *options) (string, error) {
	for _, name := range []string{"bootstrap-server", "broker-list"} {
		if o.has(name) {
			return o.Lookup(name).Value.String(), nil
		}
	}
	return "", usagef("missing required argument %q", "bootstrap-server")
}

// settings returns the producer's settings: options override properties, which override the file.
func (o *producerOptions) settings(env *Env) (properties, error) {
	p, err := readProperties(*o.producerFile)
	if err != nil {
		return nil, err
	}
	props, err := propertyArgs(*o.producerProps)
	if err != nil {
		return nil, err
	}
	p = p.with(props)
	bootstrap, err := bootstrapOf(o.options)
	if err != nil {
		return nil, err
	}
	p["bootstrap.servers"] = bootstrap
	for _, n := range producerNumbers {
		if o.has(n.option) {
			p[n.setting] = o.Lookup(n.option).Value.String()
		}
	}
	if _, ok := p["linger.ms"]; !ok && !env.Interactive { // interactive users expect each line to be sent at once
		p["linger.ms"] = "1000"
	}
	for option, setting := range map[string]string{"request-required-acks": "acks", "compression-codec": "compression.type"} {
		if o.has(option) {
			p[setting] = o.Lookup(option).Value.String()
		}
	}
	if _, ok := p["client.id"]; !ok {
		p["client.id"] = "console-producer"
	}
	return p, nil
}

func (o *producerOptions) format() (*lineFormat, error) {
	switch *o.reader {
	case "org.apache.kafka.tools.LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader":
	default:
		return nil, usagef("unknown line reader %s", *o.reader)
	}
	p, err := readProperties(*o.readerFile)
	if err != nil {
		return nil, err
	}
	props, err := propertyArgs(*o.props)
	if err != nil {
		return nil, err
	}
	return newLineFormat(p.with(props))
}

func consoleProducer(ctx context.Context, env *Env) error {
	o := newProducerOptions()
	if err := o.parse(env); err != nil {
		return err
	}
	if err := o.require("topic"); err != nil {
		return err
	}
	settings, err := o.settings(env)
	if err != nil {
		return err
	}
	format, err := o.format()
	if err != nil {
		return err
	}
	s, err := newSender(ctx, env, *o.topic, settings)
	if err != nil {
		return err
	}
	defer s.close()
	s.sync = o.has("sync")
	p := startProgress(sendProgressEnv(env), func(elapsed time.Duration) string {
		return rateLine("sent", s.delivered.Load(), s.bytes.Load(), elapsed)
	})
	err = s.sendLines(ctx, env.Stdin, format)
	p.close()
	return err
}

// sendProgressEnv disables the progress display if records are typed interactively.
func sendProgressEnv(env *Env) *Env {
	quiet := *env
	quiet.Terminal = env.Terminal && !env.Interactive
	return &quiet
}

// sender sends lines as records and counts the outcomes.
type sender struct {
	env   *Env
	plan  *producerPlan
	cl    *kgo.Client
	batch int         // bytes of the largest record that cl accepts
	large *kgo.Client // accepts larger ones; nil until there is one
	topic string
	sync  bool

	arena     []byte       // holds values until they are sent
	records   []kgo.Record // holds records
	delivered atomic.Int64
	failed    atomic.Int64
	bytes     atomic.Int64
	report    sync.Mutex // guards env.Stderr among promises
}

// newSender creates the producer. If batch.size is set, its batches are no larger.
func newSender(ctx context.Context, env *Env, topic string, p properties) (*sender, error) {
	plan, err := planProducer(ctx, env, topic, p)
	if err != nil {
		return nil, err
	}
	s := &sender{env: env, plan: plan, topic: topic, batch: math.MaxInt}
	limit := plan.largest
	if plan.batch > 0 && plan.batch < limit {
		limit = max(plan.batch, 2*batchOverhead)
		s.batch = int(limit) - batchOverhead
	}
	s.cl, err = plan.client(limit)
	return s, err
}

func (s *sender) close() {
	s.cl.Close()
	if s.large != nil {
		s.large.Close()
	}
}

const (
	arenaSize  = 1 << 20
	recordSlab = 256
	// reportedFailures bounds the number of records whose errors are printed; the rest is counted.
	reportedFailures = 10
)

// sendLines sends all lines. If ctx ends, what was read so far is still delivered, as by the original: only the line
// that was being read is lost.
func (s *sender) sendLines(ctx context.Context, in io.Reader, format *lineFormat) error {
	delivering, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		if refusal(ctx) != nil { // there is no hope
			abandon()
			return
		}
		s.tellWaiting()
	})
	defer func() {
		if !stop() {
			<-told
		}
	}()
	bad := s.sendAll(ctx, delivering, newLineScanner(in), format)
	if err := s.cl.Flush(delivering); err != nil && bad == nil {
		bad = fmt.Errorf("stopped with %d records in flight: %w", s.cl.BufferedProduceRecords(), err)
	}
	if err := cmp.Or(refusal(ctx), bad); err != nil {
		return err
	}
	if failed := s.failed.Load(); failed > 0 {
		return fmt.Errorf("%d of %d records could not be delivered", failed, failed+s.delivered.Load())
	}
	return nil
}

// tellWaiting tells whoever has interrupted the tool why it goes on, which may take delivery.timeout.ms.
func (s *sender) tellWaiting() {
	if n := s.cl.BufferedProduceRecords(); n > 0 {
		s.report.Lock()
		defer s.report.Unlock()
		s.env.errorf("interrupted, waiting for the delivery of %d records; interrupt again to discard them", n)
	}
}

// sendAll sends lines until their end or that of reading. delivering is the context of their delivery.
func (s *sender) sendAll(reading, delivering context.Context, lines *lineScanner, format *lineFormat) error {
	for number := int64(1); reading.Err() == nil; number++ {
		if s.env.Interactive {
			fmt.Fprint(s.env.Stderr, ">")
		}
		line, err := lines.next()
		if errors.Is(err, io.EOF) || reading.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		r := s.newRecord()
		if err := format.record(s.keep(line), number, r); err != nil {
			return err
		}
		if err := s.send(delivering, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) send(ctx context.Context, r *kgo.Record) error {
	switch {
	case len(r.Key)+len(r.Value) > s.batch:
		return s.sendAlone(ctx, r)
	case s.sync:
		s.promise(r, s.cl.ProduceSync(ctx, r).FirstErr())
	default:
		s.cl.Produce(ctx, r, s.promise)
	}
	return nil
}

// sendAlone sends a record that is larger than batch.size, after everything before it and before everything after it.
func (s *sender) sendAlone(ctx context.Context, r *kgo.Record) (err error) {
	if s.large == nil {
		if s.large, err = s.plan.client(s.plan.largest); err != nil {
			return err
		}
	}
	if err := s.cl.Flush(ctx); err != nil {
		return err
	}
	s.promise(r, s.large.ProduceSync(ctx, r).FirstErr())
	return nil
}

// keep copies a line to memory where it may stay. An empty line becomes an empty slice, not a nil one, which would be
// null.
func (s *sender) keep(line []byte) []byte {
	if len(line) > arenaSize/4 {
		return append(make([]byte, 0, len(line)), line...)
	}
	if s.arena == nil || cap(s.arena)-len(s.arena) < len(line) {
		s.arena = make([]byte, 0, arenaSize)
	}
	n := len(s.arena)
	s.arena = append(s.arena, line...)
	return s.arena[n:len(s.arena):len(s.arena)]
}

func (s *sender) newRecord() *kgo.Record {
	if len(s.records) == 0 {
		s.records = make([]kgo.Record, recordSlab)
	}
	r := &s.records[0]
	s.records = s.records[1:]
	return r
}

// promise counts a record's outcome. The client may call it concurrently.
func (s *sender) promise(r *kgo.Record, err error) {
	if err == nil {
		s.delivered.Add(1)
		s.bytes.Add(int64(len(r.Key) + len(r.Value)))
		return
	}
	if n := s.failed.Add(1); n <= reportedFailures {
		s.report.Lock()
		defer s.report.Unlock()
		s.env.errorf("ERROR record of topic %s with key: %s, value: %s: %s", s.topic, sizeText(r.Key), sizeText(r.Value), describe(err))
	}
}

func sizeText(b []byte) string {
	if b == nil {
		return "null"
	}
	return strconv.Itoa(len(b)) + " bytes"
}
