package tools

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/config"
	"barnabas/internal/testcert"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDoctorOnABroker checks whether a broker can start with a file: in place of one that is running, with settings
// that prevent it, and with obstacles in its log directories and in ZooKeeper.
func TestDoctorOnABroker(t *testing.T) {
	t.Parallel()
	d := doctorFor(t, kafkatest.Brokers(2))
	d.placed("one", []int32{0})
	d.placed("both", []int32{0, 1})
	d.produce(&kgo.Record{Topic: "one", Value: []byte("x")})
	empty := t.TempDir()
	krb5 := filepath.Join(t.TempDir(), "krb5.conf")
	d.must(os.WriteFile(krb5, []byte("[libdefaults]\n default_realm = TEST\n"), 0o600))
	ask := func(code int, settings string, words ...string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "server.properties")
		if !strings.Contains(settings, "zookeeper.connect") {
			settings += "\nzookeeper.connect=" + d.ZooKeeper()
		}
		if !strings.Contains(settings, "listeners=") {
			settings += "\nlisteners=PLAINTEXT://localhost:0" // the usual port may be taken
		}
		d.must(os.WriteFile(file, []byte(settings), 0o600))
		d.ask("broker "+file, code, words...)
	}
	first := d.Broker(0).LogDir()
	ask(0, "broker.id=0\nlog.dirs="+first+"\nmetric.reporters=a.B", "a broker can start with them", "without effect here: metric.reporters",
		first+": 2 partitions", "is running and must be stopped first", "belongs to cluster ", "has 2 replicas", "has the only replica of 1 partition,", "is registered, so it is running")
	ask(0, "log.dirs="+first, "has 2 replicas")
	ask(0, "log.dirs="+first+"\nzookeeper.connect= "+d.ZooKeeper()+" , ", "has 2 replicas")
	ask(0, "log.dirs="+filepath.Join(empty, "none"), "does not exist: the broker will create it", "broker.id: is neither set")

	ask(1, "broker.id=x", "broker.id=x", "nothing else was checked")
	ask(1, "log.dirs="+empty+"\nremote.log.storage.system.enable=true\nclient.quota.callback.class=a.B", "there is no tiered storage here", "client.quota.callback.class=a.B")
	ask(1, "broker.id=1\nlog.dirs="+first, "belongs to broker 0, but broker.id is 1")
	ask(1, "log.dirs="+empty+"\nlog.dir.min.free.bytes=9223372036854775807", "has less free space than")
	ask(1, "log.dirs="+empty+"\nlisteners=SSL://localhost:1\nssl.keystore.location=/nowhere\nsecurity.inter.broker.protocol=SSL", "listener SSL", "/nowhere")
	ask(1, "log.dirs="+empty+"\nzookeeper.connect="+d.ZooKeeper()+"/elsewhere", "holds no cluster")
	ask(1, "log.dirs="+empty+"\nlisteners=SSL://localhost:0\nssl.keystore.location="+stores+"server.jks\nssl.keystore.password=secret\nsecurity.inter.broker.protocol=SSL", "listener SSL", "would refuse each other")
	ask(1, "log.dirs="+empty+"\nlisteners=PLAINTEXT://localhost:0,SASL_PLAINTEXT://localhost:0\nsasl.enabled.mechanisms=GSSAPI\nsasl.kerberos.service.name=kafka\njava.security.krb5.conf="+krb5+
		"\nlistener.name.sasl_plaintext.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab=\"/nowhere\" principal=\"kafka/localhost@TEST\";", "gssapi.sasl.jaas.config: its keyTab /nowhere", "no such file")
	ask(1, "log.dirs="+empty+"\nlisteners=PLAINTEXT://"+d.Broker(1).Addr(), "another program listens on "+d.Broker(1).Addr())
	ask(1, "log.dirs="+empty+"\nlisteners=PLAINTEXT://localhost:0\nmetrics.listener="+d.ZooKeeper(), "another program listens on "+d.ZooKeeper())
	ask(1, "log.dirs="+empty+"\nlisteners=PLAINTEXT://192.0.2.1:9092", "cannot listen on 192.0.2.1 here")

	d.must(os.Mkdir(filepath.Join(empty, "notes"), 0o700))
	ask(1, "log.dirs="+empty, filepath.Join(empty, "notes"), "is not a partition's directory")
	d.must(os.WriteFile(filepath.Join(empty, "meta.properties"), []byte("version=0\nbroker.id=0\ncluster.id=other\n"), 0o600))
	ask(1, "log.dirs="+empty, "belongs to cluster other")
	d.must(os.WriteFile(filepath.Join(empty, "meta.properties"), []byte("version=1\nnode.id=0\n"), 0o600))
	ask(1, "log.dirs="+empty, "a broker in ZooKeeper mode has version 0")
}

