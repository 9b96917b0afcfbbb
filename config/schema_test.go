package config

import (
	"strings"
	"testing"
)

var typeNames = []string{"UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}

func TestBrokerSchema(t *testing.T) {
	importance := []string{"HIGH", "MEDIUM", "LOW"}
	update := []string{"read-only", "per-broker", "cluster-wide"}
	recorded := map[string]bool{}
	for _, want := range columns(t, "broker_keys.tsv") {
		name := want["name"]
		recorded[name] = true
		k := brokerSchema.byName[name]
		if k == nil {
			t.Errorf("%s: not in the schema", name)
			continue
		}
		if got := typeNames[k.Type]; got != want["type"] {
			t.Errorf("%s: type %s, want %s", name, got, want["type"])
		}
		checkDefault(t, k, want["default"])
		if got := importance[k.Importance]; got != want["importance"] {
			t.Errorf("%s: importance %s, want %s", name, got, want["importance"])
		}
		if got := update[k.Update]; !strings.HasSuffix(strings.TrimSuffix(want["update_mode"], " (dynamic only)"), got) {
			t.Errorf("%s: update mode %s, want %s", name, got, want["update_mode"])
		}
		if got := k.Sensitive(); got != (want["sensitive"] == "yes") {
			t.Errorf("%s: sensitive %v", name, got)
		}
		if got := brokerSchema.origins[name] == hidden; got != (want["internal"] == "internal") {
			t.Errorf("%s: hidden %v", name, got)
		}
		checkRange(t, k, want["valid_values"])
	}
	for _, k := range brokerSchema.keys {
		if !recorded[k.Name] && brokerSchema.origins[k.Name] != own {
			t.Errorf("%s: not a key of Apache Kafka", k.Name)
		}
	}
}

func TestTopicSchema(t *testing.T) {
	rows := columns(t, "topic_keys.tsv")
	if len(rows) != len(topicSchema.keys) {
		t.Errorf("%d keys, want %d", len(topicSchema.keys), len(rows))
	}
	for _, want := range rows {
		k := topicKey(want["name"])
		if k == nil {
			t.Errorf("%s: not in the schema", want["name"])
			continue
		}
		if got := typeNames[k.Type]; got != want["type"] {
			t.Errorf("%s: type %s, want %s", k.Name, got, want["type"])
		}
		checkDefault(t, k, want["default"])
		checkRange(t, k, want["valid_values"])
		if got := topicSynonyms[k.Name]; got != want["server_default_property"] {
			t.Errorf("%s: broker key %s, want %s", k.Name, got, want["server_default_property"])
		}
	}
}

// checkDefault compares the default, and checks that it is valid itself.
func checkDefault(t *testing.T, k *Key, want string) {
	t.Helper()
	text, ok := k.Default()
	switch {
	case !ok:
		text = "null"
	case text == "":
		text = "(empty)"
	}
	if text != want {
		t.Errorf("%s: default %s, want %s", k.Name, text, want)
	}
	if ok && k.def != "" {
		if _, err := k.parse(k.def); err != nil {
			t.Error(err)
		}
	}
}

// checkRange tries the bounds of a recorded range such as [1,...,9].
func checkRange(t *testing.T, k *Key, recorded string) {
	t.Helper()
	low, rest, ok := strings.Cut(strings.TrimPrefix(recorded, "["), ",...")
	if !ok || !strings.HasPrefix(recorded, "[") || strings.Contains(recorded, ":") {
		return
	}
	if _, err := k.parse(low); err != nil {
		t.Errorf("%v, but its range is %s", err, recorded)
	}
	if _, err := k.parse(below(low)); err == nil {
		t.Errorf("%s=%s: accepted, but its range is %s", k.Name, below(low), recorded)
	}
	if high := strings.Trim(rest, ",]"); rest != "]" && !strings.Contains(rest, "or") {
		if _, err := k.parse(high); err != nil {
			t.Errorf("%v, but its range is %s", err, recorded)
		}
		if _, err := k.parse("9" + high); err == nil {
			t.Errorf("%s=9%s: accepted, but its range is %s", k.Name, high, recorded)
		}
	}
}

// below returns a number just below an integer.
func below(number string) string {
	value, _ := parseValue(Long, number)
	n, ok := value.(int64)
	if !ok {
		return "-1"
	}
	return format(n - 1)
}

// TestDocumentation: each setting's documentation is a sentence that can stand alone, because clients show it without
// those of other settings: "Seconds of one such window." would not be understood.
func TestDocumentation(t *testing.T) {
	for _, keys := range [][]*Key{brokerSchema.keys, topicSchema.keys} {
		described := map[string]string{}
		for _, k := range keys {
			if other, taken := described[k.Doc]; taken {
				t.Errorf("%s and %s have the same documentation: %q", other, k.Name, k.Doc)
			}
			described[k.Doc] = k.Name
			if !strings.HasSuffix(k.Doc, ".") || strings.Contains(k.Doc, "\n") {
				t.Errorf("%s: the documentation must be a sentence: %q", k.Name, k.Doc)
			}
		}
	}
}
