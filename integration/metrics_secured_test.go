package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testport"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// guardedThreeListeners returns the settings of a broker with a listener of each kind, ACLs, tokens and a separate
// control plane listener.
func guardedThreeListeners(t *testing.T, port int) (addrs map[string]string, settings []string) {
	addrs, settings = threeListeners(t, port)
	for i, s := range settings {
		if list, ok := strings.CutPrefix(s, "listeners="); ok {
			settings[i] = fmt.Sprintf("listeners=%s,CONTROL://127.0.0.1:%d", list, testport.Reserve(t))
		}
		if strings.HasPrefix(s, "listener.security.protocol.map=") {
			settings[i] += ",CONTROL:PLAINTEXT"
		}
	}
	return addrs, append(settings, "control.plane.listener.name=CONTROL", "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
		"super.users=User:ANONYMOUS", "delegation.token.secret.key=abc", "connection.failed.authentication.delay.ms=0")
}

// visit connects each kind of client: in plaintext, which writes and reads, with TLS, with a login that succeeds but
// lacks a right, and with a wrong password. All but the last stay connected until the test ends.
func visit(t *testing.T, addrs map[string]string) {
	t.Helper()
	connect := func(opts ...kgo.Opt) *kgo.Client {
		cl := newClient(t, append(opts, kgo.SoftwareNameAndVersion("visitor", "1.2"), kgo.RequestRetries(0))...)
		t.Cleanup(cl.Close)
		return cl
	}
	cl := connect(kgo.SeedBrokers(addrs["PLAINTEXT"]), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"))
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if fetches := cl.PollFetches(t.Context()); fetches.Err() != nil {
		t.Fatal(fetches.Err())
	}
	if err := connect(kgo.SeedBrokers(addrs["SECURE"]), kgo.DialTLSConfig(clientTLS(t))).Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	login := func(password string) *kadm.Client {
		return kadm.NewClient(connect(kgo.SeedBrokers(addrs["LOGIN"]), kgo.SASL(plain.Auth{User: "alice", Pass: password}.AsMechanism())))
	}
	alice := login("pw")
	if _, err := alice.CreateDelegationToken(t.Context(), kadm.CreateDelegationToken{}); err != nil {
		t.Error(err)
	}
	if created, err := alice.CreateTopic(t.Context(), 1, 1, nil, "denied"); err == nil && created.Err == nil {
		t.Error("alice may create a topic")
	}
	if _, err := login("wrong").ListTopics(t.Context()); err == nil {
		t.Error("a wrong password is accepted")
	}
}

// TestMetricsOfSecurity: connections, logins and refusals are counted by listener.
func TestMetricsOfSecurity(t *testing.T) {
	addr, addrs := startMeasured(t)
	visit(t, addrs)
	_, page := scrape(t, addr, "/metrics")
	lines := strings.Split(page, "\n")
	const of = `{listener="%s",networkProcessor="0"} `
	for _, want := range []string{
		"connection_count" + fmt.Sprintf(of, "SECURE"), "connection_creation_total" + fmt.Sprintf(of, "SECURE"),
		"successful_authentication_total" + fmt.Sprintf(of, "SECURE"), "connection_count" + fmt.Sprintf(of, "LOGIN"),
		"successful_authentication_total" + fmt.Sprintf(of, "LOGIN"), "failed_authentication_total" + fmt.Sprintf(of, "LOGIN"),
		"connection_close_total" + fmt.Sprintf(of, "LOGIN"),
		`connections_software{clientSoftwareName="visitor",clientSoftwareVersion="1.2",listener="LOGIN",networkProcessor="0"} `,
		`connections_tls_info{cipher="TLS_AES_128_GCM_SHA256",listener="SECURE",networkProcessor="0",protocol="TLSv1.3"} `,
	} {
		if !slices.ContainsFunc(lines, func(l string) bool {
			value, ok := strings.CutPrefix(l, "kafka_server_socket_server_metrics_"+want)
			return ok && value != "0"
		}) {
			t.Errorf("%s is missing or 0", want)
		}
	}
	for _, want := range []string{
		`kafka_server_socket_server_metrics_failed_authentication_total{listener="SECURE",networkProcessor="0"} 0`,
		`kafka_network_requestmetrics_errors_total{error="TOPIC_AUTHORIZATION_FAILED",request="CreateTopics"} 1`,
		`kafka_network_requestmetrics_requests_total{request="CreateDelegationToken",version="3"} 1`,
		`kafka_network_socketserver_controlplaneexpiredconnectionskilledcount 0`, `kafka_network_requestchannel_controlplanerequestqueuesize 0`,
		`kafka_server_socket_server_metrics_connection_count{listener="CONTROL",networkProcessor="0"} 0`,
		`kafka_security_aclauthorizer_zookeeperexpires_total 0`, `kafka_server_fetchsessioncache_numincrementalfetchsessions 1`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("not served: %s", want)
		}
	}
	if strings.Contains(page, "alice") || strings.Contains(page, `"pw"`) {
		t.Error("the metrics contain users")
	}
}

