package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consumerPerfOptions is the command line of kafka-consumer-perf-test.
type consumerPerfOptions struct {
	*options
	topic, group, config, dateFormat *string
	messages, timeoutMs, intervalMs  *int64
	fetchSize                        *int32
}

func newConsumerPerfOptions() *consumerPerfOptions {
	o := &consumerPerfOptions{options: newOptions("kafka-consumer-perf-test", "measure how fast a topic can be read.")}
	o.String("bootstrap-server", "", "brokers to connect to, `host:port,...` (required)")
	o.String("broker-list", "", "deprecated name of --bootstrap-server, `host:port,...`")
	o.topic = o.String("topic", "", "the `topic` to read (required)")
	o.messages = o.Int64("messages", 0, "`number` of records to read (required)")
	o.group = o.String("group", "", "read as a member of this consumer group; its `id`")
	o.fetchSize = o.Int32("fetch-size", 1<<20, "`bytes` to ask for in one request, of each partition")
	o.Bool("from-latest", false, "start at the end if the group has no offset")
	o.config = o.String("consumer.config", "", "`file` of consumer settings")
	o.timeoutMs = o.Int64("timeout", 10_000, "stop when nothing has come for this number of `ms`")
	o.intervalMs = o.Int64("reporting-interval", 5000, "`ms` between two lines of --show-detailed-stats")
	o.Bool("show-detailed-stats", false, "print a line at intervals, rather than one at the end")
	o.Bool("hide-header", false, "omit the line with the names of the columns")
	o.dateFormat = o.String("date-format", "yyyy-MM-dd HH:mm:ss:SSS", "how times are printed; a `format` of java.text.SimpleDateFormat")
	o.Bool("print-metrics", false, "accepted; this consumer has no metrics to print")
	o.Int32("socket-buffer-size", 2<<20, "accepted; the system sizes the buffers. `bytes`")
	o.Int32("threads", 10, "accepted, without effect; a `number`")
	o.Int32("num-fetch-threads", 1, "accepted, without effect; a `number`")
	return o
}

// settings returns the consumer's settings and its group.
func (o *consumerPerfOptions) settings() (p properties, group string, err error) {
	if p, err = readProperties(*o.config); err != nil {
		return nil, "", err
	}
	if p["bootstrap.servers"], err = bootstrapOf(o.options); err != nil {
		return nil, "", err
	}
	p["auto.offset.reset"] = "earliest"
	if o.has("from-latest") {
		p["auto.offset.reset"] = "latest"
	}
	return p, cmp.Or(*o.group, p["group.id"]), nil
}

func (o *consumerPerfOptions) client(ctx context.Context, env *Env, p properties, group string) (*kgo.Client, *rebalanceClock, error) {
	opts, err := clientOptions(ctx, env, p, consumerSettings)
	if err != nil {
		return nil, nil, err
	}
	opts = append(opts, kgo.ConsumeTopics(*o.topic), kgo.FetchMaxPartitionBytes(*o.fetchSize))
	clock := &rebalanceClock{}
	// As in kafka-console-consumer: without a named group the user wants none, and the original's random one is never
	// looked at.
	if group != "" {
		clock.group = true
		clock.lost(time.Now())
		opts = append(append(opts, asMember(group, p)...),
			kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { clock.assigned(time.Now()) }),
			kgo.OnPartitionsRevoked(func(context.Context, *kgo.Client, map[string][]int32) { clock.lost(time.Now()) }))
	}
	cl, err := kgo.NewClient(opts...)
	return cl, clock, err
}

// rebalanceClock sums up the time that a group member spends without an assignment. Safe for concurrent use.
type rebalanceClock struct {
	group bool
	since atomic.Int64 // ms; 0: assigned
	total atomic.Int64 // ms
}

func (c *rebalanceClock) lost(now time.Time) { c.since.CompareAndSwap(0, now.UnixMilli()) }

func (c *rebalanceClock) assigned(now time.Time) {
	if since := c.since.Swap(0); since != 0 {
		c.total.Add(now.UnixMilli() - since)
	}
}

func consumerPerf(ctx context.Context, env *Env) error {
	o := newConsumerPerfOptions()
	if err := o.parse(env); err != nil {
		return err
	}
	if err := o.require("topic", "messages"); err != nil {
		return err
	}
	layout, err := javaTimeLayout(*o.dateFormat)
	if err != nil {
		return err
	}
	p, group, err := o.settings()
	if err != nil {
		return err
	}
	env.oneLogin = true
	cl, clock, err := o.client(ctx, env, p, group)
	if err != nil {
		return err
	}
	defer cl.Close()
	r := &consumerPerfRun{env: env, cl: cl, clock: clock, layout: layout, detailed: o.has("show-detailed-stats"), wanted: *o.messages,
		idle: duration(*o.timeoutMs, time.Millisecond), interval: duration(*o.intervalMs, time.Millisecond)}
	if !o.has("hide-header") {
		r.printHeader()
	}
	err = r.run(ctx)
	if group != "" && autoCommits(p) {
		err = errors.Join(err, cl.CommitUncommittedOffsets(ctx))
	}
	return err
}

