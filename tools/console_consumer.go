package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consumerOptions is the command line of kafka-console-consumer.
type consumerOptions struct {
	*options
	bootstrap, topic, include, whitelist, offset, group *string
	isolation, formatter, keyClass, valueClass          *string
	consumerFile, formatterFile                         *string
	partition                                           *int32
	maxMessages, timeoutMs                              *int64
	props, consumerProps                                *[]string
}

func newConsumerOptions() *consumerOptions {
	o := &consumerOptions{options: newOptions("kafka-console-consumer", "print the records of topics.")}
	o.bootstrap = o.String("bootstrap-server", "", "brokers to connect to, `host:port,...` (required)")
	o.topic = o.String("topic", "", "the `topic` to read")
	o.include = o.String("include", "", "a regular `expression` for whole names of topics to read, instead of --topic")
	o.whitelist = o.String("whitelist", "", "deprecated name of --include; `expression`")
	o.partition = o.Int32("partition", 0, "read only this `partition`, from its end unless --offset or --from-beginning is given")
	o.offset = o.String("offset", "latest", "the first `offset`: a number, earliest or latest; needs --partition")
	o.Bool("from-beginning", false, "start at the first record if the group has no offset")
	o.maxMessages = o.Int64("max-messages", -1, "stop after this `number` of records")
	o.timeoutMs = o.Int64("timeout-ms", -1, "stop when no record has come for this number of `ms`")
	o.group = o.String("group", "", "read as a member of this consumer group; its `id`")
	o.isolation = o.String("isolation-level", "read_uncommitted", "read_committed or read_uncommitted: the `level`")
	o.Bool("skip-message-on-error", false, "skip records that cannot be printed, instead of stopping")
	o.formatter = o.String("formatter", defaultFormatter, "how records are printed; a `class` of the original tool's")
	o.formatterFile = o.String("formatter-config", "", "`file` with properties as those of --property")
	o.props = o.StringArray("property", nil, "what is printed and how, `name=value`; may be repeated. Names: print.timestamp,\n"+
		"print.partition, print.offset, print.headers, print.key, print.value (true or false), key.separator,\n"+
		"line.separator, headers.separator, null.literal, key.deserializer, value.deserializer, headers.deserializer")
	o.keyClass = o.String("key-deserializer", "", "as --property key.deserializer=`class`")
	o.valueClass = o.String("value-deserializer", "", "as --property value.deserializer=`class`")
	o.consumerProps = o.StringArray("consumer-property", nil, "a setting of the consumer, `name=value`; may be repeated")
	o.consumerFile = o.String("consumer.config", "", "`file` of consumer settings")
	o.Bool("enable-systest-events", false, "print shutdown_complete at the end")
	return o
}

func (o *consumerOptions) check() error {
	if !o.has("include") && o.has("whitelist") {
		*o.include = *o.whitelist
		o.given["include"]++
	}
	switch {
	case o.has("topic") == o.has("include"):
		return usagef("exactly one of --include/--topic is required")
	case o.has("offset") && !o.has("partition"):
		return usagef("the partition is required when offset is specified")
	case o.has("offset") && o.has("from-beginning"):
		return usagef("options from-beginning and offset cannot be specified together")
	case o.has("partition") && !o.has("topic"):
		return usagef("the topic is required when partition is specified")
	case o.has("partition") && o.has("group"):
		return usagef("options group and partition cannot be specified together")
	}
	return o.require("bootstrap-server")
}

// start returns the offset according to --offset and --from-beginning.
func (o *consumerOptions) start() (kgo.Offset, error) {
	switch *o.offset {
	case "earliest":
		return kgo.NewOffset().AtStart(), nil
	case "latest":
		if o.has("from-beginning") {
			return kgo.NewOffset().AtStart(), nil
		}
		return kgo.NewOffset().AtEnd(), nil
	}
	n, err := strconv.ParseInt(*o.offset, 10, 64)
	if err != nil || n < 0 {
		return kgo.Offset{}, usagef("the provided offset value '%s' is incorrect: valid values are 'earliest', 'latest', or a non-negative number", *o.offset)
	}
	return kgo.NewOffset().At(n), nil
}