// TestStatusPageOfSecurity: the page describes each listener, and shows no users or passwords.
func TestStatusPageOfSecurity(t *testing.T) {
	addr, addrs := startMeasured(t)
	visit(t, addrs)
	_, told := scrape(t, addr, "/status.json")
	var s struct {
		Listeners []struct {
			Name, Protocol, Address string
			Open                    int
			Accepted, Refused       int64
			Expires                 int64
		}
		Trouble []string
	}
	if err := json.Unmarshal([]byte(told), &s); err != nil || len(s.Listeners) != 4 || len(s.Trouble) != 0 {
		t.Fatalf("%v %s", err, told)
	}
	for _, l := range s.Listeners {
		if l.Name != "CONTROL" && (l.Address != addrs[l.Name] || l.Open == 0) || (l.Expires != 0) != (l.Name == "SECURE") ||
			(l.Accepted > 0) != (l.Name == "SECURE" || l.Name == "LOGIN") || (l.Refused > 0) != (l.Name == "LOGIN") {
			t.Errorf("%+v", l)
		}
	}
	pages := told
	if hasProgram("chromium") {
		dom := chromium(t, t.Context(), "--virtual-time-budget=8000", "--dump-dom", "http://"+addr+"/")
		for _, want := range []string{"Listeners of this broker", ">SECURE<", ">SASL_PLAINTEXT<", ">" + addrs["LOGIN"] + "<", "Certificate until"} {
			if !strings.Contains(dom, want) {
				t.Errorf("the page does not contain %q", want)
			}
		}
		pages += dom
	}
	for _, secret := range []string{"alice", `"pw"`, "secret", "abc"} {
		if strings.Contains(pages, secret) {
			t.Errorf("the page contains %q", secret)
		}
	}
}

// startMeasured starts our broker with metrics on an address of its own.
func startMeasured(t *testing.T) (metrics string, addrs map[string]string) {
	t.Helper()
	p := newProcess(t, 0, zookeeper(t))
	addrs, settings := guardedThreeListeners(t, p.port)
	metrics = testport.Address(t)
	p.add(append(settings, "metrics.listener="+metrics)...)
	p.start()
	return metrics, addrs
}

