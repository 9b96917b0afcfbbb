package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"barnabas/config"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const aboutDoctor = `answer a question from the cluster's own state, without changing anything
The questions are:
listeners: which addresses does a client get, and can it reach them?
retention TOPIC: when will old records go, and why not sooner?
cleaner TOPIC: why is the topic not compacted?
deletion TOPIC: what does its deletion wait for?
reassignment: what do reassignments wait for, and what have earlier ones left behind?
transactions: which transactions hold back readers of committed records, and since when?
group NAME: how far does it lag behind, and what caused its last rebalances?
zookeeper: is the state in ZooKeeper consistent, and ready for a migration?
broker FILE: can a broker run with this server.properties, instead of the Apache Kafka broker that uses it now?
Segments are examined if the brokers' log directories can be read: on a broker's host.`

// doctor is one run of kafka-doctor.
type doctor struct {
	o         *adminOptions
	env       *Env
	zookeeper *string // empty: the one that the brokers use
	cl        *kgo.Client
	adm       *kadm.Client
	now       time.Time
	hidden    []string // ZooKeeper nodes that only the brokers may read

	// Of the question broker:
	overrides       *[]string
	fromEnvironment *bool
	settings        *config.Broker
	running         bool // a broker uses the log directories that were checked

	diagnosis diagnosis
}

// diagnosis is the output.
type diagnosis struct {
	Question string    `json:"question"`
	Trouble  bool      `json:"trouble"`
	Findings []finding `json:"findings"`
}

// finding is one sentence about one subject.
type finding struct {
	Subject string `json:"subject"`
	Trouble bool   `json:"trouble"`
	Says    string `json:"says"`
	Do      string `json:"do,omitempty"`      // the remedy
	Warning bool   `json:"warning,omitempty"` // it is in order, but not for long
}

// note adds something that is in order.
func (d *doctor) note(subject, format string, args ...any) {
	d.diagnosis.Findings = append(d.diagnosis.Findings, finding{Subject: subject, Says: fmt.Sprintf(format, args...)})
}

// warn adds something that is in order but will become a problem, with its remedy.
func (d *doctor) warn(subject, do, format string, args ...any) {
	d.diagnosis.Findings = append(d.diagnosis.Findings, finding{Subject: subject, Warning: true, Says: fmt.Sprintf(format, args...), Do: do})
}

// trouble adds a problem and its remedy.
func (d *doctor) trouble(subject, do, format string, args ...any) {
	d.diagnosis.Trouble = true
	d.diagnosis.Findings = append(d.diagnosis.Findings, finding{Subject: subject, Trouble: true, Says: fmt.Sprintf(format, args...), Do: do})
}

// question is a question that the doctor answers.
type question struct {
	argument string // its subject; empty: the cluster
	ask      func(d *doctor, ctx context.Context, about string) error
}

func questions() map[string]question {
	cluster := func(ask func(*doctor, context.Context) error) question {
		return question{"", func(d *doctor, ctx context.Context, _ string) error { return ask(d, ctx) }}
	}
	return map[string]question{
		"listeners":    cluster((*doctor).listeners),
		"retention":    {"TOPIC", (*doctor).retention},
		"cleaner":      {"TOPIC", (*doctor).cleaner},
		"deletion":     {"TOPIC", (*doctor).deletion},
		"reassignment": cluster((*doctor).reassignment),
		"transactions": cluster((*doctor).transactions),
		"group":        {"NAME", (*doctor).group},
		"zookeeper":    cluster((*doctor).tree),
		"broker":       {"FILE", (*doctor).broker},
	}
}

// exitUnanswered is the exit code if a question could not be answered.
const exitUnanswered = exitCode(2)

func runDoctor(ctx context.Context, env *Env) error {
	d := &doctor{env: env, now: time.Now(), o: newAdminOptions("kafka-doctor", aboutDoctor, "command-config")}
	d.o.operands = "QUESTION [TOPIC|GROUP|FILE]"
	d.o.Lookup("bootstrap-server").Usage = "brokers to connect to, `host:port,...` (required, except by broker, and by zookeeper with --zookeeper)"
	d.o.exits = "0 if nothing is wrong, except perhaps for warnings, 1 if there is a problem, 2 if the question could not be answered."
	asJSON := d.o.Bool("json", false, "print one JSON object instead of sentences")
	d.overrides = d.o.StringArray("override", nil, "with broker: a setting that overrides the file's, `PROPERTY=VALUE`, as of kafka-server-start; may be repeated")
	d.fromEnvironment = d.o.Bool("env", false, "with broker: also take settings from variables KAFKA_*, as in the container image; --override takes precedence")
	d.zookeeper = d.o.String("zookeeper", "", "the ZooKeeper to examine, `host:port[/chroot]`, instead of the one that the brokers use")
	err := d.answer(ctx)
	var code exitCode
	switch {
	case err == nil:
		return d.print(*asJSON)
	case d.o.has("help") || d.o.has("version"):
		return exitCode(0)
	case errors.As(err, &code):
		return exitUnanswered
	}
	env.errorf("kafka-doctor: %s", describe(err))
	return exitUnanswered
}

