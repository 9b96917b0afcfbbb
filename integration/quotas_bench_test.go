package integration

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	benchLimit    = 1_000_000        // bytes per second
	benchWindows  = 11 * time.Second // the defaults of quota.window.num and quota.window.size.seconds multiplied
	settledSpan   = 4 * benchWindows
	untroubled    = 10 * time.Second
	freeInterval  = 10 * time.Millisecond
	freeBytes     = 50_000 // per tick: 5 MB per second
	limitedWriter = "limited-producer"
	limitedReader = "limited-consumer"
)

// BenchmarkQuotas limits a producer and a consumer, which run as fast as they can, to 1 MB/s each (KIP-13), and reports
// the rates at which they settle. All that the windows allow may be used at once, and then hardly anything until those
// windows are over. Therefore a rate is measured over whole rounds of windows, from the middle of the quiet part of one
// round to that of another, and the first two rounds are left out. Bytes are those of requests and responses, as the
// broker counts them. Beside them a producer and a consumer without a limit pass on 5 MB/s; throughput and latency of
// these are reported before the limited clients start, and while those are measured.
func BenchmarkQuotas(b *testing.B) {
	onBothKinds(b, func(b *testing.B, p benched, _ string) {
		p.start()
		for range b.N {
			benchmarkQuotas(b, p.addr())
		}
	})
}

func benchmarkQuotas(b *testing.B, addr string) {
	_, adm := benchClient(b, addr)
	_, _ = adm.DeleteTopics(b.Context(), "t", "limited", "free") // from the previous round
	waitFor(b, "new topics", func(ctx context.Context) bool {
		resp, err := adm.CreateTopics(ctx, 1, 1, nil, "t", "limited", "free")
		return err == nil && resp.Error() == nil
	})
	fillTopic(b, addr, 1000, 130_000)
	setByteRates(b, adm)

	var running sync.WaitGroup
	ctx, stop := context.WithCancel(b.Context())
	defer running.Wait()
	defer stop()
	free := newPassing(b, addr)
	running.Go(func() { free.produce(ctx) })
	running.Go(func() { free.consume(ctx) })
	time.Sleep(benchWindows) // until they are steady, and a JVM has warmed up
	free.measure(untroubled, "before", b)

	in := newLimited(b, addr, limitedWriter, kmsg.Produce, kgo.DefaultProduceTopic("limited"), kgo.ProducerBatchMaxBytes(16<<10))
	out := newLimited(b, addr, limitedReader, kmsg.Fetch, kgo.ConsumeTopics("t"), kgo.FetchMaxPartitionBytes(128<<10))
	running.Go(func() { in.produce(ctx) })
	running.Go(func() { out.consume(ctx) })
	time.Sleep(2*benchWindows + benchWindows/2)
	before := []int64{in.bytes.Load(), out.bytes.Load()}
	took := free.measure(settledSpan, "during", b)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(in.bytes.Load()-before[0])/1e6/took.Seconds(), "MB/s-limited-producer")
	b.ReportMetric(float64(out.bytes.Load()-before[1])/1e6/took.Seconds(), "MB/s-limited-consumer")
}

func setByteRates(b *testing.B, adm *kadm.Client) {
	b.Helper()
	var entries []kadm.AlterClientQuotaEntry
	for id, key := range map[string]string{limitedWriter: "producer_byte_rate", limitedReader: "consumer_byte_rate"} {
		entries = append(entries, kadm.AlterClientQuotaEntry{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &id}},
			Ops:    []kadm.AlterClientQuotaOp{{Key: key, Value: benchLimit}},
		})
	}
	altered, err := adm.AlterClientQuotas(b.Context(), entries)
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range altered {
		if a.Err != nil {
			b.Fatal(a.Err)
		}
	}
}

// limited is a client that runs as fast as it may, and counts the bytes of one kind of requests, or of their responses.
type limited struct {
	cl    *kgo.Client
	key   kmsg.Key
	bytes atomic.Int64
}

func newLimited(b *testing.B, addr, id string, key kmsg.Key, opts ...kgo.Opt) *limited {
	l := &limited{key: key}
	l.cl, _ = benchClient(b, addr, append(opts, kgo.ClientID(id), kgo.WithHooks(l))...)
	return l
}

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (l *limited) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, size int, _, _ time.Duration, _ error) {
	if l.key == kmsg.Produce && key == int16(l.key) {
		l.bytes.Add(int64(size))
	}
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (l *limited) OnBrokerRead(_ kgo.BrokerMetadata, key int16, size int, _, _ time.Duration, _ error) {
	if l.key == kmsg.Fetch && key == int16(l.key) {
		l.bytes.Add(int64(size))
	}
}

func (l *limited) produce(ctx context.Context) {
	value := bytes.Repeat([]byte("limited."), 125)
	for ctx.Err() == nil {
		l.cl.Produce(ctx, &kgo.Record{Value: value}, nil) // blocks while much is buffered
	}
}

func (l *limited) consume(ctx context.Context) {
	for ctx.Err() == nil {
		l.cl.PollFetches(ctx)
	}
}

// passing is a producer and a consumer without limits: the consumer reads what the producer writes at a steady rate.
type passing struct {
	producer, consumer *kgo.Client

	mu            sync.Mutex // guards the fields below: what has happened since the last measurement
	written, read int        // bytes
	answers, ages []time.Duration
}

func newPassing(b *testing.B, addr string) *passing {
	p := new(passing)
	p.producer, _ = benchClient(b, addr, kgo.ClientID("free-producer"), kgo.DefaultProduceTopic("free"))
	p.consumer, _ = benchClient(b, addr, kgo.ClientID("free-consumer"), kgo.ConsumeTopics("free"))
	return p
}

func (p *passing) produce(ctx context.Context) {
	tick := time.NewTicker(freeInterval)
	defer tick.Stop()
	value := make([]byte, freeBytes)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		if p.producer.ProduceSync(ctx, &kgo.Record{Value: value, Timestamp: began}).FirstErr() != nil {
			continue // the rate shows these
		}
		p.mu.Lock()
		p.written += len(value)
		p.answers = append(p.answers, time.Since(began))
		p.mu.Unlock()
	}
}

func (p *passing) consume(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := p.consumer.PollFetches(ctx)
		p.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			p.read += len(r.Value)
			p.ages = append(p.ages, time.Since(r.Timestamp))
		})
		p.mu.Unlock()
	}
}

// measure reports throughput and latency over the given time, and returns the time that it took.
func (p *passing) measure(span time.Duration, when string, b *testing.B) time.Duration {
	p.take()
	began := time.Now()
	time.Sleep(span)
	took := time.Since(began)
	written, read, answers, ages := p.take()
	b.ReportMetric(float64(written)/1e6/took.Seconds(), "MB/s-free-producer-"+when)
	b.ReportMetric(float64(read)/1e6/took.Seconds(), "MB/s-free-consumer-"+when)
	b.ReportMetric(slowest(answers), "ms-p99-answer-"+when)
	b.ReportMetric(slowest(ages), "ms-p99-age-"+when)
	return took
}

func (p *passing) take() (written, read int, answers, ages []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written, read, answers, ages = p.written, p.read, p.answers, p.ages
	p.written, p.read, p.answers, p.ages = 0, 0, nil, nil
	return written, read, answers, ages
}

// slowest returns the 99th percentile, in milliseconds.
func slowest(times []time.Duration) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return float64(times[len(times)*99/100].Microseconds()) / 1000
}