// TestMetricsAreNamedAsApacheKafkas: the names that the JMX exporter derives from Apache Kafka's MBeans by the usual
// rules include every name served here, with the same labels, and no others except for those without a counterpart; and
// rejected batches are counted in the same way.
func TestMetricsAreNamedAsApacheKafkas(t *testing.T) {
	jmx := testport.Reserve(t)
	t.Setenv("PEER_OPTS", fmt.Sprintf("-Dcom.sun.management.jmxremote.port=%d -Dcom.sun.management.jmxremote.rmi.port=%[1]d -Dcom.sun.management.jmxremote.host=127.0.0.1 "+
		"-Dcom.sun.management.jmxremote.authenticate=false -Dcom.sun.management.jmxremote.ssl=false -Djava.rmi.server.hostname=127.0.0.1", jmx))
	p := newPeer(t, 0, zookeeper(t))
	theirs, settings := guardedThreeListeners(t, p.port)
	p.settings = settings
	p.start()
	t.Setenv("PEER_OPTS", "")
	visit(t, theirs)
	sendBadBatches(t, theirs["PLAINTEXT"])
	names := make(map[string]string)
	for bean, value := range mbeans(t, jmx) {
		names[exported(bean)] = value
	}
	addr, ours := startMeasured(t)
	visit(t, ours)
	sendBadBatches(t, ours["PLAINTEXT"])
	_, page := scrape(t, addr, "/metrics")
	seen := make(map[string]bool)
	for line := range strings.Lines(page) {
		name := series(line)
		if !strings.HasPrefix(name, "kafka_") || seen[name] {
			continue
		}
		seen[name] = true
		value, ok := names[name]
		if !ok && !slices.Contains(onceCounted, name) {
			t.Errorf("Apache Kafka has no %s", name)
		}
		if _, got, _ := strings.Cut(strings.TrimSpace(line), " "); slices.Contains(countedAlike, name) && (got != value || got == "0") {
			t.Errorf("%s is %s, in Apache Kafka %s", name, got, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !seen[name] && strings.HasPrefix(name, "kafka_") && !strings.Contains(name, ".") && !withoutCounterpart.MatchString(name) {
			t.Errorf("not served: %s", name)
		}
	}
	if len(seen) < 80 {
		t.Errorf("%d names are served: %s", len(seen), page)
	}
}

// withoutCounterpart matches the names that are not served: see docs/compat.md.
var withoutCounterpart = regexp.MustCompile(strings.Join([]string{
	`_(rate|ratio|reauthentication_latency_(avg|max)|request_size_(avg|max))[^_]*$`, // whoever reads counters can compute these
	`_channel_metrics_`, `_forwarding_metrics_`, `_alter_partition_metrics_`, // per connection to another broker
	`_socket_server_metrics_(select|network_io|io|iotime)_`, // for selectors
	`_socket_server_metrics_(memorypool.*|(ip_)?connection_accept_throttle_time)`,
	`acceptorblocked_?percent`, `_processor_idle_percent`, `requesthandleravgidlepercent$`, // per thread; idle percentages are served for all threads together
	`^kafka_server_(controllermutation|fetch|produce|request)_queue_size$`, `_request_exempt_request_time$`, // for queues of throttled requests
	`_requestmetrics_(messageconversionstimems|temporarymemorybytes)request$`, `_logcleaner_max_buffer_utilization_percent$`,
	`_transactionmarkerchannelmanager_(logappendretry|unknowndestination)queuesize$`,
	`_replica(fetcher|alterlogdirs)manager_minfetchrate`, `_replicaalterlogdirsmanager_failedpartitionscount`,
	`_zookeeper(authfailures|readonlyconnects|saslauthentications)_total$`, `_zkmigrationstate$`,
	`_sessionstate$`, `_app_info_(version|commit_?id)(id)?$`, `_kafkaserver_clusterid$`, // not numbers
	`_kafka_metrics_count_count$`, `_yammer_metrics_count$`, // number of metrics
}, "|"))

// countedAlike are the names that count what sendBadBatches has sent.
var countedAlike = []string{
	"kafka_server_brokertopicmetrics_invalidmagicnumberrecords_total", "kafka_server_brokertopicmetrics_invalidmessagecrcrecords_total",
	"kafka_server_brokertopicmetrics_invalidoffsetorsequencerecords_total", "kafka_server_brokertopicmetrics_nokeycompactedtopicrecords_total",
}

// sendBadBatches sends batches that a broker rejects: with a wrong checksum, of mixed formats, with a wrong count,
// without keys.
func sendBadBatches(t *testing.T, addr string) {
	t.Helper()
	newest, second := kversion.Stable(), kversion.Stable()
	newest.SetMaxKeyVersion(int16(kmsg.Produce), 9)
	second.SetMaxKeyVersion(int16(kmsg.Produce), 2)
	clients := make(map[int16]*kgo.Client)
	for version, to := range map[int16]*kversion.Versions{9: newest, 2: second} {
		cl := newClient(t, kgo.SeedBrokers(addr), kgo.MaxVersions(to))
		t.Cleanup(cl.Close)
		clients[version] = cl
	}
	compact := "compact"
	if _, err := kadm.NewClient(clients[9]).CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &compact}, "compacted"); err != nil {
		t.Fatal(err)
	}
	if err := clients[9].ProduceSync(t.Context(), &kgo.Record{Topic: "compacted", Key: []byte("k")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w := record.NewBuilder()
	w.Add(1, nil, []byte("a"))
	w.Add(1, nil, []byte("b"))
	keyless := w.MustBuild()
	broken := bytes.Clone(keyless)
	broken[len(broken)-1] ^= 1
	w.BaseSequence, w.ProducerID, w.ProducerEpoch = -1, 7, 0
	w.Add(1, []byte("k"), nil)
	mixed := record.AppendMessage(record.AppendMessage(nil, 1, 0, 5, []byte("k"), nil), 0, 1, 5, []byte("k"), nil)
	for _, b := range []struct {
		version int16
		data    []byte
	}{{9, keyless}, {9, broken}, {9, w.MustBuild()}, {2, mixed}} {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Records = b.data
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = 1, 10_000
		req.Topics = []kmsg.ProduceRequestTopic{{Topic: "compacted", Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
		resp, err := clients[b.version].SeedBrokers()[0].Request(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode == 0 {
			t.Errorf("an invalid batch was appended: % x", b.data)
		}
	}
}

// onceCounted are names that Apache Kafka has only once there is something to count, for a topic or between brokers.
var onceCounted = []string{
	"kafka_server_delayedfetchmetrics_expires_totalfetcherType", "kafka_server_delayedproducemetrics_expires_total",
	"kafka_server_brokertopicmetrics_bytesrejected_totaltopic", "kafka_server_brokertopicmetrics_failedfetchrequests_totaltopic",
	"kafka_server_brokertopicmetrics_failedproducerequests_totaltopic", "kafka_server_brokertopicmetrics_fetchmessageconversions_totaltopic",
	"kafka_server_brokertopicmetrics_producemessageconversions_totaltopic",
}

// mbeans reads Apache Kafka's metrics over JMX: DOMAIN:type=...,name=...:ATTRIBUTE, and its value.
func mbeans(t *testing.T, port int) map[string]string {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		cmd := exec.Command(peer(t), "tool", "org.apache.kafka.tools.JmxTool", "--one-time", "true", "--report-format", "properties", "--object-name", "kafka.*:*",
			"--jmx-url", fmt.Sprintf("service:jmx:rmi:///jndi/rmi://127.0.0.1:%d/jmxrmi", port))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output() // empty if an MBean was added or removed meanwhile
		found := make(map[string]string)
		for line := range strings.Lines(string(out)) {
			if i := strings.LastIndexByte(line, '='); i > 0 && strings.HasPrefix(line, "kafka.") {
				found[line[:i]] = strings.TrimSpace(line[i+1:])
			}
		}
		if len(found) > 100 {
			return found
		}
		if time.Now().After(deadline) {
			t.Fatalf("no MBeans: %v", err)
		}
	}
}

// exported returns the name and the labels that the JMX exporter derives from an MBean's attribute by the usual rules;
// without a rule, the name contains the attribute's name.
func exported(bean string) string {
	domain, rest, _ := strings.Cut(bean, ":")
	end := strings.LastIndexByte(rest, ':')
	if end < 0 {
		return ""
	}
	attribute := rest[end+1:]
	var kind, name string
	var labels []string
	for _, property := range regexp.MustCompile(`(\w[\w-]*)=("[^"]*"|[^,]*)`).FindAllStringSubmatch(rest[:end], -1) {
		switch property[1] {
		case "type":
			kind = property[2]
		case "name":
			name = property[2]
		default:
			labels = append(labels, strings.ReplaceAll(property[1], "-", "_"))
		}
	}
	slices.Sort(labels)
	tail := attribute
	switch cut, perSec := strings.CutSuffix(name, "PerSec"); {
	case slices.Contains(labels, "cipher"):
		tail += "_tls_info"
	case slices.Contains(labels, "clientSoftwareName") && name == "":
		tail += "_software"
	case perSec && attribute == "Count":
		tail = cut + "_total"
	case strings.HasSuffix(name, "Percent") && (attribute == "Value" || attribute == "MeanRate"):
		tail = strings.TrimSuffix(name, "Percent") + "_percent"
	case name != "" && (attribute == "Value" || attribute == "Count"): // Count is an attribute of histograms
		tail = name
	case name != "":
		tail = name + "." + attribute // no rule applies
	}
	return strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(domain, ".", "_")+"_"+kind+"_"+tail), "-", "_") + strings.Join(labels, ",")
}

// series returns the name and the labels of a line of our metrics; for a summary, those of one value.
func series(line string) string {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	name, inside, _ := strings.Cut(name, "{")
	var labels []string
	for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(inside+rest, -1) {
		if l[1] != "quantile" {
			labels = append(labels, l[1])
		}
	}
	slices.Sort(labels)
	if strings.Contains(name, "timems_") || strings.Contains(name, "latencyms_") || strings.Contains(name, "bytes_") {
		name = strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_sum")
	}
	return name + strings.Join(labels, ",")
}