// TestDoctorOnOverriddenSettings: overrides on the command line and from the environment apply as at a start.
func TestDoctorOnOverriddenSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "container.properties")
	if err := os.WriteFile(file, []byte("listeners=PLAINTEXT://:0\nlog.dirs="+filepath.Join(dir, "kafka-logs")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	logins := filepath.Join(dir, "jaas.conf")
	zookeeper := []string{"zookeeper.embedded=true", "zookeeper.connect=localhost:1"}
	for _, test := range []struct {
		name     string
		settings []string // of the environment
		args     string
		code     int
		says     string
	}{
		{"nothing", zookeeper, "", 1, "zookeeper.connect"},
		{"the environment", zookeeper, "--env", 0, "a broker can start with them"},
		{"the command line", nil, "--override zookeeper.embedded=true --override zookeeper.connect=localhost:1", 0, "a broker can start with them"},
		{"an unknown variable", append(zookeeper, "client.users=a"), "--env", 0, "not known, and so without effect: client.users"},
		{"the command line over the environment", zookeeper, "--override broker.id=x --env", 1, "broker.id=x"},
		{"what is no setting", nil, "--override x", 2, "--override x: must be key=value"},
		{"logins to ZooKeeper", []string{"zookeeper.connect=127.0.0.1:1", "java.security.auth.login.config=" + logins}, "--env", 1, logins},
		{"TLS to ZooKeeper", []string{"zookeeper.connect=127.0.0.1:1", "zookeeper.ssl.client.enable=true", "zookeeper.ssl.truststore.location=/nowhere"}, "--env", 1, "zookeeper.ssl.truststore.location=/nowhere"},
		{"nodes of nobody", append(zookeeper, "zookeeper.set.acl=true"), "--env", 1, "would not know for whom to keep nodes"},
	} {
		var stdout, stderr bytes.Buffer
		env := &Env{Args: append(strings.Fields(test.args), "broker", file), Settings: test.settings, Stdout: &stdout, Stderr: &stderr}
		i := slices.IndexFunc(All(), func(tool Tool) bool { return tool.Name == "kafka-doctor" })
		if code := All()[i].Run(t.Context(), env); code != test.code || !strings.Contains(stdout.String()+stderr.String(), test.says) {
			t.Errorf("%s: exit code %d: %s%s", test.name, code, &stdout, &stderr)
		}
	}
	if out := runTool(t, t.Context(), "", "kafka-doctor", "zookeeper", "--zookeeper", "localhost:1", "--override", "a=b"); out.code != 2 || !strings.Contains(out.stderr, "--override is for the question broker") {
		t.Errorf("%+v", out)
	}
}

// TestDoctorOnLogDirs: what keeps a broker from starting with its log directories, whatever their names.
func TestDoctorOnLogDirs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	mark := func(dir string, id int) string {
		dir = filepath.Join(root, dir)
		for path, text := range map[string]string{"meta.properties": fmt.Sprintf("version=0\nbroker.id=%d\n", id), "t-0/x": ""} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700), os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	one, two, odd := mark("one", 1), mark("two", 2), mark("we[i]rd", 1)
	linked := filepath.Join(root, "linked")
	if err := os.Symlink(one, linked); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		dirs []string
		id   int
		want string
	}{
		{[]string{one, two}, -1, "true log directories disagree"},
		{[]string{one, odd}, -1, "false is running"},
		{[]string{one, linked}, 1, "true is the same directory as " + one},
		{[]string{one, one + "/"}, 1, "true is the same directory as " + one},
		{[]string{filepath.Join(root, "new", "er")}, 1, "false the broker will create it"},
		{[]string{filepath.Join(root, "new"), filepath.Join(root, "new") + "/"}, 1, "true is the same directory as"},
		{[]string{filepath.Join(one, "meta.properties", "x")}, 1, "true not a directory"},
	} {
		d := new(doctor)
		d.logDirs(&config.Broker{LogDirs: test.dirs, BrokerID: test.id})
		trouble, says, _ := strings.Cut(test.want, " ")
		if said := fmt.Sprint(d.diagnosis.Findings); fmt.Sprint(d.diagnosis.Trouble) != trouble || trouble == "true" && !strings.Contains(said, says) {
			t.Errorf("%v: %s", test.dirs, said)
		}
	}
}

