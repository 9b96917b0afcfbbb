package config

import "testing"

// TestMessageFormat: which format is written, and whether a setting has no effect (LogConfig.MessageFormatVersion,
// 3.9).
func TestMessageFormat(t *testing.T) {
	for _, test := range []struct {
		name                    string
		protocol, broker, topic string // "": not set
		magic                   int8
		brokerIgnored, ignored  bool
	}{
		{"nothing is set", "", "", "", 2, false, false},
		{"the broker's, by an old protocol", "2.8", "0.10.2", "", 1, false, false},
		{"the topic's, by an old protocol", "2.8", "0.10.2", "0.9.0", 0, false, false},
		{"the topic's is newer than the broker's", "2.8", "0.10.2", "2.8", 2, false, false},
		{"the topic's is newer than the protocol", "2.6", "0.10.2", "2.8", 1, false, true},
		{"the default with an old protocol", "2.6", "", "", 2, false, false},
		{"the broker's, by a new protocol", "3.0", "0.10.2", "", 2, true, false},
		{"the topic's, by a new protocol", "", "", "0.10.2", 2, false, true},
		{"the same format, by a new protocol", "", "2.8", "1.0", 2, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			given := map[string]string{"broker.id": "1", "zookeeper.connect": "localhost:2181"}
			topic := make(map[string]string)
			for key, value := range map[string]string{"inter.broker.protocol.version": test.protocol, "log.message.format.version": test.broker} {
				if value != "" {
					given[key] = value
				}
			}
			if test.topic != "" {
				topic["message.format.version"] = test.topic
			}
			b, err := Parse(given)
			if err != nil {
				t.Fatal(err)
			}
			resolved, err := b.Topic(topic)
			if err != nil {
				t.Fatal(err)
			}
			if got := resolved.MessageFormatVersion.RecordVersion(); got != test.magic {
				t.Errorf("format %d, want %d", got, test.magic)
			}
			if b.FormatIgnored() != test.brokerIgnored || resolved.FormatIgnored() != test.ignored {
				t.Errorf("ignored formats: the broker's %v, the topic's %v", b.FormatIgnored(), resolved.FormatIgnored())
			}
		})
	}
}
