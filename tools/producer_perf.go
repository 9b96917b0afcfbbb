package tools

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"barnabas/internal/await"

	"github.com/twmb/franz-go/pkg/kgo"
)

// perfOptions is the command line of kafka-producer-perf-test.
type perfOptions struct {
	*options
	topic, payloadFile, delimiter, producerFile, txnID *string
	records, txnDuration                               *int64
	size                                               *int
	throughput                                         *float64
	props                                              *[]string
}

func newPerfOptions() *perfOptions {
	o := &perfOptions{options: newOptions("kafka-producer-perf-test", "measure how fast a topic can be written.")}
	o.topic = o.String("topic", "", "the `topic` to write to (required)")
	o.records = o.Int64("num-records", 0, "`number` of records to write (required)")
	o.size = o.Int("record-size", 0, "`bytes` of each record, which are random letters")
	o.payloadFile = o.String("payload-file", "", "`file` to take records from, instead of random ones")
	o.Bool("payload-monotonic", false, "the records are increasing numbers")
	o.delimiter = o.String("payload-delimiter", `\n`, "the separator of the records in the file, a `text`")
	o.throughput = o.Float64("throughput", 0, "maximum number of `records` per second, approximately; -1: unlimited (required)")
	o.props = o.StringArray("producer-props", nil, "settings of the producer, `name=value ...`, such as bootstrap.servers=host:port")
	o.variadic["producer-props"] = true
	o.String("bootstrap-server", "", "brokers to connect to, `host:port,...`, instead of bootstrap.servers")
	o.producerFile = o.String("producer.config", "", "`file` of producer settings")
	o.Bool("print-metrics", false, "accepted; this producer has no metrics to print")
	o.txnID = o.String("transactional-id", "performance-producer-default-transactional-id", "`id` of the producer's transactions")
	o.txnDuration = o.Int64("transaction-duration-ms", 0, "commit a transaction at this interval in `ms`; 0: no transactions")
	o.BoolP("h", "h", false, "as --help")
	return o
}

// check parses the command line. Exit codes are those of the original, which has a different parser.
func (o *perfOptions) check(env *Env) error {
	if len(env.Args) == 0 {
		o.usage(env)
		return exitCode(0)
	}
	if err := o.parse(env); err != nil {
		return err
	}
	if o.has("h") {
		o.usage(env)
		return exitCode(1)
	}
	if err := o.require("topic", "num-records", "throughput"); err != nil {
		return err
	}
	given := 0
	for _, source := range []string{"record-size", "payload-file", "payload-monotonic"} {
		given += min(o.given[source], 1)
	}
	switch {
	case given != 1:
		return usagef("exactly one of --record-size, --payload-file and --payload-monotonic is required")
	case o.has("record-size") && *o.size < 0:
		return usagef("--record-size must not be negative")
	case *o.records <= 0:
		return usagef("--num-records should be greater than zero")
	}
	return nil
}

func (o *perfOptions) settings() (properties, error) {
	p, err := readProperties(*o.producerFile)
	if err != nil {
		return nil, err
	}
	props, err := keyValues(*o.props)
	if err != nil {
		return nil, err
	}
	p = p.with(props)
	if o.has("bootstrap-server") {
		p["bootstrap.servers"] = o.Lookup("bootstrap-server").Value.String()
	}
	if _, ok := p["client.id"]; !ok {
		p["client.id"] = "perf-producer-client"
	}
	if *o.txnDuration > 0 {
		p["transactional.id"] = *o.txnID
	}
	return p, nil
}

// payload returns the value of the nth record.
type payload struct {
	next    func(n int64) []byte
	largest int
}

func (o *perfOptions) payload() (payload, error) {
	switch {
	case o.has("payload-monotonic"):
		return payload{func(n int64) []byte { return strconv.AppendInt(nil, n, 10) }, 20}, nil
	case o.has("record-size"):
		return randomPayload(*o.size), nil
	}
	data, err := os.ReadFile(*o.payloadFile)
	if err != nil {
		return payload{}, err
	}
	delimiter := *o.delimiter
	if unquoted, err := strconv.Unquote(`"` + delimiter + `"`); err == nil {
		delimiter = unquoted // the shell passes \n as two characters
	}
	list := bytes.Split(bytes.TrimSuffix(data, []byte(delimiter)), []byte(delimiter))
	if len(data) == 0 || len(list) == 0 {
		return payload{}, fmt.Errorf("file does not exist or empty file provided: %s", *o.payloadFile)
	}
	p := payload{next: func(int64) []byte { return list[rand.IntN(len(list))] }}
	for _, value := range list {
		p.largest = max(p.largest, len(value))
	}
	return p, nil
}

// randomPayload slices values from a buffer of random letters, so that they cost nothing.
func randomPayload(size int) payload {
	letters := make([]byte, size+1<<16)
	for i := range letters {
		letters[i] = 'A' + byte(rand.IntN(26))
	}
	return payload{func(int64) []byte {
		at := rand.IntN(1 << 16)
		return letters[at : at+size : at+size]
	}, size}
}

func producerPerf(ctx context.Context, env *Env) error {
	o := newPerfOptions()
	if err := o.check(env); err != nil {
		return err
	}
	settings, err := o.settings()
	if err != nil {
		return err
	}
	values, err := o.payload()
	if err != nil {
		return err
	}
	cl, err := newProducer(ctx, env, *o.topic, settings, values.largest)
	if err != nil {
		return err
	}
	defer cl.Close()
	stats := newPerfStats(env)
	err = (&perfRun{cl: cl, stats: stats, values: values, records: *o.records, throughput: *o.throughput,
		txn: duration(*o.txnDuration, time.Millisecond)}).run(ctx)
	stats.printTotal()
	if failed := stats.failures(); failed != nil && err == nil {
		err = failed
	}
	return err
}