type consumerPerfRun struct {
	env            *Env
	cl             *kgo.Client
	clock          *rebalanceClock
	layout         string
	detailed       bool
	wanted         int64
	idle, interval time.Duration

	start  time.Time
	total  readCount
	marked readMark // of the last report
}

// readCount is what was read.
type readCount struct{ records, bytes int64 }

// readMark is the progress at a time.
type readMark struct {
	readCount
	at          time.Time
	rebalanceMs int64
}

func (r *consumerPerfRun) printHeader() {
	first := "start.time, end.time"
	if r.detailed {
		first = "time, threadId"
	}
	r.env.println(first + ", data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec")
	_ = r.env.flush()
}

func (r *consumerPerfRun) run(ctx context.Context) error {
	r.start = time.Now()
	r.marked.at = r.start
reading:
	for r.total.records < r.wanted {
		poll, cancel := context.WithTimeout(ctx, r.idle)
		fetches := r.cl.PollFetches(poll)
		cancel()
		if err := fetches.Err(); fetches.NumRecords() == 0 {
			switch why := refusal(ctx); {
			case why != nil:
				return why
			case err == nil:
			case ctx.Err() != nil:
				break reading
			case errors.Is(err, context.DeadlineExceeded):
				r.env.printf("WARNING: Exiting before consuming the expected number of messages: timeout (%d ms) exceeded. "+
					"You can use the --timeout option to increase the timeout.\n", r.idle.Milliseconds())
				break reading
			default:
				return err
			}
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			r.total.records++
			r.total.bytes += int64(len(rec.Key) + len(rec.Value))
		})
		if now := time.Now(); r.detailed && now.Sub(r.marked.at) >= r.interval {
			r.report(now)
		}
	}
	if !r.detailed {
		r.summary(time.Now())
	}
	return nil
}

// rates formats the columns common to both kinds of lines, for what was read in a period that includes rebalances.
func (r *consumerPerfRun) rates(total, part readCount, took time.Duration, rebalanceMs int64) string {
	mb := func(n int64) float64 { return float64(n) / (1 << 20) }
	seconds := max(took.Seconds(), 1e-3)
	fetchMs := max(took.Milliseconds()-rebalanceMs, 0)
	fetchSeconds := max(float64(fetchMs)/1000, 1e-3)
	return fmt.Sprintf("%.4f, %.4f, %d, %.4f, %d, %d, %.4f, %.4f", mb(total.bytes), mb(part.bytes)/seconds, total.records,
		float64(part.records)/seconds, rebalanceMs, fetchMs, mb(part.bytes)/fetchSeconds, float64(part.records)/fetchSeconds)
}

func (r *consumerPerfRun) report(now time.Time) {
	rebalanced := r.clock.total.Load()
	part := readCount{r.total.records - r.marked.records, r.total.bytes - r.marked.bytes}
	r.env.printf("%s, 0, %s\n", javaTime(now, r.layout), r.rates(r.total, part, now.Sub(r.marked.at), rebalanced-r.marked.rebalanceMs))
	_ = r.env.flush()
	r.marked = readMark{r.total, now, rebalanced}
}

func (r *consumerPerfRun) summary(now time.Time) {
	r.env.printf("%s, %s, %s\n", javaTime(r.start, r.layout), javaTime(now, r.layout), r.rates(r.total, r.total, now.Sub(r.start), r.clock.total.Load()))
}

// javaLetters are the runs of letters of java.text.SimpleDateFormat that are supported, longest first, with Go's layout
// for each.
var javaLetters = []struct{ java, layout string }{
	{"yyyy", "2006"}, {"yy", "06"}, {"MMMM", "January"}, {"MMM", "Jan"}, {"MM", "01"}, {"M", "1"}, {"dd", "02"}, {"d", "2"},
	{"HH", "15"}, {"hh", "03"}, {"h", "3"}, {"mm", "04"}, {"m", "4"}, {"ss", "05"}, {"s", "5"}, {"SSS", ".000"}, {"a", "PM"},
	{"EEEE", "Monday"}, {"EEE", "Mon"}, {"z", "MST"}, {"Z", "-0700"}, {"XXX", "Z07:00"},
}

// millisMark is a placeholder in a layout where Go's own mark for ms would consume the preceding separator.
const millisMark = "\x00"

// javaTimeLayout converts a format of java.text.SimpleDateFormat.
func javaTimeLayout(format string) (string, error) {
	var b strings.Builder
next:
	for format != "" {
		for _, l := range javaLetters {
			if rest, ok := strings.CutPrefix(format, l.java); ok {
				if l.java == "SSS" {
					b.WriteString(millisMark)
				} else {
					b.WriteString(l.layout)
				}
				format = rest
				continue next
			}
		}
		if c := format[0]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return "", usagef("unknown letter %q in --date-format", c)
		}
		b.WriteByte(format[0])
		format = format[1:]
	}
	return b.String(), nil
}

func javaTime(t time.Time, layout string) string {
	return strings.ReplaceAll(t.Format(layout), millisMark, fmt.Sprintf("%03d", t.UnixMilli()%1000))
}
