package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestPasswordsOfApacheKafka sets passwords with Apache Kafka's tool before a broker runs and with ours while it runs.
// Then Apache Kafka takes the broker's place with another secret, and our broker again: each can decrypt what the other
// has encrypted.
func TestPasswordsOfApacheKafka(t *testing.T) {
	peer(t)
	const first, second = "listener.name.plaintext.ssl.keystore.password", "listener.name.plaintext.ssl.key.password"
	zk := zookeeper(t)
	controller := newProcess(t, 9, zk) // without a controller Apache Kafka does not encrypt them again
	controller.start()
	ours := newProcess(t, 3, zk, "password.encoder.secret=one")
	ours.start() // it creates the znodes
	ours.stop()
	peerTool(t, "", "kafka.admin.ConfigCommand", "--zookeeper", zk, "--alter", "--entity-type", "brokers", "--entity-name", "3",
		"--add-config", first+"=hidden,password.encoder.secret=one,password.encoder.cipher.algorithm=AES/GCM/NoPadding")
	ours.start()
	checkPasswords(t, ours.addr(), first)
	setPassword(t, ours.addr(), second)
	checkPasswords(t, ours.addr(), first, second)
	ours.stop()

	theirs, _, stop := startPeer(t, 3, zk, "password.encoder.secret=two", "password.encoder.old.secret=one", "password.encoder.keyfactory.algorithm=PBKDF2WithHmacSHA256")
	checkPasswords(t, theirs, first, second)
	stop()

	again := newProcess(t, 3, zk, "password.encoder.secret=two")
	again.start()
	checkPasswords(t, again.addr(), first, second)
	if strings.Contains(again.log()+ours.log(), "dynamic setting ignored") {
		t.Error("a password cannot be decrypted")
	}
}

func setPassword(t *testing.T, addr, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	value := "also hidden"
	responses, err := adminAt(t, addr).AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, 3)
	if err == nil {
		err = responses[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkPasswords waits until a broker has exactly these passwords, and checks that it shows none of them.
func checkPasswords(t *testing.T, addr string, want ...string) {
	t.Helper()
	slices.Sort(want)
	adm := adminAt(t, addr)
	await(t, fmt.Sprintf("the passwords are %v", want), func(ctx context.Context) (string, bool) {
		described, err := adm.DescribeBrokerConfigs(ctx, 3)
		must(t, err)
		var got []string
		for _, c := range described[0].Configs {
			if !strings.HasPrefix(c.Key, "listener.name.") {
				continue
			}
			got = append(got, c.Key)
			if !c.Sensitive || c.Value != nil {
				t.Errorf("%s is shown in plaintext", c.Key)
			}
		}
		slices.Sort(got)
		return fmt.Sprint(got), slices.Equal(got, want)
	})
}