// answer answers the question on the command line.
func (d *doctor) answer(ctx context.Context) error {
	if err := d.o.parse(d.env); err != nil {
		return err
	}
	if len(d.o.args) == 0 {
		return usagef("no question; use one of %s", strings.Join(slices.Sorted(maps.Keys(questions())), ", "))
	}
	q, ok := questions()[d.o.args[0]]
	switch {
	case !ok:
		return usagef("%s is not a question; use one of %s", d.o.args[0], strings.Join(slices.Sorted(maps.Keys(questions())), ", "))
	case q.argument == "" && len(d.o.args) != 1 || q.argument != "" && len(d.o.args) != 2:
		return usagef("%s", strings.TrimSpace("ask: "+d.o.args[0]+" "+q.argument))
	}
	for _, name := range []string{"override", "env"} {
		if d.o.has(name) && d.o.args[0] != "broker" {
			return usagef("--%s is for the question broker", name)
		}
	}
	d.diagnosis = diagnosis{Question: strings.Join(d.o.args, " "), Findings: []finding{}}
	about := d.o.args[len(d.o.args)-1]
	if needsNoBroker := d.o.args[0] == "broker" || d.o.args[0] == "zookeeper" && d.o.has("zookeeper"); needsNoBroker {
		return q.ask(d, ctx, about)
	}
	if err := d.o.require("bootstrap-server"); err != nil {
		return err
	}
	if d.o.args[0] == "listeners" {
		if answers, err := d.checkBootstrap(ctx); err != nil || !answers {
			return err
		}
	}
	return d.o.connect(ctx, d.env, func(ctx context.Context, cl *kgo.Client) error {
		d.cl, d.adm = cl, kadm.NewClient(cl)
		return q.ask(d, ctx, about)
	})
}

// print prints the findings and returns the exit code.
func (d *doctor) print(asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(d.env.Stdout)
		e.SetEscapeHTML(false)
		if err := e.Encode(d.diagnosis); err != nil {
			return err
		}
	} else {
		for _, f := range d.diagnosis.Findings {
			d.env.printf("%s %s: %s\n", f.mark(), f.Subject, f.Says)
			if f.Do != "" {
				d.env.printf("        -> %s\n", f.Do)
			}
		}
	}
	if d.diagnosis.Trouble {
		return exitCode(1)
	}
	return nil
}

// mark is how a line of the output begins.
func (f finding) mark() string {
	switch {
	case f.Trouble:
		return "TROUBLE"
	case f.Warning:
		return "WARNING"
	}
	return "ok     "
}

// settings are the values of a resource's settings, by name.
type settings map[string]string

func (s settings) number(name string) int64 {
	n, err := strconv.ParseInt(s[name], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// unreachable reports a broker that is registered but does not answer, and what is missing from the findings for it.
func (d *doctor) unreachable(id int32, err error, missing string) {
	d.trouble(fmt.Sprintf("broker %d", id), "start it; if it is not running, its registration ends with its ZooKeeper session, after zookeeper.session.timeout.ms",
		"is registered but cannot be reached, so that %s: %v.", missing, message(err))
}

// settingsOf requests the settings of one topic or broker.
func (d *doctor) settingsOf(ctx context.Context, kind kmsg.ConfigResourceType, name string) (settings, error) {
	found, err := describeConfigs(ctx, d.cl, kind, false, name)
	if err != nil {
		return nil, err
	}
	s := make(settings)
	for _, c := range found[name].Configs {
		if c.Value != nil {
			s[c.Name] = *c.Value
		}
	}
	return s, nil
}

func (d *doctor) topicSettings(ctx context.Context, topic string) (settings, error) {
	return d.settingsOf(ctx, kmsg.ConfigResourceTypeTopic, topic)
}

func (d *doctor) brokerSettings(ctx context.Context, id int32) (settings, error) {
	return d.settingsOf(ctx, kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)))
}

// topicAndSettings is oneTopic with the topic's settings.
func (d *doctor) topicAndSettings(ctx context.Context, name string) (*kmsg.MetadataResponse, *kmsg.MetadataResponseTopic, settings, error) {
	meta, t, err := d.oneTopic(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := d.topicSettings(ctx, name)
	return meta, t, s, err
}

// oneTopic returns a topic's metadata; a missing topic is an error.
func (d *doctor) oneTopic(ctx context.Context, name string) (*kmsg.MetadataResponse, *kmsg.MetadataResponseTopic, error) {
	meta, err := fetchMetadata(ctx, d.cl, name)
	if err != nil {
		return nil, nil, err
	}
	if err := answered(meta.Topics[0].ErrorCode, nil); err != nil {
		return nil, nil, fmt.Errorf("topic %s: %w", name, err)
	}
	return meta, &meta.Topics[0], nil
}

// lasting formats a duration for people.
func lasting(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.1f hours", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	}
	return d.Round(time.Second).String()
}

// counted returns a number of things.
func counted[N int | int64](n N, thing string) string {
	return fmt.Sprintf("%d %s%s", n, thing, pluralOf(int(n)))
}

// at formats a time for people.
func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC") }
