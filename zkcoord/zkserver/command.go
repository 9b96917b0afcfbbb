package zkserver

import (
	"fmt"
	"slices"
	"strings"
)

// fourLetterWords are the commands that are sent without a frame and answered with text.
var fourLetterWords = map[string]bool{
	"conf": true, "cons": true, "envi": true, "isro": true, "mntr": true, "ruok": true, "srvr": true, "stat": true, "wchs": true,
}

// version is the version in the responses to commands; tools look for the number at the beginning.
const version = "3.8.4-barnabas"

func (l *loop) fourLetterWord(word string) string {
	switch word {
	case "ruok":
		return "imok"
	case "isro":
		return "rw"
	case "srvr":
		return "Zookeeper version: " + version + "\n" + l.serverLines()
	case "stat":
		return "Zookeeper version: " + version + "\nClients:\n" + l.clientLines() + "\n" + l.serverLines()
	case "cons":
		return l.clientLines() + "\n"
	case "mntr":
		return l.monitorLines()
	case "conf":
		return fmt.Sprintf("dataDir=%s\ntickTime=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nserverId=0\n", l.server.cfg.Dir,
			l.server.cfg.TickTime.Milliseconds(), l.server.cfg.MinTimeout.Milliseconds(), l.server.cfg.MaxTimeout.Milliseconds())
	case "envi":
		return "Environment:\nzookeeper.version=" + version + "\n"
	}
	watches, paths := l.watches.Len() // wchs
	return fmt.Sprintf("%d connections watching %d paths\nTotal watches:%d\n", len(l.watches.byClient), paths, watches)
}

func (l *loop) serverLines() string {
	return fmt.Sprintf("Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: 0\nZxid: 0x%x\nMode: standalone\nNode count: %d\n",
		l.stats.received, l.stats.sent, l.connections(), l.tree.zxid, l.tree.Len())
}

func (l *loop) connections() int {
	count := 0
	for _, s := range l.sessions {
		if s.conn != nil {
			count++
		}
	}
	return count
}

func (l *loop) clientLines() string {
	var lines []string
	for _, s := range l.sessions {
		if s.conn != nil {
			lines = append(lines, fmt.Sprintf(" /%s[1](queued=0,recved=0,sent=0,sid=%s,to=%d,est=%d)\n", s.conn.nc.RemoteAddr(),
				sessionName(s.id), s.timeout.Milliseconds(), s.conn.since.UnixMilli()))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func (l *loop) monitorLines() string {
	watches, _ := l.watches.Len()
	ephemerals := 0
	for _, paths := range l.tree.ephemerals {
		ephemerals += len(paths)
	}
	var b strings.Builder
	for _, metric := range []struct {
		name  string
		value any
	}{
		{"version", version},
		{"server_state", "standalone"},
		{"packets_received", l.stats.received},
		{"packets_sent", l.stats.sent},
		{"num_alive_connections", l.connections()},
		{"outstanding_requests", 0},
		{"znode_count", l.tree.Len()},
		{"watch_count", watches},
		{"ephemerals_count", ephemerals},
		{"approximate_data_size", l.tree.dataBytes},
	} {
		fmt.Fprintf(&b, "zk_%s\t%v\n", metric.name, metric.value)
	}
	return b.String()
}