// TestDoctorOnKeystores: findings about a TLS listener are the errors of a start.
func TestDoctorOnKeystores(t *testing.T) {
	t.Parallel()
	ca, another := testcert.NewAuthority(t, "ca"), testcert.NewAuthority(t, "another")
	sound, stranger := ca.Issue("broker").Files(ca), another.Issue("broker").Files(ca)
	for _, test := range []struct {
		name    string
		with    map[string]string
		trouble bool
		says    string
	}{
		{"sound", sound, false, "the certificate of CN=broker,O=Barnabas is valid until"},
		{"no key", nil, true, "listener.name.ssl.ssl.keystore.location: listener SSL has protocol SSL, so it or ssl.keystore.location must be set, or ssl.keystore.key."},
		{"no file", map[string]string{"ssl.keystore.location": "/nowhere", "ssl.keystore.password": "x"}, true, "ssl.keystore.location=/nowhere: open /nowhere"},
		{"a stranger", stranger, true, "ssl.truststore.location: brokers speak to each other by listener SSL, and would refuse each other"},
		{"a suite that is unknown here", with(sound, "ssl.cipher.suites", "TLS_AES_128_GCM_SHA256,TLS_NEVER"), false, "TLS_NEVER"},
	} {
		b, err := config.Parse(with(with(test.with, "listeners", "SSL://:1"), "security.inter.broker.protocol", "SSL"))
		if err != nil {
			t.Fatal(err)
		}
		d := &doctor{now: time.Now().Add(-soonExpired)} // the certificates are valid for one day
		d.keystores(b)
		if said := fmt.Sprint(d.diagnosis.Findings); d.diagnosis.Trouble != test.trouble || !strings.Contains(said, test.says) {
			t.Errorf("%s: %s", test.name, said)
		}
	}
}