// groupID returns the group that is given consistently in all places, "" for none.
func (o *consumerOptions) groupID(places ...string) (string, error) {
	ids := map[string]bool{}
	for _, id := range append(places, *o.group) {
		if id != "" {
			ids[id] = true
		}
	}
	all := slices.Sorted(maps.Keys(ids))
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", usagef("the group ids of --group, --consumer-property and --consumer.config do not match: %s", strings.Join(all, ", "))
	case o.has("partition"):
		return "", nil
	}
	return all[0], nil
}

// settings returns the consumer's settings and its group.
func (o *consumerOptions) settings() (p properties, group string, err error) {
	file, err := readProperties(*o.consumerFile)
	if err != nil {
		return nil, "", err
	}
	props, err := propertyArgs(*o.consumerProps)
	if err != nil {
		return nil, "", err
	}
	if group, err = o.groupID(file["group.id"], props["group.id"]); err != nil {
		return nil, "", err
	}
	p = file.with(props)
	p["bootstrap.servers"] = *o.bootstrap
	if _, ok := p["client.id"]; !ok {
		p["client.id"] = "console-consumer"
	}
	if _, ok := p["isolation.level"]; !ok || o.has("isolation-level") {
		p["isolation.level"] = *o.isolation
	}
	reset, ok := p["auto.offset.reset"]
	switch {
	case o.has("from-beginning") && ok && reset != "earliest":
		return nil, "", usagef("can't simultaneously specify --from-beginning and 'auto.offset.reset=%s', please remove one option", reset)
	case o.has("from-beginning"):
		p["auto.offset.reset"] = "earliest"
	case !ok:
		p["auto.offset.reset"] = "latest"
	}
	return p, group, nil
}

func (o *consumerOptions) newFormatter() (formatter, error) {
	file, err := readProperties(*o.formatterFile)
	if err != nil {
		return nil, err
	}
	args, err := propertyArgs(*o.props)
	if err != nil {
		return nil, err
	}
	props := file.with(args)
	if o.has("key-deserializer") {
		props["key.deserializer"] = *o.keyClass
	}
	if o.has("value-deserializer") {
		props["value.deserializer"] = *o.valueClass
	}
	return newFormatter(*o.formatter, props)
}

// reads returns the options for what to read, and in which group.
func (o *consumerOptions) reads(group string, p properties) ([]kgo.Opt, error) {
	start, err := o.start()
	if err != nil {
		return nil, err
	}
	if o.has("partition") {
		return []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{*o.topic: {*o.partition: start}})}, nil
	}
	var opts []kgo.Opt
	if o.has("topic") {
		opts = append(opts, kgo.ConsumeTopics(*o.topic))
	} else {
		filter, err := topicFilter(*o.include)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.ConsumeTopics(filter.String()), kgo.ConsumeRegex())
	}
	// Without a user's group, the original joins one with a random name and never commits. The only visible difference
	// of reading the partitions directly is that it needs no coordinator.
	if group != "" {
		opts = append(opts, asMember(group, p)...)
		if autoCommits(p) {
			opts = append(opts, kgo.AutoCommitMarks())
		}
	}
	return opts, nil
}