// perfRun sends the records.
type perfRun struct {
	cl         *kgo.Client
	stats      *perfStats
	values     payload
	records    int64
	throughput float64       // records per second; not positive: no limit
	txn        time.Duration // duration of a transaction; 0: none
}

func (r *perfRun) run(ctx context.Context) error {
	start := time.Now()
	begun := start
	if r.txn > 0 {
		if err := r.cl.BeginTransaction(); err != nil {
			return err
		}
	}
	for n := range r.records {
		if ctx.Err() != nil {
			break
		}
		if r.txn > 0 && time.Since(begun) >= r.txn {
			if err := r.nextTransaction(ctx); err != nil {
				return err
			}
			begun = time.Now()
		}
		r.throttle(ctx, start, n)
		r.cl.Produce(ctx, &kgo.Record{Value: r.values.next(n), Timestamp: time.Now()}, r.stats.done)
	}
	if r.txn > 0 {
		return r.commit(ctx)
	}
	return r.cl.Flush(ctx)
}

func (r *perfRun) commit(ctx context.Context) error {
	if err := r.cl.Flush(ctx); err != nil {
		return err
	}
	return r.cl.EndTransaction(ctx, kgo.TryCommit)
}

func (r *perfRun) nextTransaction(ctx context.Context) error {
	if err := r.commit(ctx); err != nil {
		return err
	}
	return r.cl.BeginTransaction()
}

// throttle waits until the nth record is due.
func (r *perfRun) throttle(ctx context.Context, start time.Time, n int64) {
	const least = 2 * time.Millisecond // shorter waits accumulate
	if r.throughput <= 0 {
		return
	}
	due := time.Duration(float64(n) / r.throughput * float64(time.Second))
	if wait := due - time.Since(start); wait >= least {
		await.Pause(ctx, wait)
	}
}

// perfStats counts records and their latencies in ms, in total and since the last report.
type perfStats struct {
	env   *Env
	start time.Time
	mu    struct {
		sync.Mutex
		total, window perfWindow
		histogram     map[int64]int64 // records by latency
		failed        int64
		firstFailure  error
	}
}

type perfWindow struct {
	since          time.Time
	count, bytes   int64
	latency, worst int64 // ms, the first one as a sum
}

func (w *perfWindow) add(latency int64, size int) {
	w.count++
	w.bytes += int64(size)
	w.latency += latency
	w.worst = max(w.worst, latency)
}

// reportInterval is the time between two reports.
const reportInterval = 5 * time.Second

func newPerfStats(env *Env) *perfStats {
	s := &perfStats{env: env, start: time.Now()}
	s.mu.histogram = make(map[int64]int64)
	s.mu.total.since, s.mu.window.since = s.start, s.start
	return s
}

// done is the promise of a record.
func (s *perfStats) done(r *kgo.Record, err error) {
	now := time.Now()
	latency := max(now.Sub(r.Timestamp).Milliseconds(), 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.mu.failed++; s.mu.firstFailure == nil {
			s.mu.firstFailure = err
		}
		return
	}
	s.mu.total.add(latency, len(r.Value))
	s.mu.window.add(latency, len(r.Value))
	s.mu.histogram[latency]++
	if now.Sub(s.mu.window.since) >= reportInterval {
		s.printWindowLocked(now)
		s.mu.window = perfWindow{since: now}
	}
}

func (s *perfStats) printWindowLocked(now time.Time) {
	w := &s.mu.window
	perSecond, mbPerSecond, average := w.rates(now)
	s.env.printf("%d records sent, %.1f records/sec (%.2f MB/sec), %.1f ms avg latency, %.1f ms max latency.\n",
		w.count, perSecond, mbPerSecond, average, float64(w.worst))
	_ = s.env.flush() // a write error will show at the end
}

func (w *perfWindow) rates(now time.Time) (perSecond, mbPerSecond, averageMs float64) {
	seconds := max(now.Sub(w.since).Seconds(), 1e-3)
	return float64(w.count) / seconds, float64(w.bytes) / (1 << 20) / seconds, float64(w.latency) / float64(max(w.count, 1))
}

func (s *perfStats) printTotal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.mu.total
	perSecond, mbPerSecond, average := t.rates(time.Now())
	p := s.percentilesLocked(0.5, 0.95, 0.99, 0.999)
	s.env.printf("%d records sent, %f records/sec (%.2f MB/sec), %.2f ms avg latency, %.2f ms max latency, %d ms 50th, %d ms 95th, %d ms 99th, %d ms 99.9th.\n",
		t.count, perSecond, mbPerSecond, average, float64(t.worst), p[0], p[1], p[2], p[3])
}

// percentilesLocked returns the latencies in ms that the given fractions of records do not exceed.
func (s *perfStats) percentilesLocked(shares ...float64) []int64 {
	latencies := slices.Sorted(maps.Keys(s.mu.histogram))
	found := make([]int64, len(shares))
	for i, share := range shares {
		left := int64(share * float64(s.mu.total.count))
		for _, latency := range latencies {
			found[i] = latency
			if left -= s.mu.histogram[latency]; left < 0 {
				break
			}
		}
	}
	return found
}

func (s *perfStats) failures() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d records could not be delivered: %w", s.mu.failed, s.mu.firstFailure)
}
