package integration

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// TestStopWithoutZooKeeper stops brokers of a cluster, its controller among them, whose ZooKeeper is away in one of the ways that
// there are. They end by themselves and say what they could not do.
func TestStopWithoutZooKeeper(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*proxy){
		"it is gone":         func(p *proxy) { p.close() },
		"it does not answer": func(p *proxy) { p.sever(true) },
	} {
		for since, wait := range map[string]time.Duration{"since just now": 0, "for long": 5 * time.Second} {
			t.Run(name+" "+since, func(t *testing.T) {
				t.Parallel()
				line := newProxy(t, zookeeper(t))
				brokers := []*process{newProcess(t, 0, line.addr()), newProcess(t, 1, line.addr())}
				for _, b := range brokers {
					b.start()
				}
				ourTool(t, "", "topics", "--bootstrap-server", brokers[0].addr(), "--create", "--topic", "t", "--replica-assignment", "0:1,1:0")
				away(line)
				time.Sleep(wait)
				var stops sync.WaitGroup
				for _, b := range brokers {
					stops.Go(b.stop)
				}
				stops.Wait()
				for _, b := range brokers {
					log := b.log()
					if !strings.Contains(log, "stopping without handing leaderships over") || !strings.Contains(log, "shut down completed") {
						t.Errorf("%s", log)
					}
				}
			})
		}
	}
}