func consoleConsumer(ctx context.Context, env *Env) error {
	o := newConsumerOptions()
	if err := o.parse(env); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	p, group, err := o.settings()
	if err != nil {
		return err
	}
	f, err := o.newFormatter()
	if err != nil {
		return err
	}
	what, err := o.reads(group, p)
	if err != nil {
		return err
	}
	env.oneLogin = true
	opts, err := clientOptions(ctx, env, p, consumerSettings)
	if err != nil {
		return err
	}
	if group != "" {
		if err := awaitCoordinator(ctx, env, opts, p["bootstrap.servers"], group); err != nil {
			return cmp.Or(refusal(ctx), err)
		}
	}
	// Stopping a fetch waits at most this long, so that --timeout-ms is observed.
	opts = append([]kgo.Opt{kgo.AllowAutoTopicCreation(), kgo.FetchMaxWait(500 * time.Millisecond)}, append(opts, what...)...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	c := &printer{env: env, cl: cl, format: f, skipErrors: o.has("skip-message-on-error"), commits: group != "" && autoCommits(p),
		most: *o.maxMessages, idle: duration(*o.timeoutMs, time.Millisecond)}
	shown := startProgress(env, func(elapsed time.Duration) string {
		return rateLine("read", c.count.Load(), c.bytes.Load(), elapsed)
	})
	err = c.run(ctx)
	shown.close()
	err = cmp.Or(refusal(ctx), err)
	if flushed := env.flush(); err == nil {
		err = flushed
	}
	env.errorf("Processed a total of %d messages", c.count.Load())
	if o.has("enable-systest-events") {
		env.println("shutdown_complete")
	}
	return err
}

// printer prints what a client reads.
type printer struct {
	env        *Env
	cl         *kgo.Client
	format     formatter
	skipErrors bool
	commits    bool          // commit what was printed
	most       int64         // records; negative: no limit
	idle       time.Duration // negative: wait forever
	count      atomic.Int64
	bytes      atomic.Int64
	line       []byte
	printed    []*kgo.Record // since the output was last written out; only with commits
}

// run prints until there is enough, nothing has come for too long, or ctx ends.
func (c *printer) run(ctx context.Context) error {
	err := c.loop(ctx)
	if c.commits {
		commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if failed := c.cl.CommitMarkedOffsets(commit); failed != nil && err == nil {
			err = fmt.Errorf("commit offsets: %w", failed)
		}
	}
	return err
}

func (c *printer) loop(ctx context.Context) error {
	for c.most < 0 || c.count.Load() < c.most {
		fetches, err := c.poll(ctx)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil || ctx.Err() != nil {
			return nil // idle for too long, or interrupted
		}
		if err != nil {
			return err
		}
		failed := c.print(fetches)
		if err := c.settle(); err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// settle writes out what was printed. Only then may it be committed: what does not get into a full disk is to be read
// again.
func (c *printer) settle() error {
	if err := c.env.flush(); err != nil {
		return err
	}
	if c.commits {
		c.cl.MarkCommitRecords(c.printed...)
	}
	clear(c.printed)
	c.printed = c.printed[:0]
	return nil
}

// poll waits for records, no more than still wanted.
func (c *printer) poll(ctx context.Context) (kgo.Fetches, error) {
	if c.idle >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.idle)
		defer cancel()
	}
	left := -1
	if c.most >= 0 {
		left = int(min(c.most-c.count.Load(), 10_000))
	}
	for {
		fetches := c.cl.PollRecords(ctx, left)
		var failed error
		fetches.EachError(func(topic string, partition int32, err error) {
			var loss *kgo.ErrDataLoss
			if errors.As(err, &loss) {
				c.env.errorf("WARN %s", message(err))
				return
			}
			failed = err
			switch {
			case ctx.Err() != nil || topic == "":
			case partition < 0:
				failed = fmt.Errorf("topic %s: %w", topic, err)
			default:
				failed = fmt.Errorf("%s-%d: %w", topic, partition, err)
			}
		})
		if fetches.NumRecords() > 0 { // print what came; a lasting error will occur again
			return fetches, nil
		}
		if failed != nil {
			return fetches, failed
		}
	}
}

func (c *printer) print(fetches kgo.Fetches) error {
	var failed error
	fetches.EachRecord(func(r *kgo.Record) {
		if failed != nil {
			return
		}
		var err error
		c.line, err = c.format.format(c.line[:0], r)
		if err != nil {
			if !c.skipErrors {
				failed = fmt.Errorf("record at offset %d of %s-%d: %w", r.Offset, r.Topic, r.Partition, err)
				return
			}
			c.line = c.line[:0]
			c.env.errorf("ERROR record at offset %d of %s-%d, which is skipped: %v", r.Offset, r.Topic, r.Partition, err)
		}
		if _, err := c.env.Stdout.Write(c.line); err != nil {
			failed = err
			return
		}
		c.count.Add(1)
		c.bytes.Add(int64(len(r.Key) + len(r.Value)))
		if c.commits {
			c.printed = append(c.printed, r)
		}
	})
	return failed
}
