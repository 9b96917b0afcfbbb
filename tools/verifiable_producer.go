package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"barnabas/internal/await"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// verifiableProducerOptions is the command line of kafka-verifiable-producer.
type verifiableProducerOptions struct {
	*options
	topic, config           *string
	most, throughput, acks  *int32
	createTime              *int64
	valuePrefix, keysRepeat *int32
}

func newVerifiableProducerOptions() *verifiableProducerOptions {
	o := &verifiableProducerOptions{options: newOptions("kafka-verifiable-producer",
		"write increasing numbers to a topic and print, as JSON, which of them were acknowledged.")}
	o.String("bootstrap-server", "", "brokers to connect to, `host:port,...` (required)")
	o.String("broker-list", "", "deprecated name of --bootstrap-server, `host:port,...`")
	o.topic = o.String("topic", "", "the `topic` (required)")
	o.most = o.Int32("max-messages", -1, "a `number` of records; -1: unlimited")
	o.throughput = o.Int32("throughput", -1, "approximate number of `records` per second; -1: no limit")
	o.acks = o.Int32("acks", -1, "0, 1 or -1: the `acks` that make a record delivered")
	o.config = o.String("producer.config", "", "`file` of producer settings")
	o.createTime = o.Int64("message-create-time", -1, "timestamp of the first record in `ms`, from which the others continue")
	o.valuePrefix = o.Int32("value-prefix", 0, "values are this `number`, a dot and the number that increases")
	o.keysRepeat = o.Int32("repeating-keys", 0, "keys count from 0 up to this `number`, exclusive, again and again")
	return o
}

// settings returns the producer's settings. There are no retries, since a test must see each failure; idempotence would
// need them.
func (o *verifiableProducerOptions) settings() (properties, error) {
	bootstrap, err := bootstrapOf(o.options)
	if err != nil {
		return nil, err
	}
	file, err := readProperties(*o.config)
	if err != nil {
		return nil, err
	}
	p := properties{"bootstrap.servers": bootstrap, "acks": number(*o.acks), "retries": "0", "client.id": "verifiable-producer"}.with(file)
	if _, ok := p["enable.idempotence"]; !ok && p["retries"] == "0" {
		p["enable.idempotence"] = "false"
	}
	return p, nil
}

func (o *verifiableProducerOptions) check(env *Env) error {
	if len(env.Args) == 0 {
		o.usage(env)
		return exitCode(0) // as in the originals, unlike the other tools
	}
	if err := o.parse(env); err != nil {
		return err
	}
	if err := o.require("topic"); err != nil {
		return err
	}
	if *o.acks < -1 || *o.acks > 1 {
		return usagef("argument acks: invalid choice: '%d' (choose from 0, 1, -1)", *o.acks)
	}
	return nil
}

func verifiableProducer(ctx context.Context, env *Env) error {
	o := newVerifiableProducerOptions()
	if err := o.check(env); err != nil {
		return err
	}
	settings, err := o.settings()
	if err != nil {
		return err
	}
	r := &verifiableRun{o: o, out: &events{env: env}, start: time.Now()}
	if err := r.out.print("startup_complete"); err != nil {
		return err
	}
	if r.cl, err = r.newClient(ctx, env, settings); err != nil {
		r.cannotSend(err)
	} else {
		r.sendAll(ctx)
		r.cl.Close()
	}
	return r.finish()
}

// verifiableRun sends the numbers and counts the outcomes.
type verifiableRun struct {
	o     *verifiableProducerOptions
	out   *events
	cl    *kgo.Client
	start time.Time
	sent  int64
	acked atomic.Int64
}

// newClient does not limit the time for delivering a record: the library counts from the record's timestamp, which can
// be anything.
func (r *verifiableRun) newClient(ctx context.Context, env *Env, settings properties) (*kgo.Client, error) {
	plan, err := planProducer(ctx, env, *r.o.topic, settings)
	if err != nil {
		return nil, err
	}
	if *r.o.createTime != -1 {
		plan.opts = append(plan.opts, kgo.RecordDeliveryTimeout(0))
	}
	return plan.client(plan.largest)
}

// sendAll ends when everything is sent, or ctx has ended; records in flight are waited for.
func (r *verifiableRun) sendAll(ctx context.Context) {
	const patience = time.Minute
	createTime := *r.o.createTime
	for n := int64(0); (*r.o.most < 0 || n < int64(*r.o.most)) && ctx.Err() == nil; n++ {
		record := r.record(n)
		if *r.o.createTime != -1 {
			record.Timestamp = time.UnixMilli(createTime)
			createTime += time.Since(r.start).Milliseconds()
		}
		r.sent++
		r.cl.Produce(context.WithoutCancel(ctx), record, r.report)
		r.throttle(ctx, n+1)
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_ = r.cl.Flush(flush) // each record's failure is reported when it is known
}

// record returns the nth record.
func (r *verifiableRun) record(n int64) *kgo.Record {
	value := strconv.FormatInt(n, 10)
	if r.o.has("value-prefix") {
		value = fmt.Sprintf("%d.%s", *r.o.valuePrefix, value)
	}
	record := &kgo.Record{Value: []byte(value)}
	if r.o.has("repeating-keys") {
		record.Key = strconv.AppendInt(nil, n%max(int64(*r.o.keysRepeat), 1), 10)
	}
	return record
}

// throttle waits until the nth record is due.
func (r *verifiableRun) throttle(ctx context.Context, n int64) {
	if *r.o.throughput <= 0 {
		return
	}
	due := r.start.Add(time.Duration(float64(n) / float64(*r.o.throughput) * float64(time.Second)))
	await.Pause(ctx, time.Until(due))
}

// report prints a record's outcome. The output is flushed with each event, so its errors are returned at the end.
func (r *verifiableRun) report(record *kgo.Record, err error) {
	if err != nil {
		r.printFailure(record, err)
		return
	}
	r.acked.Add(1)
	_ = r.out.print("producer_send_success", field{"key", textOf(record.Key)}, field{"value", textOf(record.Value)},
		field{"offset", record.Offset}, field{"topic", record.Topic}, field{"partition", record.Partition})
}

func (r *verifiableRun) printFailure(record *kgo.Record, err error) {
	_ = r.out.print("producer_send_error", field{"topic", *r.o.topic}, field{"key", textOf(record.Key)}, field{"value", textOf(record.Value)},
		field{"exception", "class " + exceptionOf(err)}, field{"message", message(err)})
}

// cannotSend reports the first record as failed: without a topic or a broker each would wait as long, with the same
// result.
func (r *verifiableRun) cannotSend(err error) {
	if *r.o.most == 0 {
		return
	}
	r.sent++
	r.printFailure(r.record(0), err)
}

// exceptionOf returns the name of an error in Java clients.
func exceptionOf(err error) string {
	var code *kerr.Error
	switch {
	case errors.As(err, &code):
		return exceptionName(code)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries):
		return commonErrors + "TimeoutException"
	}
	return "org.apache.kafka.common.KafkaException"
}

func (r *verifiableRun) finish() error {
	if err := r.out.print("shutdown_complete"); err != nil {
		return err
	}
	acked := r.acked.Load()
	rate := 1000 * float64(acked) / float64(max(time.Since(r.start).Milliseconds(), 1))
	return r.out.print("tool_data", field{"sent", r.sent}, field{"acked", acked}, field{"target_throughput", *r.o.throughput},
		field{"avg_throughput", json.RawMessage(appendFloat(nil, rate, 64))})
}
