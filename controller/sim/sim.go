package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"barnabas/controller"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zksim"

	"github.com/sirupsen/logrus"
)

type topicPartition = zkcoord.TopicPartition

// History describes the history to run.
type History struct {
	Seed  uint64
	Steps int       // before the cluster is healed
	Trace io.Writer // gets a line for everything that happens; may be nil
	Log   io.Writer // gets the controllers' logs; may be nil
}

// world is the simulated cluster.
type world struct {
	rng           *rand.Rand
	trace         io.Writer
	log           *logrus.Entry
	step          int
	zk            *zksim.Ensemble
	admin         *zkcoord.Client // never fails; used for tools and checks
	raw           *zksim.Conn     // of admin
	brokers       []*broker
	packets       []*packet // to a controller or back, including those of closed channels
	allowed       map[topicPartition]*allowedAssignments
	created       int
	records       int
	eventInterval int  // how rare events are
	losses        int  // how rare losses in transit are
	keep          bool // delete.topic.enable is false
	old           bool // leaders write ISRs themselves (inter.broker.protocol.version before 2.7)
	calm          bool // no more faults
	check         checks
	failure       error

	read struct { // topics as they were after a write
		zxid   int64
		topics []zkcoord.TopicInfo
	}
}

const brokerCount = 4

// errUnsettled reports that the cluster never comes to rest.
var errUnsettled = errors.New("the healed cluster does not settle")

// Run runs a history and returns the first violated invariant.
func Run(h History) error {
	w := newWorld(h)
	defer w.close()
	for w.step = 1; w.step <= h.Steps && w.failure == nil; w.step++ {
		w.act()
		w.checkStep()
	}
	if w.failure == nil {
		w.settle()
	}
	if w.failure == nil {
		w.checkSettled()
	}
	if w.failure != nil {
		return fmt.Errorf("seed %d, steps %d, at step %d: %w", h.Seed, h.Steps, w.step, w.failure)
	}
	return nil
}

func newWorld(h History) *world {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	logger.SetLevel(logrus.PanicLevel)
	if h.Log != nil {
		logger.SetOutput(h.Log)
		logger.SetLevel(logrus.DebugLevel)
	}
	w := &world{
		rng:     rand.New(rand.NewPCG(h.Seed, 0)),
		trace:   h.Trace,
		log:     logrus.NewEntry(logger),
		zk:      zksim.New(),
		allowed: make(map[topicPartition]*allowedAssignments),
		check:   newChecks(),
	}
	w.old = w.rng.IntN(4) == 0
	w.admin, w.raw = w.zk.Connect(zkcoord.Config{Logger: w.log})
	w.must(w.admin.EnsureTopNodes(nobody))
	protocol := controller.NewestProtocol()
	protocol.AlterPartition = !w.old
	for id := range int32(brokerCount) {
		w.brokers = append(w.brokers, &broker{w: w, id: id, protocol: protocol, disk: make(map[topicPartition]*replica)})
	}
	w.eventInterval, w.losses = 6+w.rng.IntN(40), 20+w.rng.IntN(200)
	for _, b := range w.brokers {
		b.start()
	}
	return w
}

func (w *world) close() {
	for _, b := range w.brokers {
		b.kill()
	}
}

func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.say("FAILED: %v", w.failure)
	}
}

func (w *world) say(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%4d "+format+"\n", append([]any{w.step}, args...)...)
	}
}

// chance returns true once in n times, while there are faults.
func (w *world) chance(n int) bool { return !w.calm && w.rng.IntN(n) == 0 }

func pick[T any](w *world, from []T) (T, bool) {
	if len(from) == 0 {
		var none T
		return none, false
	}
	return from[w.rng.IntN(len(from))], true
}

// running returns the brokers whose process is running and not paused.
func (w *world) running() []*process {
	var up []*process
	for _, b := range w.brokers {
		if b.proc != nil && !b.proc.paused {
			up = append(up, b.proc)
		}
	}
	return up
}

func (w *world) process(id int32) *process {
	if id < 0 || int(id) >= len(w.brokers) || w.brokers[id].proc == nil || w.brokers[id].proc.paused {
		return nil
	}
	return w.brokers[id].proc
}

// someReplicas returns brokers for a partition.
func (w *world) someReplicas() []int32 {
	order := w.rng.Perm(brokerCount)
	replicas := make([]int32, 1+w.rng.IntN(3))
	for i := range replicas {
		replicas[i] = int32(order[i])
	}
	return replicas
}

// topics lists the topics in order.
func (w *world) topics() []zkcoord.TopicInfo {
	if w.read.zxid == w.zk.Zxid() {
		return w.read.topics
	}
	names, err := w.admin.Topics(nobody)
	w.must(err)
	slices.Sort(names)
	topics := make([]zkcoord.TopicInfo, 0, len(names))
	for _, name := range names {
		t, _, err := w.admin.Topic(nobody, name)
		w.must(err)
		topics = append(topics, t)
	}
	w.read.zxid, w.read.topics = w.zk.Zxid(), topics
	return topics
}
