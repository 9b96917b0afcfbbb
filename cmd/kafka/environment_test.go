package main

import (
	"testing"

	"barnabas/config"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironmentSettings(t *testing.T) {
	for _, test := range []struct {
		name, variable string
		want           []string
	}{
		{"a setting", "KAFKA_BROKER_ID=1", []string{"broker.id=1"}},
		{"a setting, with a longer prefix", "KAFKA_CFG_BROKER_ID=1", []string{"broker.id=1"}},
		{"Bitnami's for a listener", "KAFKA_CFG_LISTENER_NAME_SASL_SSL_SSL_KEYSTORE_LOCATION=/k", []string{"listener.name.sasl_ssl.ssl.keystore.location=/k"}},
		{"Bitnami's for a mechanism", "KAFKA_CFG_LISTENER_NAME_SASL_PLAINTEXT_PLAIN_SASL_JAAS_CONFIG=x", []string{"listener.name.sasl_plaintext.plain.sasl.jaas.config=x"}},
		{"Bitnami's for a capital letter", "KAFKA_CFG_ZOOKEEPER_CLIENTCNXNSOCKET=x", []string{"zookeeper.clientCnxnSocket=x"}},
		{"others' for a listener", "KAFKA_LISTENER_NAME_SASL__SSL_SSL_KEYSTORE_LOCATION=/k", []string{"listener.name.sasl_ssl.ssl.keystore.location=/k"}},
		{"equals signs in a value", "KAFKA_ADVERTISED_LISTENERS=A://a:1?x=y", []string{"advertised.listeners=A://a:1?x=y"}},
		{"no value", "KAFKA_BROKER_RACK=", []string{"broker.rack="}},
		{"blanks and line ends in a value", "KAFKA_SUPER_USERS= User:a;\nUser:b ", []string{"super.users= User:a;\nUser:b "}},
		{"an underscore", "KAFKA_A__B_C=1", []string{"a_b.c=1"}},
		{"a dash", "KAFKA_LISTENER_NAME_A___B_SASL_ENABLED_MECHANISMS=PLAIN", []string{"listener.name.a-b.sasl.enabled.mechanisms=PLAIN"}},
		{"dash and dot", "KAFKA_A____B=1", []string{"a-.b=1"}},
		{"lower case", "KAFKA_broker_id=1", []string{"broker.id=1"}},
		{"another program's", "PATH=/bin", nil},
		{"a prefix only", "KAFKA_=1", nil},
		{"no underscore", "KAFKA=1", nil},
		{"in the middle", "MY_KAFKA_BROKER_ID=1", nil},
		{"heap", "KAFKA_HEAP_OPTS=-Xmx1g", nil},
		{"system properties", "KAFKA_OPTS=-Dx=y", nil},
		{"log4j", "KAFKA_LOG4J_OPTS=-Dx", nil},
		{"JMX", "KAFKA_JMX_PORT=9999", nil},
		{"Kubernetes' port", "KAFKA_PORT=tcp://10.0.0.1:9092", nil},
		{"Kubernetes' ports", "KAFKA_PORT_9092_TCP_ADDR=10.0.0.1", nil},
		{"Kubernetes' service", "KAFKA_SERVICE_HOST=10.0.0.1", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, environmentSettings([]string{test.variable})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnvironmentSettingsAreInTheOrderOfTheirKeys(t *testing.T) {
	got := environmentSettings([]string{"KAFKA_ZOOKEEPER_CONNECT=z:2181", "HOME=/", "KAFKA_BROKER_ID=1"})
	if diff := cmp.Diff([]string{"broker.id=1", "zookeeper.connect=z:2181"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"broker.id", "zookeeper.connect"}, keysOf(got)); diff != "" {
		t.Error(diff)
	}
}

// TestContainerSettings applies environment variables over the image's own file, as a container does.
func TestContainerSettings(t *testing.T) {
	const file = "../../config/container.properties"
	if _, err := config.Load(file, nil, nil); err == nil {
		t.Error("the image's file is valid without an ensemble")
	}
	cfg, err := config.Load(file, nil, environmentSettings([]string{"KAFKA_BROKER_ID=2", "KAFKA_ZOOKEEPER_CONNECT=z:2181",
		"KAFKA_LISTENERS=INSIDE://:29092,OUTSIDE://:9092", "KAFKA_ADVERTISED_LISTENERS=INSIDE://broker-2:29092,OUTSIDE://localhost:9093",
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT", "KAFKA_INTER_BROKER_LISTENER_NAME=INSIDE"}))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.BrokerID != 2 || cfg.ZookeeperConnect != "z:2181" || len(cfg.AdvertisedListeners) != 2 || cfg.LogDirs[0] != "/data/kafka-logs" {
		t.Errorf("broker %d, ZooKeeper %s, listeners %v, log directories %v", cfg.BrokerID, cfg.ZookeeperConnect, cfg.AdvertisedListeners, cfg.LogDirs)
	}
	if keys := cfg.Unknown(); len(keys) > 0 {
		t.Errorf("unknown keys %v", keys)
	}
}