// TestDoctorOnCertificatesThatEnd: a certificate that is valid for some more days is no trouble.
func TestDoctorOnCertificatesThatEnd(t *testing.T) {
	t.Parallel()
	ca := testcert.NewAuthority(t, "ca")
	b, err := config.Parse(with(ca.Issue("broker").Files(ca), "listeners", "PLAINTEXT://:1,SSL://:2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		later      time.Duration
		mark, says string
	}{
		{0, "WARNING", "the certificate of CN=broker,O=Barnabas expires in "},
		{-soonExpired, "ok     ", "is valid until"},
		{48 * time.Hour, "TROUBLE", "clients will reject it"},
	} {
		d := &doctor{now: time.Now().Add(test.later)}
		d.keystores(b)
		if said := d.diagnosis.Findings; len(said) != 1 || said[0].mark() != test.mark || !strings.Contains(said[0].Says, test.says) || d.diagnosis.Trouble != (test.mark == "TROUBLE") {
			t.Errorf("%v later: %v", test.later, said)
		}
	}
}

// TestDoctorOnKerberos: findings about a GSSAPI listener are the errors of a start.
func TestDoctorOnKerberos(t *testing.T) {
	t.Parallel()
	krb5 := filepath.Join(t.TempDir(), "krb5.conf")
	testcert.Write(t, krb5, "[libdefaults]\n default_realm = TEST\n")
	const key = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
	for says, settings := range map[string]map[string]string{
		"its keyTab /nowhere: ":                   {"java.security.krb5.conf": krb5},
		"java.security.krb5.conf: open /nowhere":  {"java.security.krb5.conf": "/nowhere"},
		"both be set, or neither":                 {"java.security.krb5.conf": krb5, "java.security.krb5.realm": "TEST"},
		"sasl.kerberos.principal.to.local.rules:": {"java.security.krb5.conf": krb5, "sasl.kerberos.principal.to.local.rules": "RULE:x"},
	} {
		maps.Copy(settings, map[string]string{"listeners": "SASL_PLAINTEXT://:1", "security.inter.broker.protocol": "SASL_PLAINTEXT", "zookeeper.connect": "localhost:1",
			"sasl.enabled.mechanisms": "GSSAPI", "sasl.mechanism.inter.broker.protocol": "GSSAPI", "sasl.kerberos.service.name": "kafka",
			key: config.LoginModules()["GSSAPI"] + ` required useKeyTab=true storeKey=true keyTab="/nowhere" principal="kafka/localhost@TEST";`})
		b, err := config.Parse(settings)
		if err != nil {
			t.Fatal(err)
		}
		d := new(doctor)
		d.keytabs(b)
		if said := fmt.Sprint(d.diagnosis.Findings); !d.diagnosis.Trouble || !strings.Contains(said, key+": ") || !strings.Contains(said, says) {
			t.Errorf("%s: %s", says, said)
		}
	}
}

// with returns settings with one of them changed.
func with(settings map[string]string, key, value string) map[string]string {
	all := map[string]string{"zookeeper.connect": "localhost:1", key: value}
	maps.Copy(all, settings)
	return all
}

// TestOlderProtocols: brokers registered with a protocol before 2.7 are in order if this one will be registered with
// such a protocol, too.
func TestOlderProtocols(t *testing.T) {
	t.Parallel()
	z := znodes{"/brokers/ids/2": znode{data: []byte(`{"version":4,"endpoints":["PLAINTEXT://a:2"]}`)}}
	d := new(doctor)
	if d.place(z, 1, &config.Broker{InterBrokerProtocolVersion: config.IBP26IV0}); d.diagnosis.Trouble {
		t.Error(d.diagnosis.Findings)
	}
}

// TestPlacesOfBrokers examines trees of ZooKeeper.
func TestPlacesOfBrokers(t *testing.T) {
	t.Parallel()
	const state = `{"controller_epoch":3,"leader":%d,"leader_epoch":0,"isr":%s}`
	sound := map[string]string{
		"/brokers/ids/1": `{"version":5,"endpoints":["PLAINTEXT://a:1"]}`, "/brokers/ids/2": `{"version":5,"endpoints":["PLAINTEXT://a:2"]}`,
		"/controller": `{"brokerid":2,"kraftControllerEpoch":-1}`, "/brokers/topics/t": `{"partitions":{"0":[1,2],"1":[2]},"version":3}`,
		"/brokers/topics/t/partitions/0/state": fmt.Sprintf(state, 1, "[1,2]"), "/brokers/topics/t/partitions/1/state": fmt.Sprintf(state, 2, "[2]"),
	}
	for _, test := range []struct{ name, path, data, want string }{
		{"sound", "/x", "", "has 1 replica."},
		{"killed, or another one", "/x", "", "none uses the log directories"},
		{"the controller", "/controller", `{"brokerid":1,"kraftControllerEpoch":-1}`, "replace it last"},
		{"a late replica", "/brokers/topics/t/partitions/0/state", fmt.Sprintf(state, 2, "[2]"), "is out of sync for 1"},
		{"alone in sync", "/brokers/topics/t/partitions/0/state", fmt.Sprintf(state, 1, "[1]"), "true has the only replica in sync of 1 partition with"},
		{"a migration", "/controller", `{"brokerid":3000,"kraftControllerEpoch":4}`, "true the cluster is being migrated to KRaft"},
		{"a migration begun", "/migration", "{}", "true the cluster is being migrated to KRaft"},
		{"its address is taken", "/brokers/ids/2", `{"version":5,"endpoints":["PLAINTEXT://taken:9"]}`, "true taken:9 is advertised by broker 2 already"},
		{"an old broker", "/brokers/ids/2", `{"version":4,"endpoints":["PLAINTEXT://a:2"]}`, "true is registered in format 4"},
		{"a broken one", "/brokers/ids/2", "{", "true cannot be read"},
	} {
		z := make(znodes)
		for path, data := range sound {
			z[path] = znode{data: []byte(data)}
		}
		z[test.path] = znode{data: []byte(test.data)}
		d := new(doctor)
		d.place(z, 1, &config.Broker{InterBrokerProtocolVersion: config.IBP39IV0, AdvertisedListeners: []config.Listener{{Host: "taken", Port: 9}}})
		d.replicasOf(z, 1)
		if said := fmt.Sprint(d.diagnosis.Findings); !strings.Contains(said, test.want) || d.diagnosis.Trouble != strings.HasPrefix(test.want, "true") {
			t.Errorf("%s: %s", test.name, said)
		}
	}
}

// TestUnwritable: files of another user are found, whatever their names.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "logs [1]")
	partition := filepath.Join(dir, "t-0")
	file := filepath.Join(partition, "00000000000000000000.log")
	if err := os.MkdirAll(partition, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if path, err := unwritable(dir, 2); path != "" || err != nil {
		t.Errorf("%s: %v", path, err)
	}
	if os.Getuid() == 0 { // root may write to everything
		return
	}
	for _, path := range []string{file, partition, dir} {
		if err := os.Chmod(path, 0o500); err != nil {
			t.Fatal(err)
		}
		if got, err := unwritable(dir, 2); got != path || err == nil {
			t.Errorf("%s, %v instead of %s", got, err, path)
		}
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
