package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/twmb/franz-go/pkg/kerr"
)

// withProviders returns properties with all providers, restricted to a directory and to environment variables A_*.
func withProviders(dir string, props map[string]string) map[string]string {
	for name, class := range map[string]string{"file": "FileConfigProvider", "dir": "DirectoryConfigProvider", "env": "EnvVarConfigProvider"} {
		props["config.providers."+name+".class"] = providerClasses + class
	}
	props["config.providers"] = "file,dir,env"
	props["config.providers.file.param.allowed.paths"] = dir
	props["config.providers.dir.param.allowed.paths"] = dir
	props["config.providers.env.param.allowlist.pattern"] = "A_.*"
	return props
}

func TestVariables(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "secrets")
	if err := os.WriteFile(file, []byte("password = pä\\=ss\nother=${file:x:y}\nempty=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("A_B", "from the environment")
	t.Setenv("B", "excluded")
	want := map[string]string{
		"a": "pä=ss", "b": "<pä=ss|${file:x:y}>", "c": "", "d": "password = pä\\=ss\nother=${file:x:y}\nempty=\n", "e": "from the environment",
		"unknown": "${vault:a:b}", "plain": "$ {x} ${} ${x", "no colon": "${A_B}",
	}
	got, err := ResolveVariables(withProviders(dir, map[string]string{
		"a": "${file:" + file + ":password}", "b": "<${file:" + file + ":password}|${file:" + file + ":other}>", "c": "${file:" + file + ":empty}",
		"d": "${dir:" + dir + ":secrets}", "e": "${env:A_B}", "unknown": "${vault:a:b}", "plain": "$ {x} ${} ${x", "no colon": "${A_B}",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(withProviders(dir, want), got); diff != "" {
		t.Error(diff)
	}
	for text, reason := range map[string]string{
		"${file:" + file + ":missing}": "no such key", "${file:" + file + "2:password}": "no such file", "${file:password}": "names no file",
		"${file:" + dir + "/../x:password}": "excludes", "${file:" + dir + "2/x:password}": "excludes", "${dir:" + dir + ":missing}": "no such file",
		"${dir:" + dir + ":../x}": "no such key", "${dir:/etc:passwd}": "excludes", "${env:B}": "excludes", "${env:A_C}": "no such environment", "${env:x:A_B}": "no path",
	} {
		if _, err := ResolveVariables(withProviders(dir, map[string]string{"key": text})); err == nil || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "key: "+text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestProvidersAreRefused(t *testing.T) {
	for reason, props := range map[string]map[string]string{
		"no class can be loaded": {"config.providers": "a", "config.providers.a.class": "com.example.Vault"},
		"is not absolute":        {"config.providers": "a", "config.providers.a.class": providerClasses + "FileConfigProvider", "config.providers.a.param.allowed.paths": "x"},
		"no such file":           {"config.providers": "a", "config.providers.a.class": providerClasses + "DirectoryConfigProvider", "config.providers.a.param.allowed.paths": "/nowhere"},
		"missing closing":        {"config.providers": "a", "config.providers.a.class": providerClasses + "EnvVarConfigProvider", "config.providers.a.param.allowlist.pattern": "["},
	} {
		if _, err := ResolveVariables(props); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// TestLoadResolvesVariables: a file with secrets elsewhere is read like one that contains them, and is not said to have
// unknown settings.
func TestLoadResolvesVariables(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	secrets := write("secrets", "encoder=s3cret\n")
	file := write("server.properties", "zookeeper.connect=z:2181\nbroker.id=1\nconfig.providers=file\n"+
		"config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"+
		"password.encoder.secret=${file:"+secrets+":encoder}\n")
	b, err := Load(file, nil, []string{"broker.rack=${file:" + secrets + ":encoder}"})
	if err != nil {
		t.Fatal(err)
	}
	if b.String("password.encoder.secret") != "s3cret" || b.Rack != "s3cret" || len(b.Unknown()) > 0 {
		t.Errorf("secret %q, rack %q, unknown %v", b.String("password.encoder.secret"), b.Rack, b.Unknown())
	}
}

// TestVariablesAtRunTime: variables in settings of brokers are replaced by what the providers of the file have, but
// stored as they are. Without a value they are refused, or ignored if they are stored.
func TestVariablesAtRunTime(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "values")
	if err := os.WriteFile(file, []byte("mechanisms=PLAIN\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	static, err := Parse(withProviders(dir, map[string]string{"zookeeper.connect": "x", "broker.id": "1"}))
	if err != nil {
		t.Fatal(err)
	}
	log, lines := test.NewNullLogger()
	d := NewDynamic(static, logrus.NewEntry(log))
	good, bad := "${file:"+file+":mechanisms}", "${file:"+file+":none}"
	next, err := d.AlterBroker(nil, []Op{op("sasl.enabled.mechanisms", OpSet, good)})
	if diff := cmp.Diff(map[string]string{"sasl.enabled.mechanisms": good}, next); diff != "" || err != nil {
		t.Fatal(err, diff)
	}
	setBroker(t, d, map[string]string{"sasl.enabled.mechanisms": good, "custom": bad, "log.cleaner.threads": "2"})
	shown := map[string]string{}
	for _, e := range d.DescribeBroker([]string{"sasl.enabled.mechanisms", "custom", "log.cleaner.threads"}) {
		shown[e.Name] = *e.Value
	}
	if diff := cmp.Diff(map[string]string{"sasl.enabled.mechanisms": "PLAIN", "log.cleaner.threads": "2"}, shown); diff != "" {
		t.Error(diff)
	}
	if got := warnings(lines); len(got) != 1 || got[0].Data["setting"] != "custom" {
		t.Errorf("logged: %v", got)
	}
	if _, err := d.AlterBroker(nil, []Op{op("custom", OpSet, bad)}); code(err) != kerr.InvalidRequest {
		t.Errorf("a variable without a value: %v", err)
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if _, err := d.AlterCluster(nil, []Op{op("log.cleaner.threads", OpSet, "2")}); err != nil {
		t.Errorf("without variables: %v", err)
	}
}
